//! Reads Chakra execution traces as a workload.
//!
//! | node | task |
//! |---|---|
//! | `COMP` | compute: `duration_micros` if above 0, otherwise `num_ops` and `tensor_size` for the compute model |
//! | `COMP` with `is_cpu_op` | compute of the host, for `duration_micros` |
//! | `COMM_COLL` | a collective of the whole machine, of the dimensions in `involved_dim`, or of the group `pg_name` |
//! | `COMM_SEND`, `COMM_RECV` | send, receive |
//! | `MEM_LOAD`, `MEM_STORE` | a memory operation of `duration_micros`; refused without it, as remote memory is not modelled |
//! | `METADATA` | no task; its process groups take precedence over those of the file of groups |
//! | `INVALID` | refused |
//!
//! - The host of a rank does one operation at a time, the ready node with the smallest id first, while the accelerator
//!   continues, as in ASTRA-sim 2. The host uses the engine's resource for the path to remote memory, so a rank may
//!   have host operations or memory nodes, but not both.
//! - A broadcast starts at the first rank of its group. A barrier is an all-reduce of one byte for each rank of its
//!   group, the smallest size at which every rank takes part with any algorithm.
//! - Ranks with equal files share a class. A rank's tasks start in the order of node ids.
//! - The k-th collective of each rank of a group, in order of id, belongs to the same collective. If the ranks'
//!   collectives have unique names that come in different orders, those with equal names belong together instead
//!   (`pairing`).
//! - A group that has all ranks is the whole machine, as in ASTRA-sim 2. A smaller group is one flat axis in the order
//!   of its list. Disjoint groups of equal size are groups of one role.
//! - An all-gather's `comm_size` is the shard of one rank, so it gathers `comm_size` times the number of ranks.
//! - ASTRA-sim 2 runs one communication of a rank at a time. Here they overlap; `collectives: { concurrent: 1 }` runs
//!   collectives one at a time.

mod nodes;
mod pairing;
mod teams;

use crate::files::Files;
use crate::watch::Watch;
use nodes::Site;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_formats::chakra::load::rank_file;
use syncline_formats::chakra::{Graph, Loading, Traces};
use syncline_units::Time;
use syncline_workload::mesh::FabricAxis;
use syncline_workload::{
    ClassRun, GraphBuilder, Part, Role, RoleId, Source, Task, TaskGraph, TaskKind, Work, Workload,
};

/// Largest number of problems that are reported.
const MAX_PROBLEMS: usize = 20;

/// Reads `<prefix>.<rank>.et` for every rank along `axes`. `mismatch` makes the error for a wrong number of NPUs.
///
/// # Errors
/// Everything that is wrong with the files; nodes that cannot be simulated; `LimitReached` if `watch` says to stop.
pub fn workload(
    prefix: &str,
    groups: Option<&str>,
    axes: &[FabricAxis],
    mismatch: &dyn Fn(&str, u32) -> Diagnostic,
    files: &Files,
    watch: &Watch<'_>,
) -> Result<Workload> {
    let ranks = axes.iter().map(|axis| axis.size).product();
    let prefix = &*prefix_in(prefix)?;
    count_files(Path::new(prefix), ranks, mismatch)?;
    let groups = groups.map_or_else(|| Ok(Arc::default()), |file| files.groups(file))?;
    let traces = files.traces(prefix, ranks, || {
        let mut check = || watch.check("reading the traces");
        Traces::load_while(Path::new(prefix), ranks, Loading::default(), &mut check)
    })?;
    let mut problems = Diagnostics::new();
    let mut sharers = vec![Vec::new(); traces.graphs().len()];
    for rank in 0..ranks {
        sharers[traces.graph_index(rank)].push(rank);
    }
    let mut job = TraceJob {
        traces: &traces,
        sharers: &sharers,
        axes,
        ranks,
        roles: Vec::new(),
        along: BTreeMap::new(),
    };
    let teams = job.teams(&groups, &mut problems);
    problems = problems.into_result()?;
    let orders = job.orders(&teams);
    let mut classes = Vec::new();
    for index in 0..traces.graphs().len() {
        watch.check("building the task graphs")?;
        match job.class(index, &orders[index], &teams[index], &mut problems) {
            Ok(class) => classes.push(class),
            Err(problem) => problems.push(*problem),
        }
        if problems.0.len() >= MAX_PROBLEMS {
            break;
        }
    }
    problems.into_result()?;
    let mut class_runs: Vec<ClassRun> = Vec::new();
    for rank in 0..ranks {
        let class = traces.graph_index(rank) as u32;
        if class_runs.last().is_none_or(|last| last.class != class) {
            class_runs.push(ClassRun { first: rank, class });
        }
    }
    let name =
        Path::new(prefix).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let (layers, source) = (Vec::new(), Source::Traces { prefix: prefix.to_owned() });
    Ok(Workload {
        name,
        ranks,
        classes,
        class_runs,
        roles: job.roles,
        axes: Vec::new(),
        layers,
        iterations: 1,
        source,
    })
}

/// A warning if the traces contain compute nodes, but none says how long it takes or how many operations it has.
pub fn without_durations(workload: &Workload) -> Option<Diagnostic> {
    let Source::Traces { prefix } = &workload.source else { return None };
    let mut nodes = 0u64;
    for task in workload.classes.iter().flat_map(|class| &class.tasks) {
        match &task.kind {
            TaskKind::Compute(Work::Time(Time::ZERO)) => nodes += 1,
            TaskKind::Compute(_) => return None,
            _ => {}
        }
    }
    (nodes > 0).then(|| {
        Diagnostic::warning(
            Code::BadWorkload,
            "the traces do not say how long computation takes: it takes no time, and only communication is simulated",
        )
        .at(prefix, 0)
        .found(format!("{nodes} COMP_NODEs without duration_micros and without num_ops"))
        .help("record durations (for PyTorch, link the host's trace with the device's before converting it), or give num_ops and tensor_size and a compute model")
    })
}

