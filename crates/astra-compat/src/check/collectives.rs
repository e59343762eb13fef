//! Checks whether collectives can run, and whether the ranks that take part in one agree.

use super::{Problems, Tasks, leader, node_key};
use crate::algorithms::Pattern;
use crate::job::{Job, Options};
use crate::system::layout::{NoLayout, Span};
use crate::system::plan::{NoPlan, Phase, Plan};
use crate::workload::{PlanKey, pattern_of};
use std::collections::{BTreeMap, BTreeSet};
use syncline_diagnostics::{Code, Diagnostic, Place};
use syncline_formats::astra2::Algorithm;
use syncline_formats::chakra::{Collective, CollectiveType, Work};

/// The most chunks of one collective.
const MAX_CHUNKS: u64 = 1 << 24;

/// Collectives that were checked, so that each problem is reported once.
#[derive(Default)]
pub(super) struct Feasible {
    /// With the length of `involved_dim`, if it matters.
    seen: BTreeSet<(PlanKey, Option<usize>)>,
    /// Algorithms given as execution traces, with the group.
    algorithms: BTreeSet<(u32, Option<u32>)>,
}

impl Feasible {
    /// Checks whether a collective of a rank can run.
    pub(super) fn check(
        &mut self,
        job: &Job,
        tasks: &Tasks,
        options: &Options<'_>,
        (rank, node, collective): (u32, usize, &Collective),
        problems: &mut Problems,
    ) {
        let (Some(kind), Some(bytes)) = (collective.kind, collective.bytes) else { return };
        let key = node_key(job, rank, node);
        let in_trace = |code, message: String| {
            Diagnostic::error(code, message).at(job.traces.file(rank), 0).key(key.clone())
        };
        let Some(pattern) = pattern_of(kind) else {
            if kind != CollectiveType::Broadcast {
                problems.add(
                    in_trace(Code::AstraUnsupported, format!("ASTRA-sim has no collective of type {kind}"))
                        .allowed("ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, and BROADCAST, which is replayed"),
                );
            }
            return;
        };
        if bytes == 0 {
            problems.add(
                in_trace(Code::ChakraNode, "a collective has no bytes".to_owned())
                    .help("give comm_size above 0, or remove the node"),
            );
            return;
        }
        let place = tasks.place(job, rank, collective);
        let custom = job.custom_for(pattern, job.traces.graph(rank).id(node));
        if let Some(algorithm) = custom
            && self.algorithms.insert((algorithm, place.group))
        {
            super::custom::check(job, tasks, algorithm, place.group, problems);
        }
        let plan_key = (pattern, bytes, place.group, place.mask, custom);
        let lists = place.group.is_none().then_some(collective.involved).flatten();
        let list = lists.map(|list| job.traces.graph(rank).involved(list));
        if !self.seen.insert((plan_key, list.map(<[bool]>::len))) {
            return;
        }
        let case = Case { job, tasks, options, pattern, bytes, key: &key, file: job.traces.file(rank) };
        if let Some(problem) = case.problem(plan_key, list) {
            problems.add(problem);
        }
    }
}

/// A collective being checked.
struct Case<'a> {
    job: &'a Job,
    tasks: &'a Tasks,
    options: &'a Options<'a>,
    pattern: Pattern,
    bytes: u64,
    /// Its node.
    key: &'a str,
    file: String,
}

