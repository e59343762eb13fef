//! What the engine executes: a workload with durations for its work and plans for its collectives.

use crate::jitter::Jitter;
use crate::slow::Slowdowns;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_fabric::Symmetry;
use syncline_plan::Algorithm;
use syncline_units::{Bytes, CollectiveKind, Extent, NpuId, RankId, Time, Turn, Turned};
use syncline_workload::{RoleId, TaskKind, Workload};

/// The index of a plan in [`Job::plans`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PlanId(pub u32);

impl PlanId {
    /// The index into a table of plans.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A job, ready to run.
#[derive(Debug)]
pub struct Job<'a> {
    /// Task graphs and groups.
    pub workload: &'a Workload,
    /// Duration of each compute task, by class and task; entries of other tasks are unused.
    pub durations: Vec<Vec<Time>>,
    /// Ranks whose compute is slower.
    pub slow: Slowdowns,
    /// How compute times vary.
    pub jitter: Jitter,
    /// Distinct plans.
    pub plans: Vec<CollectivePlan>,
    /// By class and task, its plan; `None` for tasks that are not collectives.
    pub plan_of: Vec<Vec<Option<PlanId>>>,
    /// What bounds messages that belong to no collective, besides the network.
    pub send_pace: Option<Arc<dyn SendPace>>,
    /// NPU of each rank; if empty, rank `i` is on NPU `i`.
    pub placement: Vec<NpuId>,
    /// When each rank begins; if empty, at time zero.
    pub starts: Vec<Time>,
    /// The first rank of each job, if several share the fabric; empty for a single job.
    pub jobs: Vec<RankId>,
    /// Which ranks are simulated. If ranks stand for others, rank `i` must be on NPU `i`, every turn must leave
    /// everything unchanged, and point-to-point tasks must stay at one coordinate of every turned axis.
    pub symmetry: Symmetry,
    /// Whether to skip iterations that repeat earlier ones.
    pub repeat: bool,
    /// How endpoints schedule.
    pub schedule: Schedule,
    /// Scheduling queues and directions of each accounting dimension (see [`PhasePlan::dim`]).
    pub dims: Vec<Lanes>,
    /// Ranks whose spans are recorded, ascending.
    pub traced: Vec<RankId>,
    /// Most spans recorded.
    pub max_spans: u64,
}

impl Job<'_> {
    /// The number of the job that `rank` belongs to.
    #[inline]
    pub fn number(&self, rank: RankId) -> u32 {
        (self.jobs.partition_point(|&first| first <= rank) as u32).saturating_sub(1)
    }

    /// The NPU of `rank`.
    #[inline]
    pub fn npu(&self, rank: RankId) -> NpuId {
        if self.placement.is_empty() { NpuId(rank.0) } else { self.placement[rank.index()] }
    }
}

/// Logical scheduling queues of a dimension (astra2020 IV-B). Chunks are dealt to the queues of a phase in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Queues of a phase.
    pub queues: u32,
    /// 2 if every other queue runs in the opposite direction, else 1.
    pub ways: u32,
    /// Queues of a broadcast or reduce, at most `queues`.
    pub rooted_queues: u32,
    /// `ways` of a broadcast or reduce.
    pub rooted_ways: u32,
}

impl Lanes {
    /// The same queues and directions for all collectives.
    #[must_use]
    pub fn of_all(queues: u32, ways: u32) -> Self {
        Self { queues, ways, rooted_queues: queues, rooted_ways: ways }
    }

    /// Number of queues of a phase.
    #[must_use]
    pub fn queues_of(self, kind: CollectiveKind) -> u32 {
        self.of(kind).0
    }

    /// Whether the chunks of a phase in queue `lane` run in the opposite direction.
    #[must_use]
    pub fn reverses(self, kind: CollectiveKind, lane: u32) -> bool {
        self.of(kind).1 == 2 && lane % 2 == 1
    }

    /// How many queues of a phase run in the opposite direction.
    #[must_use]
    pub fn backward(self, kind: CollectiveKind) -> u32 {
        let (queues, ways) = self.of(kind);
        if ways == 2 { queues / 2 } else { 0 }
    }

    fn of(self, kind: CollectiveKind) -> (u32, u32) {
        if kind.has_root() { (self.rooted_queues, self.rooted_ways) } else { (self.queues, self.ways) }
    }
}

/// One collective, planned for its group's shape.
#[derive(Clone, Debug)]
pub struct CollectivePlan {
    /// Its kind.
    pub kind: CollectiveKind,
    /// Its size.
    pub bytes: Bytes,
    /// Bytes of one element.
    pub element: u64,
    /// The chunks that the vector is cut into, in elements.
    pub chunks: Vec<Extent>,
    /// The phases that each chunk goes through.
    pub phases: Vec<PhasePlan>,
    /// Lower bound: no execution can be faster than this.
    pub bound: Time,
}

/// An axis of a group's grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupAxis {
    /// Distance, in group positions, between neighbours along the axis.
    pub weight: u32,
    /// Ranks along the axis.
    pub size: u32,
}

impl GroupAxis {
    /// Coordinate of `position` along the axis.
    #[inline]
    pub fn coordinate(self, position: u32) -> u32 {
        position / self.weight % self.size
    }
}

/// What is known about the messages of a phase beyond the network, such as from a calibrated library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// A message arrives no earlier than this after it was sent. The network may deliver it later.
    pub least: Time,
    /// Bytes that links carry for each byte of data, in units of 1 / [`Pace::WHOLE`]: more where a protocol adds flags,
    /// fewer where switches sum and multicast.
    pub wire: u32,
}

