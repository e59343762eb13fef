//! Chakra execution traces as a workload.
//!
//! | node | task |
//! |---|---|
//! | `COMP` | compute: `duration_micros` where it is above 0, else `num_ops` and `tensor_size` for the compute model |
//! | `COMM_COLL` | a collective of the whole machine, of the dimensions in `involved_dim`, or of the group `pg_name` |
//! | `COMM_SEND`, `COMM_RECV` | send, receive |
//! | `MEM_LOAD`, `MEM_STORE` | a memory operation of `duration_micros`; refused without, as no remote memory is modelled |
//! | `INVALID`, `METADATA` | refused |
//!
//! - Ranks with equal files share a class; a rank's tasks start in the order of node ids.
//! - A group that has all ranks stands for the whole machine, as in ASTRA-sim 2; a smaller one is one flat axis in the
//!   order of its list. Disjoint groups of equal size are groups of one role.
//! - An all-gather's `comm_size` is the shard of one rank: it gathers that times the ranks that take part.
//! - ASTRA-sim 2 runs one communication of a rank at a time. Here they overlap; `collectives: { concurrent: 1 }` keeps
//!   collectives from it.

use crate::jobs::Axis;
use crate::watch::Watch;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_formats::astra2::Groups;
use syncline_formats::chakra::load::rank_file;
use syncline_formats::chakra::{
    Collective, CollectiveType, Compute, Graph, Loading, NodeKind, Op, Traces, Work as NodeWork,
};
use syncline_units::{Bytes, CollectiveKind, Flops, RankId, Time};
use syncline_workload::graph::NO_LAYER;
use syncline_workload::{
    GraphBuilder, Part, Role, RoleId, Source, Task, TaskGraph, TaskKind, Work, Workload,
};

/// Most problems that are listed.
const MAX_PROBLEMS: usize = 20;

/// Reads `<prefix>.<rank>.et` for every rank along `axes`. `mismatch` says that there is another number of NPUs.
///
/// # Errors
/// What is wrong with the files, and nodes that cannot be simulated; `LimitReached` where `watch` says stop.
pub(crate) fn workload(
    prefix: &str,
    groups: Option<&str>,
    axes: &[Axis],
    mismatch: &dyn Fn(&str, u32) -> Diagnostic,
    watch: &Watch<'_>,
) -> Result<Workload> {
    let ranks = axes.iter().map(|axis| axis.size).product();
    let prefix = &*prefix_in(prefix)?;
    count_files(Path::new(prefix), ranks, mismatch)?;
    let groups = match groups.map(Path::new) {
        Some(path) => Groups::read(path)?,
        None => Groups::default(),
    };
    let mut look = || watch.look("reading the traces");
    let traces = Traces::load_while(Path::new(prefix), ranks, Loading::default(), &mut look)?;
    let mut problems = Diagnostics::new();
    let mut sharers = vec![Vec::new(); traces.graphs().len()];
    for rank in 0..ranks {
        sharers[traces.graph_index(rank)].push(rank);
    }
    let mut job =
        Job { traces: &traces, sharers: &sharers, axes, ranks, roles: Vec::new(), along: BTreeMap::new() };
    let teams = job.teams(&groups, &mut problems);
    problems = problems.into_result()?;
    let mut classes = Vec::new();
    for (index, graph) in traces.graphs().iter().enumerate() {
        watch.look("building the task graphs")?;
        match job.class(index, graph, &teams[index], &mut problems) {
            Ok(class) => classes.push(class),
            Err(problem) => problems.push(*problem),
        }
        if problems.0.len() >= MAX_PROBLEMS {
            break;
        }
    }
    problems.into_result()?;
    let mut class_runs: Vec<(u32, u32)> = Vec::new();
    for rank in 0..ranks {
        let class = traces.graph_index(rank) as u32;
        if class_runs.last().is_none_or(|&(_, last)| last != class) {
            class_runs.push((rank, class));
        }
    }
    let name =
        Path::new(prefix).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let (layers, source) = (Vec::new(), Source::Traces { prefix: prefix.to_owned() });
    Ok(Workload { name, ranks, classes, class_runs, roles: job.roles, layers, iterations: 1, source })
}