impl Case<'_> {
    /// A problem of the system file that this collective reveals.
    fn in_system(&self, place: Place, message: String) -> Diagnostic {
        Diagnostic::error(Code::BadAstraFile, message).in_place(place).note(format!(
            "needed by {} of {} bytes, {} of {}",
            self.pattern.name(),
            self.bytes,
            self.key,
            self.file
        ))
    }
    fn in_trace(&self, code: Code, message: &str) -> Diagnostic {
        Diagnostic::error(code, message).at(&self.file, 0).key(self.key)
    }

    fn problem(&self, key: PlanKey, involved: Option<&[bool]>) -> Option<Diagnostic> {
        let system = &self.job.system;
        let name = self.pattern.key();
        let whole = || system.source.place(0, 0, 0);
        let (_, _, group, mask, custom) = key;
        if system.splits.is_none() {
            return Some(
                self.in_system(whole(), "preferred-dataset-splits is missing".to_owned())
                    .key("preferred-dataset-splits")
                    .help("set the number of chunks per collective; ASTRA-sim uses 0 and divides by it"),
            );
        }
        if custom.is_some() {
            return match self.tasks.plan(self.job, key) {
                Err(NoPlan::SeveralChunks(chunks)) => Some(
                    self.in_system(
                        system.source.json_key("preferred-dataset-splits"),
                        "a custom algorithm needs a collective of one chunk".to_owned(),
                    )
                    .key("preferred-dataset-splits")
                    .found(format!("{chunks} chunks"))
                    .note("ASTRA-sim runs the algorithm once and waits for the other chunks forever")
                    .help("set preferred-dataset-splits to 1"),
                ),
                _ => None,
            };
        }
        let layout = match self.tasks.layout(self.job, self.pattern, group) {
            Ok(layout) => layout,
            Err(NoLayout::Absent) => {
                return Some(
                    self.in_system(whole(), format!("{name} is missing"))
                        .key(name)
                        .help("name one algorithm for each dimension, such as [\"ring\"]"),
                );
            }
            Err(NoLayout::Short) => {
                let entries =
                    crate::system::layout::implementations(system, self.pattern).map_or(0, <[_]>::len);
                return Some(
                    self.in_system(
                        system.source.json_key(name),
                        format!("{name} has fewer entries than the network has dimensions"),
                    )
                    .key(name)
                    .found(format!("{entries} entries, {} dimensions", self.job.network.dims.len()))
                    .note("ASTRA-sim silently covers the first dimensions only")
                    .help("name one algorithm for each dimension"),
                );
            }
        };
        let flat = layout.levels.iter().any(|level| level.span == Span::Flat);
        if let Some(list) = involved.filter(|list| !flat && list.len() < layout.levels.len()) {
            return Some(
                self.in_trace(
                    Code::ChakraNode,
                    "involved_dim has fewer entries than the network has dimensions",
                )
                .found(format!("{} entries, {} dimensions", list.len(), layout.levels.len())),
            );
        }
        match self.tasks.plan(self.job, key) {
            Ok(plan) => self.of_plan(&plan, mask),
            Err(NoPlan::NoDimension) if group.is_some() => {
                Some(self.in_trace(
                    Code::BadGroup,
                    "a collective runs in a group of one rank, so it never completes",
                ))
            }
            Err(NoPlan::NoDimension) => Some(
                self.in_trace(
                    Code::ChakraNode,
                    "no dimension takes part in a collective, so it never completes",
                )
                .help("set at least one entry of involved_dim"),
            ),
            Err(NoPlan::EmptyChunk) => Some(
                self.in_trace(
                    Code::ChakraNode,
                    "an all-gather has fewer bytes than chunks, so it never ends",
                )
                .found(format!("{} bytes in {} chunks", self.bytes, system.splits.unwrap_or(0)))
                .help("lower preferred-dataset-splits or raise comm_size"),
            ),
            Err(NoPlan::TooLarge | NoPlan::SeveralChunks(_)) => {
                Some(self.in_trace(Code::ChakraNode, "the sizes of a collective exceed 64 bits"))
            }
        }
    }

    fn of_plan(&self, plan: &Plan, mask: u64) -> Option<Diagnostic> {
        let system = &self.job.system;
        if plan.chunks > MAX_CHUNKS {
            return Some(
                self.in_trace(Code::ChakraNode, "a collective has too many chunks")
                    .found(plan.chunks.to_string())
                    .allowed(MAX_CHUNKS.to_string())
                    .help("lower preferred-dataset-splits"),
            );
        }
        let several = plan.phases.len() > 1 || self.options.queues_per_dim > 1;
        if self.pattern == Pattern::AllReduce && system.optimization.is_none() && several && mask != 0 {
            return Some(
                self.in_system(system.source.place(0, 0, 0), "collective-optimization is missing".to_owned())
                    .key("collective-optimization")
                    .allowed("baseline, localBWAware")
                    .note("ASTRA-sim leaves it uninitialised; all-reduces over several dimensions then never finish"),
            );
        }
        plan.phases.iter().find_map(|phase| self.of_phase(plan, phase))
    }

    fn of_phase(&self, plan: &Plan, phase: &Phase) -> Option<Diagnostic> {
        let count = phase.level.count;
        let name = match phase.level.algorithm {
            Algorithm::HalvingDoubling => "halvingDoubling",
            Algorithm::DoubleBinaryTree => "doubleBinaryTree",
            Algorithm::Ring | Algorithm::Direct { .. } => return None,
        };
        let problem = |message: String| {
            Some(
                self.in_system(self.job.system.source.json_key(self.pattern.key()), message)
                    .key(self.pattern.key())
                    .help("use ring or direct"),
            )
        };
        if !count.is_power_of_two() {
            return problem(format!("{name} needs a power of two of ranks, not {count}"));
        }
        if name == "halvingDoubling" && phase.pattern == Pattern::AllToAll {
            return problem("halvingDoubling has no all-to-all".to_owned());
        }
        if name == "doubleBinaryTree" && plan.listed {
            return problem(
                "doubleBinaryTree does not run in a group that is a part of the machine".to_owned(),
            );
        }
        None
    }
}

