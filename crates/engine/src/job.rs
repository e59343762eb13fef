//! What the engine executes: a workload whose work has become time and whose collectives have become plans.

use crate::jitter::Jitter;
use crate::slow::Slowdowns;
use std::sync::Arc;
use syncline_fabric::Symmetry;
use syncline_plan::Algorithm;
use syncline_units::{Bytes, CollectiveKind, Extent, NpuId, Time, Turn, Turned};
use syncline_workload::Workload;

/// A job, ready to run.
#[derive(Debug)]
pub struct Job<'a> {
    /// Task graphs and groups.
    pub workload: &'a Workload,
    /// Duration of each compute task, by class and task; unused for other tasks.
    pub durations: Vec<Vec<Time>>,
    /// Ranks whose compute is slower.
    pub slow: Slowdowns,
    /// How compute times vary.
    pub jitter: Jitter,
    /// Distinct plans.
    pub plans: Vec<CollectivePlan>,
    /// Plan of each collective task, by class and task; unused for other tasks.
    pub plan_of: Vec<Vec<u32>>,
    /// NPU of each rank; empty means that rank `i` is on NPU `i`.
    pub placement: Vec<NpuId>,
    /// When each rank begins; empty means at time zero.
    pub starts: Vec<Time>,
    /// The first rank of each job, where several share the fabric; empty for one.
    pub jobs: Vec<u32>,
    /// Which ranks are simulated. Where some stand for others, rank `i` is on NPU `i`, everything is the same after every
    /// turn, and point-to-point tasks keep to one coordinate of every axis that is turned.
    pub symmetry: Symmetry,
    /// Whether iterations that are like earlier ones are left out of the simulation.
    pub repeat: bool,
    /// How endpoints schedule.
    pub schedule: Schedule,
    /// Logical scheduling queues and ways round of each accounting dimension (see [`PhasePlan::dim`]).
    pub dims: Vec<Lanes>,
    /// Ranks whose spans are kept, ascending.
    pub traced: Vec<u32>,
    /// Most spans kept.
    pub max_spans: u64,
}

impl Job<'_> {
    /// The number of the job that `rank` belongs to, of several.
    #[inline]
    pub fn number(&self, rank: u32) -> u32 {
        (self.jobs.partition_point(|&first| first <= rank) as u32).saturating_sub(1)
    }

    /// The NPU of `rank`.
    #[inline]
    pub fn npu(&self, rank: u32) -> NpuId {
        if self.placement.is_empty() { NpuId(rank) } else { self.placement[rank as usize] }
    }
}

/// Logical scheduling queues of a dimension (astra2020 IV-B). Chunks are dealt to the queues of a phase in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Queues of a phase.
    pub queues: u32,
    /// 2 where every other queue runs against the usual direction.
    pub ways: u32,
    /// Queues of a broadcast or reduce, of at most `queues`.
    pub rooted_queues: u32,
    /// `ways` of a broadcast or reduce.
    pub rooted_ways: u32,
}

impl Lanes {
    /// Queues and ways that are the same for all collectives.
    #[must_use]
    pub fn of_all(queues: u32, ways: u32) -> Self {
        Self { queues, ways, rooted_queues: queues, rooted_ways: ways }
    }

    /// The queues of a phase.
    #[must_use]
    pub fn queues_of(self, kind: CollectiveKind) -> u32 {
        self.of(kind).0
    }

    /// Whether the chunks of a phase in queue `lane` run against the usual direction.
    #[must_use]
    pub fn reverses(self, kind: CollectiveKind, lane: u32) -> bool {
        self.of(kind).1 == 2 && lane % 2 == 1
    }

    /// How many queues of a phase run against the usual direction.
    #[must_use]
    pub fn backward(self, kind: CollectiveKind) -> u32 {
        let (queues, ways) = self.of(kind);
        if ways == 2 { queues / 2 } else { 0 }
    }

    fn of(self, kind: CollectiveKind) -> (u32, u32) {
        match kind {
            CollectiveKind::Broadcast | CollectiveKind::Reduce => (self.rooted_queues, self.rooted_ways),
            _ => (self.queues, self.ways),
        }
    }
}

