//! Times of a rank: how long operations of each kind ran. ASTRA-sim 2, `Statistics.cc`.

use super::roofline::Cost;
use crate::outcome::{RankResult, Roofline};
use syncline_formats::chakra::{NodeKind, Op};

/// The kind of operation that a node's time counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Cpu,
    Gpu,
    Comm,
    Memory,
    None,
}

impl Activity {
    pub(crate) const fn of(op: &Op) -> Self {
        match op.kind {
            NodeKind::Comp if op.cpu => Self::Cpu,
            NodeKind::Comp => Self::Gpu,
            NodeKind::CommColl | NodeKind::CommSend | NodeKind::CommRecv => Self::Comm,
            NodeKind::MemLoad | NodeKind::MemStore => Self::Memory,
            NodeKind::Invalid | NodeKind::Metadata => Self::None,
        }
    }
}

/// The union of intervals, added in order.
#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    active: u32,
    since: u64,
    total: u64,
    any: bool,
}

impl Covered {
    fn start(&mut self, now: u64) {
        if self.active == 0 {
            self.since = now;
        }
        self.active += 1;
        self.any = true;
    }
    fn end(&mut self, now: u64) {
        self.active = self.active.saturating_sub(1);
        if self.active == 0 {
            self.total += now - self.since;
        }
    }
    fn time(&self) -> Option<u64> {
        self.any.then_some(self.total)
    }
}

/// The times of a rank so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    covered: [Covered; 5],
    wall: u64,
    /// Total time of accelerator operations, each counted separately.
    operations: u64,
    /// Sums over computations, weighted by their time.
    compute_bound: u64,
    compute_utilization: f64,
    memory_utilization: f64,
    intensity: f64,
}

impl Statistics {
    pub(crate) fn start(&mut self, activity: Activity, now: u64) {
        self.covered[activity as usize].start(now);
    }
    pub(crate) fn end(&mut self, activity: Activity, now: u64) {
        self.covered[activity as usize].end(now);
        self.wall = self.wall.max(now);
    }
    /// Counts a replayed node of the accelerator.
    pub(crate) const fn replayed(&mut self, time: u64) {
        self.operations = self.operations.saturating_add(time);
    }
    /// Counts a computation under the roofline model.
    pub(crate) fn computed(&mut self, cost: &Cost) {
        self.replayed(cost.time);
        let time = cost.time as f64;
        if cost.compute_bound {
            self.compute_bound += cost.time;
        }
        self.compute_utilization += cost.compute_utilization * time;
        self.memory_utilization += cost.memory_utilization * time;
        self.intensity += cost.intensity * time;
    }
    pub(crate) fn result(&self, rank: u32, now: u64, roofline: bool) -> RankResult {
        let [cpu, gpu, comm, memory, _] = self.covered;
        // One nanosecond more, as in ASTRA-sim, to avoid a division by zero.
        let total = (1 + cpu.total + gpu.total) as f64;
        let exposed = i128::from(now) - i128::from(self.operations);
        RankResult {
            rank,
            cycles: now,
            exposed: i64::try_from(exposed).unwrap_or(i64::MIN),
            wall: self.wall,
            gpu: gpu.time(),
            comm: comm.time(),
            cpu: cpu.time(),
            memory: memory.time(),
            roofline: roofline.then(|| Roofline {
                compute_bound: self.compute_bound as f64 / total,
                compute_utilization: self.compute_utilization / total,
                memory_utilization: self.memory_utilization / total,
                intensity: self.intensity / total,
            }),
        }
    }
}
