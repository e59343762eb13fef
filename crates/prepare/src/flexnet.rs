//! Workload of a FlexNet task graph: each rank is a server.
//!
//! A server computes one task at a time. A transfer is a send of one server and a receive of another one. An all-reduce
//! is, on each member, a memory operation as long as the reduction inside the server, and then the collective. With
//! several iterations, a server begins the next one when all its tasks are done.

use std::collections::BTreeMap;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_formats::flexnet::{FlexNetGraph, FlexNetKind, Pass};
use syncline_units::{CollectiveKind, RankId};
use syncline_workload::{
    ClassRun, GraphBuilder, Part, Peer, ServerGroups, Source, Task, TaskKind, Work, Workload,
};

/// The job of `ranks` servers that `graph` describes; `file` is its path, for messages. `mismatch` words the error if it
/// has another number of servers.
///
/// # Errors
/// Another number of servers; dependencies between tasks of different servers that no message carries.
pub(crate) fn workload(
    graph: &FlexNetGraph,
    file: &str,
    iterations: u32,
    ranks: u32,
    mismatch: &dyn Fn(&str, u32) -> Diagnostic,
) -> Result<Workload> {
    if graph.servers != ranks {
        return Err(mismatch(&format!("the task graph has {} servers", graph.servers), graph.servers).into());
    }
    let mut builder = Builder::new(graph, file);
    for kind in graph.tasks.iter().map(|task| &task.kind) {
        builder.add(kind);
    }
    for (from, task) in graph.tasks.iter().enumerate() {
        for &to in &task.next {
            builder.depend(from, to as usize);
        }
    }
    builder.finish(iterations)
}

/// The tasks of one server that stand for a task of the file: those that wait for its predecessors, and those that its
/// successors wait for.
#[derive(Clone, Copy)]
struct Ends {
    server: u32,
    first: u32,
    last: u32,
}

/// A task of the file on the servers that take part in it.
enum Placed {
    /// A computation, or a transfer within a server.
    On(Ends),
    /// A transfer: the send, and the receive on another server.
    Between(Ends, Ends),
    /// An all-reduce: its part on each member.
    Among(Vec<Ends>),
}

