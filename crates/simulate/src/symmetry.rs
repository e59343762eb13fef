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
//! - it looks the same after the turn: not where the pair of NPUs chooses among switches, as a rule;
//! - its links have latency, or nothing shares them: between events of one time, the order of ranks must not count.

use crate::plans::Plans;
use std::collections::{BTreeMap, BTreeSet};
use syncline_engine::{CollectivePlan, Slowdowns};
use syncline_fabric::{Dimension, Fabric, Symmetry};
use syncline_units::{DimKind, NpuId, RankId, Turn};
use syncline_workload::{Peer, Role, TaskGraph, TaskKind, Workload};

/// Finds the dimensions that may be turned, and marks the phases that run along them; and says why others may not.
pub(crate) fn find(
    fabric: &Fabric,
    workload: &Workload,
    placement: &[NpuId],
    slow: &Slowdowns,
    plans: &mut Plans,
) -> (Symmetry, String) {
    let dims = fabric.dims().len();
    let mut search = Search { fabric, workload, turns: vec![Some(None); dims], why: vec![""; dims] };
    if let Some(why) = whole(fabric, workload, placement) {
        return (Symmetry::none(fabric), why.to_owned());
    }
    search.pairs();
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
    let why = search.why();
    (symmetry, why)
}

/// What stands against turning anything.
fn whole(fabric: &Fabric, workload: &Workload, placement: &[NpuId]) -> Option<&'static str> {
    if fabric.is_graph() {
        return Some("the fabric is a graph");
    }
    if fabric.is_damaged() {
        return Some("links are slow or dead");
    }
    if !placement.is_empty() {
        return Some("ranks are placed one by one");
    }
    (workload.ranks != fabric.npus()).then_some("the job leaves NPUs out")
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

const UNEVEN: &str = "data is not cut evenly";

struct Search<'a> {
    fabric: &'a Fabric,
    workload: &'a Workload,
    /// Of each dimension: `None` where it stays, `Some(None)` where any turn will do so far.
    turns: Vec<Option<Option<Turn>>>,
    /// Why each dimension stays; empty where it does not.
    why: Vec<&'static str>,
}

impl Search<'_> {
    fn keep(&mut self, dim: usize, why: &'static str) {
        self.turns[dim] = None;
        // What was found first is what has to change first.
        if self.why[dim].is_empty() {
            self.why[dim] = why;
        }
    }

    fn keep_all(&mut self, why: &'static str) {
        (0..self.turns.len()).for_each(|dim| self.keep(dim, why));
    }

    /// Keeps the dimensions that may still be turned and for which `stays` holds.
    fn keep_where(&mut self, why: &'static str, stays: impl Fn(&Dimension) -> bool) {
        let fabric = self.fabric;
        for (dim, each) in fabric.dims().iter().enumerate() {
            if self.turns[dim].is_some() && stays(each) {
                self.keep(dim, why);
            }
        }
    }

    /// Why dimensions stay, and which: `some ranks are slow (ring, fc)`.
    fn why(&self) -> String {
        let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (why, dim) in self.why.iter().zip(self.fabric.dims()).filter(|(why, _)| !why.is_empty()) {
            of.entry(why).or_default().push(&dim.name);
        }
        let said: Vec<String> =
            of.into_iter().map(|(why, dims)| format!("{why} ({})", dims.join(", "))).collect();
        said.join("; ")
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

    fn pairs(&mut self) {
        // Whatever the turn is: where the sum of coordinates decides, none keeps more than this one.
        self.keep_where("the pair of NPUs chooses the switch", |dim| !dim.turns(Turn::Cyclic));
    }

    fn latencies(&mut self) {
        self.keep_where("links that are shared have no latency", |dim| {
            dim.latency.is_zero() && dim.size > 1 && dim.kind != DimKind::FullyConnected
        });
    }

    fn classes(&mut self) {
        let peers: Vec<Vec<Peer>> = self.workload.classes.iter().map(TaskGraph::peers).collect();
        let alone = peers.iter().all(Vec::is_empty);
        if self.workload.class_runs.len() < 2 && alone {
            return;
        }
        let (workload, graphs) = (self.workload, &self.workload.classes);
        let class_of = |rank: u32| workload.class_of(rank) as usize;
        self.keep_where("ranks differ in their tasks, or in how far away they send", |dim| {
            let same = |rank: u32| {
                let first = rank - dim.coordinate(rank) * dim.stride();
                let (class, of_first) = (class_of(rank), class_of(first));
                // Peers have numbers of their own, so that a shared class is not enough where there are any.
                if peers[class].is_empty() && peers[of_first].is_empty() {
                    return class == of_first;
                }
                let relative = || peers[class].iter().all(|peer| matches!(peer, Peer::Ahead(_)));
                peers[class].iter().all(|peer| dim.coordinate(peer.of(rank).0) == dim.coordinate(rank))
                    && (class == of_first && relative()
                        || graphs[class].is_like(RankId(rank), &graphs[of_first], RankId(first)))
            };
            !(0..workload.ranks).all(same)
        });
    }

    fn slow(&mut self, slow: &Slowdowns) {
        if slow.is_empty() {
            return;
        }
        let ranks = self.workload.ranks;
        self.keep_where("some ranks are slow", |dim| {
            let first = |rank: u32| rank - dim.coordinate(rank) * dim.stride();
            !(0..ranks).all(|rank| slow.alike(rank, first(rank)))
        });
    }

    fn group(&mut self, role: &Role) {
        const PARTS: &str = "groups take parts of dimensions";
        if !role.is_grid() {
            return self.keep_all(PARTS);
        }
        for axis in role.axes.iter().filter(|axis| axis.size > 1) {
            let Some(dim) = axis.dim.map(usize::from) else { return self.keep_all(PARTS) };
            let whole = &self.fabric.dims()[dim];
            if (axis.size, axis.stride) != (whole.size, whole.stride()) {
                self.keep(dim, PARTS);
            }
        }
    }

    fn phases(&mut self, plan: &CollectivePlan, role: &Role) {
        for phase in plan.phases.iter().filter(|phase| phase.size > 1) {
            const UNLIKE: &str = "the algorithm treats ranks unlike";
            let dim = usize::from(phase.dim);
            let Some(&turn) = self.turns.get(dim) else { return self.keep_all(UNLIKE) };
            match (turn, phase.turn) {
                (Some(None), Some(found)) if phase.streams == 1 => self.turns[dim] = Some(Some(found)),
                (Some(Some(known)), Some(found)) if known == found && phase.streams == 1 => {}
                _ => self.keep(dim, UNLIKE),
            }
            for &(weight, _) in &phase.gates {
                match self.dim_of(role, weight) {
                    Some(dim) => self.keep(dim, UNLIKE),
                    None => return self.keep_all(UNLIKE),
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
                let Some(dim) = self.dim_of(role, weight) else { return self.keep_all(UNEVEN) };
                held = self.cut(&held, dim, size);
            }
            self.cut(&held, usize::from(phase.dim), phase.size);
        }
    }

    /// The lengths of the blocks that lengths are cut into along a dimension, which stays where they differ.
    fn cut(&mut self, lengths: &BTreeSet<u64>, dim: usize, size: u32) -> BTreeSet<u64> {
        let size = u64::from(size);
        if lengths.iter().any(|length| !length.is_multiple_of(size)) {
            self.keep(dim, UNEVEN);
        }
        lengths.iter().flat_map(|length| [length / size, length.div_ceil(size)]).collect()
    }
}