/// How often a trace issues each collective of a group: pattern, bytes.
type Counts = BTreeMap<(Pattern, u64), u64>;

/// Checks that ranks that communicate together issue the same collectives, equally often.
pub(super) fn agree(job: &Job, tasks: &Tasks, problems: &mut Problems) {
    if job.traces.graphs().len() < 2 {
        return;
    }
    // By group or mask: the counts of every trace.
    let mut counts: BTreeMap<(Option<u32>, u64), Vec<Counts>> = BTreeMap::new();
    let graphs = job.traces.graphs().len();
    for (index, graph) in job.traces.graphs().iter().enumerate() {
        let rank = job.traces.first_rank(index);
        for op in graph.ops() {
            let Work::Collective(collective) = op.work else { continue };
            let (Some(pattern), Some(bytes)) = (collective.kind.and_then(pattern_of), collective.bytes)
            else {
                continue;
            };
            let place = tasks.place(job, rank, &collective);
            let of = counts.entry((place.group, place.mask)).or_insert_with(|| vec![Counts::new(); graphs]);
            *of[index].entry((pattern, bytes)).or_default() += 1;
        }
    }
    for ((group, mask), of_graph) in &counts {
        let pairs: Vec<(u32, u32)> = match group {
            Some(group) => {
                let members = &tasks.groups[*group as usize].members;
                members.iter().map(|&rank| (members[0], rank)).collect()
            }
            None => (0..job.network.npus()).map(|rank| (leader(job, rank, *mask), rank)).collect(),
        };
        let mut equal = BTreeSet::new();
        for (first, rank) in pairs {
            let (a, b) = (job.traces.graph_index(first), job.traces.graph_index(rank));
            if a == b || equal.contains(&(a, b)) {
                continue;
            }
            if of_graph[a] == of_graph[b] {
                equal.insert((a, b));
            } else {
                let group = group.map(|group| tasks.groups[group as usize].id);
                problems.add(disagreement(job, group, (first, &of_graph[a]), (rank, &of_graph[b])));
            }
        }
    }
}

fn disagreement(
    job: &Job,
    group: Option<u32>,
    (first, a): (u32, &Counts),
    (rank, b): (u32, &Counts),
) -> Diagnostic {
    let all: BTreeSet<&(Pattern, u64)> = a.keys().chain(b.keys()).collect();
    let mut problem =
        Diagnostic::error(Code::Unmatched, "ranks that communicate together issue different collectives")
            .at(job.traces.file(rank), 0)
            .key(match group {
                Some(id) => format!("rank {rank}, group {id}"),
                None => format!("rank {rank}"),
            })
            .help("every rank of a group must issue the same collectives in the same order");
    let count = |counts: &Counts, key| counts.get(key).copied().unwrap_or(0);
    for key in all.into_iter().filter(|key| count(a, key) != count(b, key)).take(5) {
        problem.notes.push(format!(
            "{} of {} bytes: {} times on rank {first}, {} times on rank {rank}",
            key.0.name(),
            key.1,
            count(a, key),
            count(b, key)
        ));
    }
    problem
}
