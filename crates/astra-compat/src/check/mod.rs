//! Problems that are reported before anything is simulated. In these cases ASTRA-sim 2 aborts, hangs, or
//! exits 0 with ranks missing, and names neither file nor rank.
//!
//! - [`machine`]: options, network, system file, groups;
//! - [`nodes`]: each node on its own;
//! - [`collectives`]: whether a collective can run, and whether its ranks agree;
//! - [`custom`]: algorithms given as execution traces;
//! - [`messages`]: whether sends and receives match.

mod collectives;
mod custom;
mod machine;
mod messages;
mod nodes;

use crate::algorithms::Pattern;
use crate::job::{Job, Options};
use crate::system::layout::{Layout, NoLayout, Span, implementations};
use crate::system::plan::{NoPlan, Plan};
use crate::workload::{PlanKey, pattern_of};
use std::collections::BTreeMap;
use syncline_diagnostics::{Diagnostic, Diagnostics, Result};
use syncline_formats::chakra::Collective;

/// A communicator group.
pub(crate) struct GroupInfo {
    /// Its number in the file.
    pub(crate) id: u32,
    /// Its ranks, in ring order.
    pub(crate) members: Vec<u32>,
    /// Ranks and their positions, by rank.
    positions: Vec<(u32, u32)>,
}

impl GroupInfo {
    fn new(id: u32, members: &[u32]) -> Self {
        let mut positions: Vec<(u32, u32)> = members.iter().copied().zip(0..).collect();
        positions.sort_unstable();
        Self { id, members: members.to_vec(), positions }
    }
    /// Returns the position of a rank in the ring.
    pub(crate) fn position(&self, rank: u32) -> Option<u32> {
        let at = self.positions.binary_search_by_key(&rank, |&(rank, _)| rank).ok()?;
        Some(self.positions[at].1)
    }
}

/// The meaning of a trace's names and lists.
#[derive(Default)]
pub(crate) struct GraphTasks {
    /// The group of each `pg_name`; `None` for all ranks.
    groups: Vec<Option<u32>>,
    /// Each `involved_dim` list as bits.
    involved: Vec<u64>,
}

/// The results of the checks.
pub(crate) struct Tasks {
    pub(crate) endpoint_delay: u64,
    pub(crate) groups: Vec<GroupInfo>,
    graphs: Vec<GraphTasks>,
}

/// Where a collective runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Its group, as an index.
    pub(crate) group: Option<u32>,
    /// The dimensions that take part.
    pub(crate) mask: u64,
    /// The first of the ranks that take part together.
    pub(crate) leader: u32,
}

impl Tasks {
    /// Returns where a rank's collective runs.
    pub(crate) fn place(&self, job: &Job, rank: u32, collective: &Collective) -> Place {
        let graph = &self.graphs[job.traces.graph_index(rank)];
        let group = collective.group.and_then(|name| graph.groups[name as usize]);
        if group.is_some() {
            return Place { group, mask: u64::MAX, leader: 0 };
        }
        let all = (1u64 << job.network.dims.len().min(63)) - 1;
        let mut mask = collective.involved.map_or(all, |list| graph.involved[list as usize] & all);
        let pattern = collective.kind.and_then(pattern_of);
        let list = pattern.and_then(|pattern| implementations(&job.system, pattern));
        if list.is_some_and(|list| list[0].flat) {
            // The only logical dimension follows the first entry.
            mask = if mask & 1 == 1 { all } else { 0 };
        }
        Place { group, mask, leader: leader(job, rank, mask) }
    }
    /// Returns the layout of a collective.
    pub(crate) fn layout(
        &self,
        job: &Job,
        pattern: Pattern,
        group: Option<u32>,
    ) -> std::result::Result<Layout, NoLayout> {
        let group = group.map(|group| (group, self.groups[group as usize].members.len() as u32));
        Layout::new(&job.network, &job.system, pattern, group)
    }
    /// Returns the plan of a collective.
    pub(crate) fn plan(&self, job: &Job, key: PlanKey) -> std::result::Result<Plan, NoPlan> {
        let (pattern, bytes, group, mask, custom) = key;
        if let Some(algorithm) = custom {
            let span = group.map_or(Span::Flat, Span::Group);
            let (splits, npus) = (job.system.splits.unwrap_or(1), job.network.npus());
            return Plan::custom(pattern, bytes, span, algorithm, splits, npus);
        }
        let layout = self.layout(job, pattern, group).map_err(|_| NoPlan::NoDimension)?;
        let optimization = crate::workload::optimization(job);
        let splits = job.system.splits.unwrap_or(1);
        Plan::new(pattern, bytes, &layout, mask, optimization, splits, job.network.npus())
    }
}

/// Returns the first of the ranks that differ from `rank` only in the dimensions that take part.
fn leader(job: &Job, rank: u32, mask: u64) -> u32 {
    let (mut rest, mut stride, mut leader) = (rank, 1u32, 0);
    for (dim, shape) in job.network.dims.iter().enumerate() {
        if mask >> dim & 1 == 0 {
            leader += rest % shape.npus * stride;
        }
        rest /= shape.npus;
        stride = stride.wrapping_mul(shape.npus);
    }
    leader
}

/// Checks a job; the diagnostics are warnings.
pub(crate) fn check(job: &Job, options: &Options<'_>) -> Result<(Tasks, Diagnostics)> {
    let mut problems = Problems { list: job.warnings.clone(), same: BTreeMap::new() };
    let endpoint_delay = machine::check(job, options, &mut problems);
    let groups = job.groups.members.iter().map(|(&id, members)| GroupInfo::new(id, members)).collect();
    let mut tasks = Tasks { endpoint_delay, groups, graphs: Vec::new() };
    nodes::names(job, &mut tasks, &mut problems);
    problems.stop_on_errors()?;
    nodes::check(job, &tasks, options, &mut problems);
    problems.stop_on_errors()?;
    if !job.system.replay_only {
        messages::check(job, &mut problems);
        collectives::agree(job, &tasks, &mut problems);
    }
    problems.stop_on_errors()?;
    Ok((tasks, problems.finish()))
}

/// Most problems that are listed.
const MAX_PROBLEMS: usize = 20;

/// Collects problems. Of problems with the same message, the first is listed and the others are counted.
struct Problems {
    list: Diagnostics,
    /// By message: index in the list, and how many more there were.
    same: BTreeMap<String, (usize, usize)>,
}

impl Problems {
    fn add(&mut self, problem: Diagnostic) {
        let next = self.list.0.len();
        if let Some((_, more)) = self.same.get_mut(&problem.message) {
            *more += 1;
        } else if self.same.len() < MAX_PROBLEMS {
            self.same.insert(problem.message.clone(), (next, 0));
            self.list.push(problem);
        }
    }
    fn finish(&mut self) -> Diagnostics {
        for &(index, more) in self.same.values() {
            if more > 0 {
                self.list.0[index].notes.push(format!("{more} more of this kind"));
            }
        }
        self.same.clear();
        std::mem::take(&mut self.list)
    }
    fn stop_on_errors(&mut self) -> Result<()> {
        if self.list.has_errors() { Err(self.finish()) } else { Ok(()) }
    }
}

/// Names a node of a rank, for errors.
fn node_key(job: &Job, rank: u32, node: usize) -> String {
    let graph = job.traces.graph(rank);
    format!("rank {rank} node {} `{}`", graph.id(node), graph.name(node))
}