struct Builder<'a> {
    graph: &'a FlexNetGraph,
    file: &'a str,
    servers: Vec<GraphBuilder>,
    placed: Vec<Placed>,
    groups: ServerGroups,
    /// Transfers so far between two servers, which number their tags.
    transfers: BTreeMap<(u32, u32), u32>,
    /// Whether a task of a server has a predecessor or a successor there.
    waits: Vec<Vec<bool>>,
    awaited: Vec<Vec<bool>>,
    problems: Diagnostics,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a FlexNetGraph, file: &'a str) -> Self {
        let servers = graph.servers as usize;
        Self {
            graph,
            file,
            servers: (0..servers).map(|_| GraphBuilder::new()).collect(),
            placed: Vec::with_capacity(graph.tasks.len()),
            groups: ServerGroups::default(),
            transfers: BTreeMap::new(),
            waits: vec![Vec::new(); servers],
            awaited: vec![Vec::new(); servers],
            problems: Diagnostics::new(),
        }
    }

    fn task(&mut self, server: u32, part: Part, kind: TaskKind) -> Ends {
        self.waits[server as usize].push(false);
        self.awaited[server as usize].push(false);
        let task = self.servers[server as usize].task(Task { kind, layer: None, part, name: String::new() });
        Ends { server, first: task, last: task }
    }

    fn after(&mut self, server: u32, task: u32, on: u32) {
        self.servers[server as usize].after(task, on);
        self.waits[server as usize][task as usize] = true;
        self.awaited[server as usize][on as usize] = true;
    }

    fn add(&mut self, kind: &FlexNetKind) {
        let placed = match *kind {
            FlexNetKind::Compute { server, pass, time } => {
                let part = match pass {
                    Pass::Forward => Part::Forward,
                    Pass::Backward => Part::WeightGrad,
                    Pass::Update => Part::Update,
                };
                Placed::On(self.task(server, part, TaskKind::Compute(Work::Time(time))))
            }
            FlexNetKind::Transfer { from, to, .. } if from == to => {
                Placed::On(self.task(from, Part::Forward, TaskKind::Join))
            }
            FlexNetKind::Transfer { from, to, bytes } => {
                let tag = self.transfers.entry((from, to)).or_default();
                *tag += 1;
                let tag = *tag;
                let (sender, receiver) = (Peer::Rank(RankId(from)), Peer::Rank(RankId(to)));
                let send = self.task(from, Part::Forward, TaskKind::Send { to: receiver, bytes, tag });
                let receive = self.task(to, Part::Forward, TaskKind::Receive { from: sender, bytes, tag });
                Placed::Between(send, receive)
            }
            FlexNetKind::AllReduce { ref members, bytes, inside } => {
                let role = (members.len() > 1).then(|| self.groups.role(members.clone()));
                let on_member = |&server: &u32| {
                    let local = self.task(server, Part::Update, TaskKind::Memory(inside));
                    let Some(role) = role else { return local };
                    let kind = CollectiveKind::AllReduce;
                    let collective = TaskKind::Collective { role, kind, bytes, blocking: false, when: None };
                    let reduced = self.task(server, Part::Update, collective);
                    self.after(server, reduced.first, local.last);
                    Ends { last: reduced.last, ..local }
                };
                Placed::Among(members.iter().map(on_member).collect())
            }
        };
        self.placed.push(placed);
    }

    /// Makes task `to` of the file wait for task `from`.
    fn depend(&mut self, from: usize, to: usize) {
        let before = match &self.placed[from] {
            Placed::On(ends) | Placed::Between(_, ends) => *ends,
            // All-reduces have no successors.
            Placed::Among(_) => return,
        };
        let behind = match &self.placed[to] {
            Placed::On(ends) | Placed::Between(ends, _) => Some(*ends),
            Placed::Among(members) => members.iter().find(|member| member.server == before.server).copied(),
        };
        match behind.filter(|behind| behind.server == before.server) {
            Some(behind) => self.after(before.server, behind.first, before.last),
            None => self.problems.push(
                Diagnostic::error(
                    Code::BadWorkload,
                    "a task waits for a task of another server without a transfer",
                )
                .at(self.file, 0)
                .key(format!("tasks.{from}.next"))
                .found(format!("task {to}, which does not run on server {}", before.server)),
            ),
        }
    }

    fn finish(mut self, iterations: u32) -> Result<Workload> {
        self.problems.0.truncate(8);
        std::mem::take(&mut self.problems).into_result()?;
        let ranks = self.graph.servers;
        let roles = self.groups.roles(ranks).map_err(|error| error.at(self.file, 0))?;
        let mut classes = Vec::new();
        for (mut tasks, (waits, awaited)) in
            self.servers.into_iter().zip(self.waits.into_iter().zip(self.awaited))
        {
            if iterations > 1 && !tasks.is_empty() {
                let end = tasks.task(Task {
                    kind: TaskKind::Join,
                    layer: None,
                    part: Part::Update,
                    name: "end of the step".to_owned(),
                });
                let numbers = |of: Vec<bool>| (0u32..).zip(of).filter(|(_, set)| !set).map(|(at, _)| at);
                numbers(awaited).for_each(|task| tasks.after(end, task));
                numbers(waits).for_each(|task| tasks.after_previous(task, end));
            }
            classes.push(tasks.build(iterations).map_err(|error| error.note(format!("in {}", self.file)))?);
        }
        Ok(Workload {
            name: Path::new(self.file)
                .file_stem()
                .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
            ranks,
            classes,
            class_runs: (0..ranks).map(|rank| ClassRun { first: rank, class: rank }).collect(),
            roles,
            axes: Vec::new(),
            layers: Vec::new(),
            iterations,
            source: Source::Built,
        })
    }
}