impl Pace {
    /// [`Pace::wire`] of a protocol that adds nothing.
    pub const WHOLE: u32 = 1 << 16;

    /// Bytes that links carry for a message of `bytes`, rounded up.
    #[inline]
    pub fn wire_bytes(self, bytes: u64) -> u64 {
        let all = u128::from(bytes) * u128::from(self.wire);
        u64::try_from(all.div_ceil(u128::from(Self::WHOLE))).unwrap_or(u64::MAX)
    }
}

/// What is known about messages that belong to no collective, beyond the network.
pub trait SendPace: std::fmt::Debug + Send + Sync {
    /// What bounds a message of `bytes` besides the network, if anything does.
    fn of(&self, from: NpuId, to: NpuId, bytes: u64) -> Option<Pace>;
}

/// One phase of a plan.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// What the phase computes along its axis.
    pub kind: CollectiveKind,
    /// Its axis.
    pub axis: GroupAxis,
    /// Axes along which the vector is already divided, in the order in which it was cut.
    pub cuts: Vec<GroupAxis>,
    /// Axes on which only coordinate 0 takes part (broadcast and reduce over several axes).
    pub root_axes: Vec<GroupAxis>,
    /// Accounting dimension: one of the fabric's, or the last one of [`Job::dims`] for everything else.
    pub dim: u16,
    /// Distinguishes phases of one dimension: 0 on the way up, 1 on the way down.
    pub leg: u8,
    /// What the ranks along the axis do.
    pub algorithm: Arc<dyn Algorithm>,
    /// Its number of streams.
    pub streams: u32,
    /// How its programs are translated into one another ([`Algorithm::turn`]).
    pub turn: Option<Turn>,
    /// How its axis is turned, if [`Job::symmetry`] turns it.
    pub turned: Option<Turned>,
    /// What bounds its messages besides the network, if anything does.
    pub pace: Option<Pace>,
}

/// The role that uses each of `plans` plans, given the plan of each task.
pub fn roles_of_plans(
    workload: &Workload,
    plan_of: &[Vec<Option<PlanId>>],
    plans: usize,
) -> Vec<Option<RoleId>> {
    let mut roles = vec![None; plans];
    for (graph, of) in workload.classes.iter().zip(plan_of) {
        for (task, &plan) in graph.tasks.iter().zip(of) {
            if let (TaskKind::Collective { role, .. }, Some(plan)) = (&task.kind, plan) {
                roles[plan.index()] = Some(*role);
            }
        }
    }
    roles
}

impl PhasePlan {
    /// Coordinate of `position` along the phase's axis.
    #[inline]
    pub fn coordinate(&self, position: u32) -> u32 {
        self.axis.coordinate(position)
    }
    /// The distance from `from` to `to` along the axis, which is the same for all ranks that are translations of each
    /// other.
    #[inline]
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        self.turn.unwrap_or(Turn::Cyclic).seen_from(from, to, self.axis.size)
    }
    /// Whether `position` takes part.
    #[inline]
    pub fn takes_part(&self, position: u32) -> bool {
        self.root_axes.iter().all(|axis| axis.coordinate(position) == 0)
    }
    /// The part of `chunk` that `position` works on.
    #[inline]
    pub fn extent(&self, chunk: Extent, position: u32) -> Extent {
        self.cuts.iter().fold(chunk, |extent, axis| extent.blocks(axis.coordinate(position), 1, axis.size))
    }
}

/// Which collective goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    /// The collective that was issued first.
    #[default]
    Fifo,
    /// The collective that was issued last.
    Lifo,
    /// All-to-alls before all others, then collectives that block the forward pass before those that do not; among
    /// equal ones, the one issued last (dlrm2020 III-C.1).
    Priority,
}

/// Which chunks share a ready queue and scheduling queues, and thus `issue_threshold`, `issue_batch` and
/// `active_chunks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedulers {
    /// The chunks of one process group: groups run independently of each other, as NCCL's communicators do.
    #[default]
    PerGroup,
    /// All chunks of a rank (astra2020 IV-B).
    PerRank,
}

/// How an endpoint schedules its chunks (astra2020 IV-B, dlrm2020 III-C.1). A limit of `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Which set goes first.
    pub order: QueueOrder,
    /// Which chunks share the next three limits.
    pub schedulers: Schedulers,
    /// T: chunks are issued while fewer than this many are in their first phase.
    pub issue_threshold: Option<NonZeroU32>,
    /// P: how many chunks are issued at once.
    pub issue_batch: Option<NonZeroU32>,
    /// Most running chunks per queue.
    pub active_chunks: Option<NonZeroU32>,
    /// Most running chunks per dimension.
    pub outstanding: Option<NonZeroU32>,
    /// Most collectives under way at once.
    pub concurrent: Option<NonZeroU32>,
    /// Constant delay after a message arrives.
    pub endpoint_delay: Time,
    /// Time between memory and network interface, added on both sides.
    pub injection_latency: Time,
    /// Rate of local reduction; with `None`, reduction takes no time.
    pub reduction_rate: Option<syncline_units::Rate>,
}

impl Schedule {
    /// Whether anything limits how much runs at once.
    pub fn is_limited(&self) -> bool {
        [self.issue_threshold, self.active_chunks, self.outstanding, self.concurrent]
            .iter()
            .any(Option::is_some)
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            order: QueueOrder::Fifo,
            schedulers: Schedulers::PerGroup,
            issue_threshold: None,
            issue_batch: None,
            active_chunks: None,
            outstanding: None,
            concurrent: None,
            endpoint_delay: Time::ZERO,
            injection_latency: Time::ZERO,
            reduction_rate: None,
        }
    }
}