/// One collective, planned for its group's shape.
#[derive(Clone, Debug)]
pub struct CollectivePlan {
    /// What it promises.
    pub kind: CollectiveKind,
    /// Its size.
    pub bytes: Bytes,
    /// Bytes of one element.
    pub element: u64,
    /// The chunks that the set is cut into, in elements.
    pub chunks: Vec<Extent>,
    /// What every chunk goes through.
    pub phases: Vec<PhasePlan>,
    /// No execution can be faster than this.
    pub bound: Time,
}

/// One phase of a plan.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// What the phase promises along its axis.
    pub kind: CollectiveKind,
    /// Ranks along the axis.
    pub size: u32,
    /// Positions in the group between neighbours along the axis.
    pub weight: u32,
    /// Axes along which the vector is already divided: `(weight, size)`, in the order in which it was cut.
    pub cuts: Vec<(u32, u32)>,
    /// Axes on which only coordinate 0 takes part (broadcast and reduce over several axes): `(weight, size)`.
    pub gates: Vec<(u32, u32)>,
    /// Accounting dimension: one of the fabric's, or the last one of [`Job::dims`] for everything else.
    pub dim: u16,
    /// Tells phases of one dimension apart: 0 on the way up, 1 on the way down.
    pub leg: u8,
    /// What the ranks along the axis do.
    pub algorithm: Arc<dyn Algorithm>,
    /// Its number of streams.
    pub streams: u32,
    /// How its programs follow from one another ([`Algorithm::turn`]).
    pub turn: Option<Turn>,
    /// How its axis is turned, where [`Job::symmetry`] turns it.
    pub turned: Option<Turned>,
}

impl PhasePlan {
    /// Coordinate of `position` along the phase's axis.
    #[inline]
    pub fn coordinate(&self, position: u32) -> u32 {
        position / self.weight % self.size
    }
    /// How far `to` is from `from` along the axis, as all ranks see it that follow from one another.
    #[inline]
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        self.turn.unwrap_or(Turn::Cyclic).seen_from(from, to, self.size)
    }
    /// Whether `position` takes part.
    #[inline]
    pub fn takes_part(&self, position: u32) -> bool {
        self.gates.iter().all(|&(weight, size)| (position / weight).is_multiple_of(size))
    }
    /// The part of `chunk` that `position` works on.
    #[inline]
    pub fn extent(&self, chunk: Extent, position: u32) -> Extent {
        self.cuts.iter().fold(chunk, |e, &(weight, size)| e.blocks(position / weight % size, 1, size))
    }
}

/// Which set goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// Issued first.
    #[default]
    Fifo,
    /// Issued last.
    Lifo,
    /// All-to-all first, then blocking ones, then the one issued last (dlrm2020 III-C.1).
    Priority,
}

/// Which chunks share a ready queue and scheduling queues, and thus `issue_threshold`, `issue_batch` and `active_chunks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Schedulers {
    /// Those of one process group: groups run independently of each other, as NCCL's communicators do.
    #[default]
    PerGroup,
    /// All of a rank (astra2020 IV-B).
    PerRank,
}

/// How an endpoint schedules its chunks (astra2020 IV-B, dlrm2020 III-C.1). Zero means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Which set goes first.
    pub order: Order,
    /// Which chunks share the next three limits.
    pub schedulers: Schedulers,
    /// T: chunks are issued while fewer than this many are in their first phase.
    pub issue_threshold: u32,
    /// P: how many are issued at once.
    pub issue_batch: u32,
    /// Running chunks per queue.
    pub active_chunks: u32,
    /// Running chunks per dimension.
    pub outstanding: u32,
    /// Collectives under way at once.
    pub concurrent: u32,
    /// Constant delay after a message arrives.
    pub endpoint_delay: Time,
    /// Time between memory and network interface, paid on both sides.
    pub injection_latency: Time,
    /// Rate of local reduction; `None` costs no time.
    pub reduction_rate: Option<syncline_units::Rate>,
}

impl Schedule {
    /// Whether there is any limit on what runs at once.
    pub fn is_limited(&self) -> bool {
        [self.issue_threshold, self.active_chunks, self.outstanding, self.concurrent]
            .iter()
            .any(|&limit| limit > 0)
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            order: Order::Fifo,
            schedulers: Schedulers::PerGroup,
            issue_threshold: 0,
            issue_batch: 0,
            active_chunks: 0,
            outstanding: 0,
            concurrent: 0,
            endpoint_delay: Time::ZERO,
            injection_latency: Time::ZERO,
            reduction_rate: None,
        }
    }
}