/// The prefix of the traces: `prefix` itself, or where it is a folder, that of the only traces in it.
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
    let problem = Diagnostic::error(Code::Unreadable, "a folder of traces must hold those of one job")
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

/// That there are as many files as ranks.
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
    // No file at all is reported by the reader, with similar names.
    if files == 0 {
        return Ok(());
    }
    let what = format!("the trace has {files} rank{}", if files == 1 { "" } else { "s" });
    let found = format!("{} is its last file", rank_file(prefix, files - 1).display());
    Err(mismatch(&what, files).note(found).into())
}

type Boxed<T> = std::result::Result<T, Box<Diagnostic>>;

/// Which ranks a `pg_name` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Team {
    /// All of them.
    Everyone,
    /// One alone, with whom there is nothing to exchange.
    Alone,
    /// A group of this role.
    Listed(RoleId, u32),
}

struct Job<'a> {
    traces: &'a Traces,
    /// The ranks that have each graph.
    sharers: &'a [Vec<u32>],
    axes: &'a [Axis],
    ranks: u32,
    roles: Vec<Role>,
    /// Roles along axes of the grid.
    along: BTreeMap<Vec<usize>, RoleId>,
}

impl Job<'_> {
    /// What every `pg_name` of every graph means; the roles of groups in use.
    fn teams(&mut self, groups: &Groups, problems: &mut Diagnostics) -> Vec<Vec<Team>> {
        let mut used = BTreeSet::new();
        let mut named: Vec<Vec<Option<u32>>> = Vec::new();
        for (index, graph) in self.traces.graphs().iter().enumerate() {
            let ids = graph.groups().iter().map(|name| match self.group(index, name, groups) {
                Ok(id) => {
                    used.extend(id);
                    id
                }
                Err(problem) => {
                    problems.push(*problem);
                    None
                }
            });
            named.push(ids.collect());
        }
        // Disjoint groups of equal size share a role.
        let mut shared: Vec<(Vec<u32>, BTreeSet<u32>)> = Vec::new();
        let mut of: BTreeMap<u32, usize> = BTreeMap::new();
        for &id in &used {
            let members = &groups.members[&id];
            let fits = |(ids, taken): &(Vec<u32>, BTreeSet<u32>)| {
                groups.members[&ids[0]].len() == members.len()
                    && members.iter().all(|rank| !taken.contains(rank))
            };
            let role = shared.iter().position(fits).unwrap_or_else(|| {
                shared.push((Vec::new(), BTreeSet::new()));
                shared.len() - 1
            });
            shared[role].0.push(id);
            shared[role].1.extend(members);
            of.insert(id, role);
        }
        for (ids, _) in &shared {
            let names: Vec<String> = ids.iter().take(4).map(u32::to_string).collect();
            let more = if ids.len() > 4 { ", ..." } else { "" };
            let name = format!("group {}{more}", names.join(", "));
            let lists: Vec<Vec<u32>> = ids.iter().map(|id| groups.members[id].clone()).collect();
            let size = lists[0].len() as u32;
            let axis = syncline_workload::Axis { size, stride: 0, dim: None };
            match Role::lists(&name, lists, vec![axis], self.ranks) {
                Ok(role) => self.roles.push(role),
                Err(problem) => problems.push(problem.at(groups.source.file(), 0)),
            }
        }
        if shared.len() > usize::from(u16::MAX) / 2 {
            problems.push(
                Diagnostic::error(Code::BadGroup, "the groups overlap in too many ways")
                    .at(groups.source.file(), 0)
                    .found(format!("{} sets of disjoint groups", shared.len())),
            );
        }
        let team = |id: Option<u32>| match id {
            None => Team::Everyone,
            Some(id) if groups.members[&id].len() < 2 => Team::Alone,
            Some(id) => Team::Listed(RoleId(of[&id] as u16), groups.members[&id].len() as u32),
        };
        named.into_iter().map(|ids| ids.into_iter().map(team).collect()).collect()
    }

    /// The number of the group that `name` names; `None` for the whole machine.
    fn group(&self, graph: usize, name: &str, groups: &Groups) -> Boxed<Option<u32>> {
        let first = self.sharers[graph][0];
        let bad = |message: String| {
            let error = Diagnostic::error(Code::BadGroup, message);
            Box::new(error.at(self.traces.file(first), 0).key(format!("rank {first}, pg_name")).found(name))
        };
        if name.is_empty() {
            return Ok(None);
        }
        let Ok(id) = name.parse::<u32>() else {
            return Err(bad("a process group's name must be a whole number".to_owned()));
        };
        if id == 0 {
            return Ok(None);
        }
        let Some(members) = groups.members.get(&id) else {
            let mut error = bad("no such process group".to_owned());
            let known: Vec<String> = groups.members.keys().take(20).map(u32::to_string).collect();
            error.allowed =
                Some(if known.is_empty() { "0 (all ranks)".to_owned() } else { known.join(", ") });
            if groups.members.is_empty() {
                error.help = Some("name the file of communicator groups with `workload.groups`".to_owned());
            }
            return Err(error);
        };
        if let Some(rank) = members.iter().find(|&&rank| rank >= self.ranks) {
            let mut error = bad(format!("rank {rank} of process group {id} does not exist"));
            error.allowed = Some(format!("0 to {}", self.ranks.saturating_sub(1)));
            return Err(error);
        }
        let within: BTreeSet<u32> = members.iter().copied().collect();
        if let Some(rank) = self.sharers[graph].iter().find(|rank| !within.contains(rank)) {
            return Err(bad(format!("rank {rank} uses process group {id}, to which it does not belong")));
        }
        Ok(Some(id).filter(|_| members.len() < self.ranks as usize))
    }

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
        graph: &Graph,
        teams: &[Team],
        problems: &mut Diagnostics,
    ) -> Boxed<TaskGraph> {
        let mut builder = GraphBuilder::new();
        for (node, op) in graph.ops().iter().enumerate() {
            let site = Site { traces: self.traces, sharers: &self.sharers[index], graph, node };
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
            builder.task(Task { kind, layer: NO_LAYER, part: Part::Other, name });
        }
        for node in 0..graph.len() {
            for &next in graph.successors(node) {
                builder.after(next, node as u32);
            }
        }
        builder.build(1).map_err(|problem| Box::new(problem.at(self.traces.file(self.sharers[index][0]), 0)))
    }

    fn task(&mut self, site: Site<'_>, op: &Op, teams: &[Team]) -> Boxed<TaskKind> {
        match op.work {
            NodeWork::Nothing => Err(site.refused(
                format!("a node of type {} cannot be simulated", op.kind),
                "remove it; ASTRA-sim 2 never finishes, or aborts, on such nodes",
            )),
            NodeWork::Compute(compute) => site.compute(op, compute),
            NodeWork::Memory(_) if op.duration_micros > 0 => {
                Ok(TaskKind::Memory(site.time(op.duration_micros)?))
            }
            NodeWork::Memory(_) => Err(site.refused(
                "remote memory is not modelled, and the node does not say how long it takes",
                "give the node a duration_micros",
            )),
            NodeWork::PointToPoint(message) => {
                let sends = op.kind == NodeKind::CommSend;
                let (own, peer) = if sends { (message.src, message.dst) } else { (message.dst, message.src) };
                let (Some(peer), Some(bytes), Some(tag)) = (peer, message.bytes, message.tag) else {
                    return Err(site.refused("the message has no size, tag or peer", "add the attributes"));
                };
                if let Some(rank) = site.sharers.iter().find(|&&rank| own.is_some_and(|own| own != rank)) {
                    let own = own.unwrap_or_default();
                    let message = format!(
                        "rank {rank} {} a message as rank {own}",
                        if sends { "sends" } else { "receives" }
                    );
                    return Err(site.refused(message, "a rank's own end of a message is itself"));
                }
                let bytes = Bytes(bytes);
                Ok(if sends {
                    TaskKind::Send { to: RankId(peer), bytes, tag }
                } else {
                    TaskKind::Receive { from: RankId(peer), bytes, tag }
                })
            }
            NodeWork::Collective(collective) => self.collective(site, collective, teams),
        }
    }

    fn collective(&mut self, site: Site<'_>, collective: Collective, teams: &[Team]) -> Boxed<TaskKind> {
        let (Some(kind), Some(bytes)) = (collective.kind, collective.bytes) else {
            return Err(site.refused("the collective has no type or size", "add comm_type and comm_size"));
        };
        let kind = match kind {
            CollectiveType::AllReduce => CollectiveKind::AllReduce,
            CollectiveType::AllGather => CollectiveKind::AllGather,
            CollectiveType::AllToAll => CollectiveKind::AllToAll,
            CollectiveType::ReduceScatter | CollectiveType::ReduceScatterBlock => {
                CollectiveKind::ReduceScatter
            }
            other => {
                return Err(site.refused(
                    format!("the collective {other} cannot be simulated"),
                    "use ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER or ALL_TO_ALL",
                ));
            }
        };
        if bytes == 0 {
            return Err(
                site.refused("a collective needs a comm_size above 0", "give it a size, or remove it")
            );
        }
        let (role, members) = match collective.group.map_or(Team::Everyone, |group| teams[group as usize]) {
            Team::Alone => return Ok(TaskKind::Join),
            Team::Listed(role, members) => (role, members),
            Team::Everyone => {
                let axes = match collective.involved {
                    None => (0..self.axes.len()).collect(),
                    Some(list) => self.involved(site, site.graph.involved(list))?,
                };
                let role = self.along(axes);
                (role, self.roles[role.index()].size())
            }
        };
        if members < 2 {
            return Ok(TaskKind::Join);
        }
        let factor = if kind == CollectiveKind::AllGather { u64::from(members) } else { 1 };
        let bytes = bytes.checked_mul(factor).ok_or_else(|| {
            site.refused(
                format!("{members} shards of this size are more than can be counted"),
                "check comm_size",
            )
        })?;
        let successors = site.graph.successors(site.node).iter();
        let blocking = successors.clone().any(|&next| site.graph.ops()[next as usize].kind == NodeKind::Comp);
        Ok(TaskKind::Collective { role, kind, bytes: Bytes(bytes), blocking })
    }

    /// The axes that take part.
    fn involved(&self, site: Site<'_>, list: &[bool]) -> Boxed<Vec<usize>> {
        let dims = self.axes.len();
        if list.len() < dims {
            return Err(site.refused(
                format!("involved_dim has {} entries, the fabric {dims} dimensions", list.len()),
                "give one entry for each dimension",
            ));
        }
        let axes: Vec<usize> = (0..dims).filter(|&axis| list[axis]).collect();
        if axes.is_empty() {
            return Err(site.refused(
                "no dimension takes part in the collective",
                "set an entry of involved_dim to true; ASTRA-sim 2 would never finish",
            ));
        }
        Ok(axes)
    }
}

