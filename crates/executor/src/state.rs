//! The state that all groups of a communicator share, with each other and with the monitor: what is under way, and
//! what has failed.

use super::command::{Command, LaneHandle};
use super::counters::Counters;
use super::group_info::GroupInfo;
use super::pending::Completion;
use super::plan_changes::{PlanChange, PlanChanges};
use super::polled_lane::PolledLane;
use super::report::Report;
use super::signals::{OperationSpan, Recording, Times};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use syncline_protocol::extract::take_out;
use syncline_protocol::fault::{FailedOperation, Fault, Task};
use syncline_protocol::memory::Operands;
use syncline_protocol::operation::Operation;
use syncline_protocol::settings::Settings;

/// An operation under way.
#[derive(Debug)]
pub(super) struct RunningOperation {
    pub completion: Arc<Completion>,
    pub operation: Operation,
    pub began: Instant,
    pub deadline: Duration,
    pub memory: Operands,
    /// Whether the input is lost if the operation fails.
    pub consumes: bool,
}

/// An operation whose input is lost, or would be lost if the operation failed now.
#[derive(Clone, Copy, Debug)]
pub struct LostInput {
    /// The operation's number in its group.
    pub sequence: u64,
    /// What it is.
    pub operation: Operation,
}

impl LostInput {
    fn of((&(_, sequence), running): (&(u32, u64), &RunningOperation)) -> Self {
        Self { sequence, operation: running.operation }
    }
}

/// A transfer under way.
#[derive(Debug)]
pub(super) struct RunningTransfer {
    pub completion: Arc<Completion>,
    pub task: Task,
    pub began: Instant,
    pub deadline: Duration,
    pub group: Arc<GroupInfo>,
}

/// What changes about a group.
#[derive(Debug)]
pub(super) struct GroupState {
    pub info: Arc<GroupInfo>,
    /// The number that its caller gave it; 0 for the whole job.
    pub name: u64,
    /// How long an operation or transfer that begins now may take.
    pub deadline: Duration,
    /// The number of the newest operation.
    pub newest: u64,
    /// Why no operation of this group can begin any more, if that applies to this group only.
    pub failed: Option<Arc<Fault>>,
    /// Lanes that no longer use the group's slot.
    pub released: usize,
    /// Whether the caller has dropped the group.
    pub left: bool,
    pub changes: PlanChanges,
    pub times: Times,
}

impl GroupState {
    pub(super) fn new(info: Arc<GroupInfo>, name: u64, deadline: Duration) -> Self {
        Self {
            info,
            name,
            deadline,
            newest: 0,
            failed: None,
            released: 0,
            left: false,
            changes: PlanChanges::new(),
            times: Times::default(),
        }
    }
}

/// The state that callers and the monitor share.
#[derive(Debug)]
pub(super) struct State {
    /// Why no operation of any group can begin any more.
    pub failed: Option<Arc<Fault>>,
    /// The first operation that failed and whose input is lost.
    pub consumed: Option<LostInput>,
    /// By slot of the group and number of the operation.
    pub operations: BTreeMap<(u32, u64), RunningOperation>,
    pub transfers: BTreeMap<u64, RunningTransfer>,
    pub newest_transfer: u64,
    /// Proposals of new plans that this rank has made, and where their decisions go.
    pub proposals: BTreeMap<u64, Sender<PlanChange>>,
    pub newest_proposal: u64,
    /// Editions that were decided lately, also of groups that this rank has not made; and whether no more decisions come.
    pub decided_editions: VecDeque<u32>,
    pub undecidable: bool,
    /// Operations that are over, if they are recorded.
    pub recording: Option<Recording>,
    /// By slot.
    pub groups: BTreeMap<u32, GroupState>,
    /// How many groups of each name this rank has made so far.
    pub made: BTreeMap<u64, u64>,
}

impl State {
    /// Removes a group's oldest operations that are over, up to the first that is not. Lanes do not report
    /// that an operation is over: its caller learns that from the completion, and the state may
    /// learn it later.
    pub(super) fn remove_oldest_finished(&mut self, group: &GroupInfo) {
        let oldest_finished = |state: &mut Self| {
            let mut of_group = state.operations.range((group.slot, 0)..(group.slot + 1, 0));
            of_group.next().filter(|(_, each)| each.completion.over()).map(|(&key, _)| key)
        };
        while let Some(key) = oldest_finished(self) {
            let over = self.operations.remove(&key).expect("found just now");
            group.counters.over.fetch_add(1, Ordering::Relaxed);
            self.note(group.slot, &over);
        }
    }

    /// Notes the time of an operation that is over.
    fn note(&mut self, slot: u32, over: &RunningOperation) {
        let (Some(group), Some(ended)) = (self.groups.get_mut(&slot), over.completion.succeeded()) else {
            return;
        };
        group.times.count(&over.operation, ended.saturating_duration_since(over.began));
        if let Some(recording) = &mut self.recording {
            let (kind, bytes) = (over.operation.kind, over.operation.bytes());
            recording.add(OperationSpan { group: group.info.id, kind, bytes, began: over.began, ended });
        }
    }

