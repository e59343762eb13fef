//! Which dimensions may be turned without anything changing, so that one rank stands for many.
//!
//! A dimension is turned where all of this holds, and every rank is simulated along it where not:
//!
//! - the fabric is regular and whole, and rank `i` is on NPU `i`;
//! - what a rank sends outside collectives goes to ranks with its own coordinate in this dimension;
//! - ranks that differ only in this dimension have the same tasks and compute durations, send to and receive from ranks that
//!   are as far from them, and are slow alike;
//! - each group takes the dimension whole, or not at all;
//! - the plans along it follow from one rank's ([`Algorithm::turn`](syncline_plan::Algorithm::turn)), all by the same
//!   turn, and no phase singles out coordinate 0;
//! - every block is as long as its neighbours: what is cut along it divides evenly;
//! - its links have latency, or nothing shares them: between events of one time, the order of ranks must not count.

use crate::plans::Plans;
use std::collections::BTreeSet;
use syncline_engine::{CollectivePlan, Slowdowns};
use syncline_fabric::{Fabric, Symmetry};
use syncline_units::{DimKind, NpuId, RankId, Turn};
use syncline_workload::{Role, TaskGraph, TaskKind, Workload};

/// Finds the dimensions that may be turned, and marks the phases that run along them.
pub(crate) fn find(
    fabric: &Fabric,
    workload: &Workload,
    placement: &[NpuId],
    slow: &Slowdowns,
    plans: &mut Plans,
) -> Symmetry {
    let mut search = Search { fabric, workload, turns: vec![Some(None); fabric.dims().len()] };
    if fabric.is_graph() || fabric.is_damaged() || !placement.is_empty() || workload.ranks != fabric.npus() {
        return Symmetry::none(fabric);
    }
    search.latencies();
    search.classes();
    search.slow(slow);
    let roles = roles_of(workload, plans);
    for &role in roles.iter().flatten() {
        search.group(&workload.roles[role]);
    }
    for (plan, role) in plans.plans.iter().zip(&roles) {
        search.phases(plan, &workload.roles[role.expect("a plan has a task")]);
    }
    // What stays cuts unevenly, which can keep others: until nothing changes.
    loop {
        let before = search.turns.clone();
        for (plan, role) in plans.plans.iter().zip(&roles) {
            search.blocks(plan, &workload.roles[role.expect("a plan has a task")]);
        }
        if search.turns == before {
            break;
        }
    }
    let turns: Vec<Option<Turn>> =
        search.turns.iter().map(|turn| turn.map(|turn| turn.unwrap_or(Turn::Cyclic))).collect();
    let symmetry = Symmetry::new(fabric, &turns);
    for phase in plans.plans.iter_mut().flat_map(|plan| &mut plan.phases) {
        phase.turned = symmetry.turn(usize::from(phase.dim));
    }
    symmetry
}

/// The role that uses each plan.
fn roles_of(workload: &Workload, plans: &Plans) -> Vec<Option<usize>> {
    let mut roles = vec![None; plans.plans.len()];
    for (graph, of) in workload.classes.iter().zip(&plans.plan_of) {
        for (task, &plan) in graph.tasks.iter().zip(of) {
            if let TaskKind::Collective { role, .. } = task.kind {
                roles[plan as usize] = Some(role.index());
            }
        }
    }
    roles
}

struct Search<'a> {
    fabric: &'a Fabric,
    workload: &'a Workload,
    /// Of each dimension: `None` where it stays, `Some(None)` where any turn will do so far.
    turns: Vec<Option<Option<Turn>>>,
}