/// A node, for errors.
#[derive(Clone, Copy)]
struct Site<'a> {
    traces: &'a Traces,
    /// The ranks that have the node.
    sharers: &'a [u32],
    graph: &'a Graph,
    node: usize,
}

impl Site<'_> {
    fn refused(self, message: impl Into<String>, help: &str) -> Box<Diagnostic> {
        let first = self.sharers[0];
        let key = format!("rank {first} node {} `{}`", self.graph.id(self.node), self.graph.name(self.node));
        let error = Diagnostic::error(Code::ChakraNode, message);
        Box::new(error.at(self.traces.file(first), 0).key(key).help(help))
    }

    fn time(self, micros: u64) -> Boxed<Time> {
        micros.checked_mul(1_000_000).map(Time).ok_or_else(|| {
            self.refused(format!("{micros} us are longer than can be simulated"), "check duration_micros")
        })
    }

    fn compute(self, op: &Op, compute: Compute) -> Boxed<TaskKind> {
        let (flop, memory) = (compute.num_ops.unwrap_or(0), compute.tensor_size.unwrap_or(0));
        let work = match (op.duration_micros, flop, memory) {
            (0, 0, 0) => Work::Time(Time::ZERO),
            _ if op.cpu => {
                return Err(self.refused(
                    "compute of the host (is_cpu_op) is not modelled: it would take the accelerator's time",
                    "remove host operators from the trace",
                ));
            }
            (0, ..) => Work::Ops { flop: Flops(flop), memory: Bytes(memory) },
            (micros, ..) => Work::Time(self.time(micros)?),
        };
        Ok(TaskKind::Compute(work))
    }
}