    /// Removes all operations and transfers that are over, in all groups.
    pub(super) fn remove_finished(&mut self) {
        let over = take_out(&mut self.operations, |_, each| each.completion.over());
        for ((slot, _), over) in over {
            self.note(slot, &over);
            if let Some(group) = self.groups.get(&slot) {
                group.info.counters.over.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.transfers.retain(|_, each| !each.completion.over());
    }

    /// Removes a group, so that its slot can be used again, once the caller has dropped it and all `lanes`
    /// have released it.
    pub(super) fn remove_unused_group(&mut self, slot: u32, lanes: usize) {
        let unused = |group: &GroupState| group.left && group.released == lanes;
        if self.groups.get(&slot).is_some_and(unused) {
            self.groups.remove(&slot);
        }
    }

    /// The first operation that failed and whose input is lost, or else the first one under way whose input
    /// would be lost if it failed now.
    pub(super) fn lost_input(&self) -> Option<LostInput> {
        let mut open = self.operations.iter().filter(|(_, each)| each.consumes && !each.completion.over());
        self.consumed.or_else(|| open.next().map(LostInput::of))
    }
}

/// What all groups of a communicator share, with each other and with the monitor.
#[derive(Debug)]
pub(super) struct Shared {
    pub lanes: Vec<LaneHandle>,
    /// The lanes that callers poll while they wait; empty if callers sleep.
    pub polled: Arc<[Arc<PolledLane>]>,
    pub settings: Settings,
    counters: Arc<Counters>,
    state: Mutex<State>,
    /// Signalled when operations may begin that waited for a decision on plans.
    pub decided: Condvar,
    /// Groups whose plans may change, on a decision that this rank does not know yet.
    pub undecided: AtomicUsize,
    /// To the monitor.
    pub reports: Sender<Report>,
    /// Held while lanes release a group's memory, so that a second close of the group returns no earlier.
    closing: Mutex<()>,
}

impl Shared {
    pub(super) fn new(
        lanes: Vec<LaneHandle>,
        polled: Arc<[Arc<PolledLane>]>,
        settings: Settings,
        counters: Arc<Counters>,
        job: &Arc<GroupInfo>,
        reports: Sender<Report>,
    ) -> Self {
        let job = GroupState::new(Arc::clone(job), 0, settings.deadline);
        let state = State {
            failed: None,
            consumed: None,
            operations: BTreeMap::new(),
            transfers: BTreeMap::new(),
            newest_transfer: 0,
            proposals: BTreeMap::new(),
            newest_proposal: 0,
            decided_editions: VecDeque::new(),
            undecidable: false,
            recording: None,
            groups: BTreeMap::from([(0, job)]),
            made: BTreeMap::new(),
        };
        Self {
            lanes,
            polled,
            settings,
            counters,
            state: Mutex::new(state),
            decided: Condvar::new(),
            undecided: AtomicUsize::new(0),
            reports,
            closing: Mutex::new(()),
        }
    }

    /// Locks the state.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts one more lane that no longer uses the slot of a group that was left.
    pub(super) fn release(&self, slot: u32) {
        let mut state = self.lock();
        if let Some(group) = state.groups.get_mut(&slot) {
            group.released += 1;
        }
        state.remove_unused_group(slot, self.lanes.len());
    }

    /// Closes a group because of a fault. Its operations and transfers fail once their inputs are restored;
    /// other groups go on. `lost` is the member of the job that left the group and is needed, if that is the
    /// fault.
    pub(super) fn close_group(&self, slot: u32, fault: &Arc<Fault>, lost: Option<u32>) {
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        let Some(group) = state.groups.get_mut(&slot).filter(|group| group.failed.is_none()) else {
            return;
        };
        group.failed = Some(Arc::clone(fault));
        let id = group.info.id;
        self.drop_undecided(group);
        drop(state);
        self.decided.notify_all();
        let (done, all_done) = channel();
        for lane in &self.lanes {
            lane.send(Command::Close { slot, lost, done: done.clone() });
        }
        drop(done);
        // The loop ends once every lane has dropped its sender, as a thread that ends does, too.
        while all_done.recv().is_ok() {}
        let mut state = self.lock();
        state.remove_finished();
        let consumed = |each: &RunningOperation| each.consumes && !each.completion.over();
        let lost_input = state.operations.range((slot, 0)..(slot + 1, 0)).find(|(_, each)| consumed(each));
        state.consumed = state.consumed.or(lost_input.map(LostInput::of));
        let operations = take_out(&mut state.operations, |&(of, _), _| of == slot).into_iter();
        let operations: Vec<(u64, RunningOperation)> =
            operations.map(|((_, sequence), each)| (sequence, each)).collect();
        let transfers = take_out(&mut state.transfers, |_, each| each.group.id == id);
        let transfers: Vec<RunningTransfer> = transfers.into_iter().map(|(_, each)| each).collect();
        drop((state, closing));
        fail_all(fault, operations, transfers);
        self.counters.remove_group(id);
    }
}

/// Ends operations and transfers with a fault. Each one's fault says what was under way, and for how long.
pub(super) fn fail_all(
    fault: &Fault,
    operations: Vec<(u64, RunningOperation)>,
    transfers: Vec<RunningTransfer>,
) {
    for (number, RunningOperation { completion, operation, began, .. }) in operations {
        let task = Task::Collective { number, operation };
        let during = Some(FailedOperation { task, elapsed: began.elapsed() });
        completion.end(Err(Arc::new(Fault { during, ..fault.clone() })));
    }
    for RunningTransfer { completion, task, began, .. } in transfers {
        let during = Some(FailedOperation { task, elapsed: began.elapsed() });
        completion.end(Err(Arc::new(Fault { during, ..fault.clone() })));
    }
}