impl Search<'_> {
    fn keep_all(&mut self) {
        self.turns.fill(None);
    }

    /// The dimension that is the axis with `weight` positions between neighbours.
    fn dim_of(&self, role: &Role, weight: u32) -> Option<usize> {
        let mut below = 1;
        for axis in &role.axes {
            if below == weight && axis.size > 1 {
                return axis.dim.map(usize::from);
            }
            below *= axis.size;
        }
        None
    }

    fn latencies(&mut self) {
        for (turn, dim) in self.turns.iter_mut().zip(self.fabric.dims()) {
            if dim.latency.is_zero() && dim.size > 1 && dim.kind != DimKind::FullyConnected {
                *turn = None;
            }
        }
    }

    fn classes(&mut self) {
        let peers: Vec<Vec<RankId>> = self.workload.classes.iter().map(TaskGraph::peers).collect();
        let alone = peers.iter().all(Vec::is_empty);
        if self.workload.class_runs.len() < 2 && alone {
            return;
        }
        let class_of = |rank: u32| self.workload.class_of(rank) as usize;
        for (turn, dim) in self.turns.iter_mut().zip(self.fabric.dims()) {
            let same = |rank: u32| {
                let first = rank - dim.coordinate(rank) * dim.stride();
                let (class, of_first) = (class_of(rank), class_of(first));
                // Peers have numbers of their own, so that a shared class is not enough where there are any.
                if peers[class].is_empty() && peers[of_first].is_empty() {
                    return class == of_first;
                }
                let graphs = &self.workload.classes;
                peers[class].iter().all(|peer| dim.coordinate(peer.0) == dim.coordinate(rank))
                    && graphs[class].is_like(RankId(rank), &graphs[of_first], RankId(first))
            };
            if turn.is_some() && dim.size > 1 && !(0..self.workload.ranks).all(same) {
                *turn = None;
            }
        }
    }

    fn slow(&mut self, slow: &Slowdowns) {
        if slow.is_empty() {
            return;
        }
        for (turn, dim) in self.turns.iter_mut().zip(self.fabric.dims()) {
            let first = |rank: u32| rank - dim.coordinate(rank) * dim.stride();
            if turn.is_some() && !(0..self.workload.ranks).all(|rank| slow.alike(rank, first(rank))) {
                *turn = None;
            }
        }
    }

    fn group(&mut self, role: &Role) {
        if !role.is_grid() {
            return self.keep_all();
        }
        for axis in role.axes.iter().filter(|axis| axis.size > 1) {
            let Some(dim) = axis.dim.map(usize::from) else { return self.keep_all() };
            let whole = &self.fabric.dims()[dim];
            if (axis.size, axis.stride) != (whole.size, whole.stride()) {
                self.turns[dim] = None;
            }
        }
    }

    fn phases(&mut self, plan: &CollectivePlan, role: &Role) {
        for phase in plan.phases.iter().filter(|phase| phase.size > 1) {
            let Some(turn) = self.turns.get_mut(usize::from(phase.dim)) else { return self.keep_all() };
            *turn = match (*turn, phase.turn) {
                (Some(None), Some(found)) if phase.streams == 1 => Some(Some(found)),
                (Some(Some(known)), Some(found)) if known == found && phase.streams == 1 => *turn,
                _ => None,
            };
            for &(weight, _) in &phase.gates {
                match self.dim_of(role, weight) {
                    Some(dim) => self.turns[dim] = None,
                    None => return self.keep_all(),
                }
            }
        }
    }

    fn blocks(&mut self, plan: &CollectivePlan, role: &Role) {
        // Phases in no dimension of the fabric have kept all already.
        if self.turns.iter().all(Option::is_none) {
            return;
        }
        let lengths: BTreeSet<u64> = plan.chunks.iter().map(|chunk| chunk.len()).collect();
        for phase in plan.phases.iter().filter(|phase| phase.size > 1) {
            let mut held = lengths.clone();
            for &(weight, size) in phase.cuts.iter().filter(|&&(_, size)| size > 1) {
                let Some(dim) = self.dim_of(role, weight) else { return self.keep_all() };
                held = self.cut(&held, dim, size);
            }
            self.cut(&held, usize::from(phase.dim), phase.size);
        }
    }

    /// The lengths of the blocks that lengths are cut into along a dimension, which stays where they differ.
    fn cut(&mut self, lengths: &BTreeSet<u64>, dim: usize, size: u32) -> BTreeSet<u64> {
        let size = u64::from(size);
        if lengths.iter().any(|length| !length.is_multiple_of(size)) {
            self.turns[dim] = None;
        }
        lengths.iter().flat_map(|length| [length / size, length.div_ceil(size)]).collect()
    }
}
