//! Counters of a communicator's operations and memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use syncline_membership::message::Progress;
use syncline_protocol::plan_book::PlanBook;
use syncline_transport::lane_status::LaneStatus;

/// Received bytes that a communicator keeps until they are needed, over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of collectives' messages that arrived before this rank needed them.
    pub early: u64,
    /// The maximum of `early` so far.
    pub most_early: u64,
    /// Bytes of transfers that arrived before this rank received them.
    pub transfers: u64,
}

/// How many operations of one group have begun, and how many are over.
#[derive(Debug, Default)]
pub(crate) struct GroupCounters {
    pub begun: AtomicU64,
    pub over: AtomicU64,
}

/// Received bytes that one lane keeps: see [`Kept`].
#[derive(Debug, Default)]
pub(super) struct LaneCounters {
    pub early: AtomicU64,
    pub most_early: AtomicU64,
    pub transfers: AtomicU64,
}

/// Counters of a communicator, for its caller and its coordinator.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Of the group of all ranks.
    job: Arc<GroupCounters>,
    /// Of the other groups, by the number that all members of a group use for it.
    groups: Mutex<BTreeMap<u64, Arc<GroupCounters>>>,
    lanes: Mutex<Vec<Arc<LaneCounters>>>,
    /// What the lanes know about their peers, and the book that has the peers' names.
    peers: OnceLock<(Vec<Arc<LaneStatus>>, Arc<PlanBook>)>,
}

impl Counters {
    /// Operations of a group that have begun and that are over; group 0 is the whole job. Zeros if this rank
    /// has not made the group.
    pub(crate) fn progress(&self, group: u64) -> Progress {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = if group == 0 { Some(&self.job) } else { groups.get(&group) };
        counters.map_or_else(Progress::default, |counters| Progress {
            begun: counters.begun.load(Ordering::Relaxed),
            over: counters.over.load(Ordering::Relaxed),
        })
    }

    /// Ranks that some lane has received something from recently.
    pub(crate) fn heard_peers(&self) -> Vec<u32> {
        let Some((lanes, book)) = self.peers.get() else { return Vec::new() };
        let heard: BTreeSet<u32> = lanes.iter().flat_map(|lane| lane.hears()).collect();
        heard.into_iter().map(|peer| book.name(peer)).collect()
    }

    /// Sets where [`Counters::heard_peers`] looks.
    pub(super) fn set_peers(&self, lanes: Vec<Arc<LaneStatus>>, book: &Arc<PlanBook>) {
        _ = self.peers.set((lanes, Arc::clone(book)));
    }

    /// The counters of the group of all ranks.
    pub(super) fn of_job(&self) -> Arc<GroupCounters> {
        Arc::clone(&self.job)
    }

    /// Adds the counters of a group. `id` is the number that all its members use for it.
    pub(super) fn add_group(&self, id: u64) -> Arc<GroupCounters> {
        let counters = Arc::new(GroupCounters::default());
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(&counters));
        counters
    }

    /// Removes the counters of a group.
    pub(super) fn remove_group(&self, id: u64) {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Adds counters for one more lane.
    pub(super) fn add_lane(&self) -> Arc<LaneCounters> {
        let counters = Arc::new(LaneCounters::default());
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
        counters
    }

    /// Sums over all lanes.
    pub(super) fn kept(&self) -> Kept {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |counter: fn(&LaneCounters) -> &AtomicU64| {
            lanes.iter().map(|lane| counter(lane).load(Ordering::Relaxed)).sum()
        };
        Kept {
            early: sum(|lane| &lane.early),
            most_early: sum(|lane| &lane.most_early),
            transfers: sum(|lane| &lane.transfers),
        }
    }
}