/// The prefix of the traces: `prefix` itself, or if it is a folder, the prefix of the only traces in it.
fn prefix_in(prefix: &str) -> Result<Cow<'_, str>> {
    let folder = Path::new(prefix);
    if !folder.is_dir() {
        return Ok(Cow::Borrowed(prefix));
    }
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut found: Vec<String> =
        names.filter_map(|name| Some(name.to_str()?.strip_suffix(".0.et")?.to_owned())).collect();
    found.sort_unstable();
    if let [only] = &found[..] {
        return Ok(Cow::Owned(folder.join(only).to_string_lossy().into_owned()));
    }
    let problem =
        Diagnostic::error(Code::Unreadable, "a folder of traces must hold the traces of exactly one job")
            .at(prefix, 0)
            .key("workload.chakra");
    Err(match found.len() {
        0 => {
            problem.found("no file that ends in .0.et").help("name the folder or the prefix of the .et files")
        }
        _ => problem.found(found.join(", ")).help("name one of these prefixes, with the folder before it"),
    }
    .into())
}

/// Checks that there are as many files as ranks.
fn count_files(prefix: &Path, ranks: u32, mismatch: &dyn Fn(&str, u32) -> Diagnostic) -> Result<()> {
    let is_there = |rank: u32| rank_file(prefix, rank).is_file();
    let files = (0..u32::MAX).take_while(|&rank| is_there(rank)).count() as u32;
    if files == ranks {
        return Ok(());
    }
    if let Some(next) = (files..ranks).find(|&rank| is_there(rank)) {
        let message = format!("the trace has no file for rank {files}, but one for rank {next}");
        return Err(Diagnostic::error(Code::RankMismatch, message)
            .at(rank_file(prefix, files).display().to_string(), 0)
            .key("workload.chakra")
            .help("write one file for each rank")
            .into());
    }
    // If there is no file at all, the reader reports that, with similar names.
    if files == 0 {
        return Ok(());
    }
    let what = format!("the trace has {files} rank{}", if files == 1 { "" } else { "s" });
    let found = format!("{} is its last file", rank_file(prefix, files - 1).display());
    Err(mismatch(&what, files).note(found).into())
}

type Boxed<T> = std::result::Result<T, Box<Diagnostic>>;

/// The ranks that a `pg_name` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Team {
    /// All ranks.
    Everyone,
    /// A single rank, which has nothing to exchange.
    Alone,
    /// A group.
    Listed {
        role: RoleId,
        /// How many ranks it has.
        members: u32,
    },
}

struct TraceJob<'a> {
    traces: &'a Traces,
    /// The ranks that have each graph.
    sharers: &'a [Vec<u32>],
    axes: &'a [FabricAxis],
    ranks: u32,
    roles: Vec<Role>,
    /// Roles along axes of the grid.
    along: BTreeMap<Vec<usize>, RoleId>,
}

impl TraceJob<'_> {
    /// The role of the groups along `axes` of the grid.
    fn along(&mut self, axes: Vec<usize>) -> RoleId {
        if let Some(&role) = self.along.get(&axes) {
            return role;
        }
        let sizes: Vec<u32> = self.axes.iter().map(|axis| axis.size).collect();
        let dims: Vec<Option<u16>> = self.axes.iter().map(|axis| axis.dim).collect();
        let names: Vec<&str> = axes.iter().map(|&axis| self.axes[axis].name.as_str()).collect();
        let name = if axes.len() == sizes.len() { "all".to_owned() } else { names.join(", ") };
        let role = RoleId(self.roles.len() as u16);
        self.roles.push(Role::grid(&name, &sizes, &dims, &axes));
        self.along.insert(axes, role);
        role
    }

    /// The tasks of the ranks that share a graph.
    fn class(
        &mut self,
        index: usize,
        order: &pairing::NodeOrder,
        teams: &[Team],
        problems: &mut Diagnostics,
    ) -> Boxed<TaskGraph> {
        let graph: &Graph = &self.traces.graphs()[index];
        let mut builder = GraphBuilder::new();
        let memory = nodes::first_memory(graph);
        for &node in order {
            let (node, op) = (node as usize, &graph.ops()[node as usize]);
            let site = Site { traces: self.traces, sharers: &self.sharers[index], graph, node, memory };
            let kind = self.task(site, op, teams).unwrap_or_else(|problem| {
                if problems.0.len() < MAX_PROBLEMS {
                    problems.push(*problem);
                }
                TaskKind::Join
            });
            let name = match graph.name(node) {
                "" => format!("node {}", graph.id(node)),
                name => name.to_owned(),
            };
            builder.task(Task { kind, layer: None, part: Part::Other, name });
        }
        let mut task_of = vec![0; graph.len()];
        for (task, &node) in (0u32..).zip(order) {
            task_of[node as usize] = task;
        }
        for node in 0..graph.len() {
            for &next in graph.successors(node) {
                builder.after(task_of[next as usize], task_of[node]);
            }
        }
        builder.build(1).map_err(|problem| Box::new(problem.at(self.traces.file(self.sharers[index][0]), 0)))
    }
}
