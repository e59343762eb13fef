//! Task graphs of FlexNet, the simulator of TopoOpt: a training step on servers as a FlatBuffer.
//!
//! | type | task | what its fields mean |
//! |---|---|---|
//! | 0, 1, 3 | forward pass, backward pass, update | a server's accelerator, and how long it is busy |
//! | 5 | transfer | `property` of its device is `from * (servers + switches) + to` |
//! | 6 | all-reduce | `next` lists the members; the time is that of the reduction inside a server, which comes first |
//!
//! `next` of other tasks lists those that wait for them. All-reduces have no successors. Types 2 (a transfer over one
//! link) and 4 (a barrier) are not in the released graphs and are refused. Source: the schema and the graphs of
//! hipersys-team/TopoOpt.

mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result, reason};
use syncline_units::{Bytes, Time};

/// Largest file.
const MAX_BYTES: u64 = 1 << 30;
/// Most servers.
const MAX_SERVERS: u32 = 1 << 20;
/// Longest task, in milliseconds: about a month.
const LONGEST: f32 = 2.6e9;
/// Type of a device that is an accelerator.
const ACCELERATOR: i16 = 0;
/// Type of a device that is a route between two nodes.
const ROUTE: i16 = 14;

/// A training step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlexNetGraph {
    /// Number of servers.
    pub servers: u32,
    /// The tasks.
    pub tasks: Vec<FlexNetTask>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlexNetTask {
    /// What it does.
    pub kind: FlexNetKind,
    /// Indices of the tasks that wait for it.
    pub next: Vec<u32>,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlexNetKind {
    /// A server computes.
    Compute {
        /// The server.
        server: u32,
        /// Which part of the step it is.
        pass: Pass,
        /// How long it takes.
        time: Time,
    },
    /// A server sends to another one.
    Transfer {
        /// The server that sends.
        from: u32,
        /// The server that receives.
        to: u32,
        /// Size.
        bytes: Bytes,
    },
    /// Servers reduce gradients.
    AllReduce {
        /// The servers, ascending.
        members: Vec<u32>,
        /// Size.
        bytes: Bytes,
        /// How long each server reduces among its own accelerators before.
        inside: Time,
    },
}

/// A part of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Forward pass.
    Forward,
    /// Backward pass.
    Backward,
    /// Update of parameters.
    Update,
}

impl FlexNetGraph {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// `Unreadable`; `BadSyntax` if it is no such FlatBuffer; `BadWorkload` with everything that is impossible in it.
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable =
            |text: String| Diagnostic::error(Code::Unreadable, text).at(path.display().to_string(), 0);
        let size = std::fs::metadata(path)
            .map_err(|error| unreadable(format!("cannot be read: {}", reason(&error))))?;
        if size.len() > MAX_BYTES {
            return Err(unreadable("too large for a task graph".to_owned())
                .found(Bytes(size.len()).to_string())
                .allowed(format!("at most {}", Bytes(MAX_BYTES)))
                .into());
        }
        let bytes =
            std::fs::read(path).map_err(|error| unreadable(format!("cannot be read: {}", reason(&error))))?;
        Self::from_bytes(&bytes, &path.display().to_string())
    }

    /// Reads and checks a file's content. `file` is its path, for messages.
    ///
    /// # Errors
    /// As [`FlexNetGraph::read`].
    pub fn from_bytes(bytes: &[u8], file: &str) -> Result<Self> {
        let graph = wire::root(bytes).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_end_matches(['.', ' ']).to_owned();
            Diagnostic::error(Code::BadSyntax, "not a task graph of FlexNet")
                .at(file, 0)
                .note(first)
                .help("FlexNet writes such files with its option `--taskgraph`; they end with `.fbuf`")
        })?;
        let servers = graph.servers();
        if servers == 0 || servers > MAX_SERVERS {
            return Err(Diagnostic::error(Code::BadWorkload, "a task graph needs servers")
                .at(file, 0)
                .key("nnode")
                .found(servers.to_string())
                .allowed(format!("1 to {MAX_SERVERS}"))
                .into());
        }
        Reader {
            file,
            servers,
            nodes: u64::from(servers) + u64::from(graph.switches()),
            problems: Diagnostics::new(),
        }
        .read(&graph)
    }
}

/// A device that tasks name.
enum Device {
    Accelerator(u64),
    Route(u64),
}

struct Reader<'a> {
    file: &'a str,
    servers: u32,
    /// Servers and switches.
    nodes: u64,
    problems: Diagnostics,
}

impl Reader<'_> {
    fn read(mut self, graph: &wire::Graph<'_>) -> Result<FlexNetGraph> {
        let mut devices = BTreeMap::new();
        for device in graph.devices() {
            let kind = match device.kind() {
                ACCELERATOR => Device::Accelerator(device.node()),
                ROUTE => Device::Route(device.property()),
                _ => continue,
            };
            devices.insert(device.id(), kind);
        }
        let entries = graph.tasks();
        let mut index = BTreeMap::new();
        for (at, task) in entries.iter().enumerate() {
            if index.insert(task.id(), at as u32).is_some() {
                self.refuse(at, "another task has the same number", task.id().to_string());
            }
        }
        let mut tasks = Vec::with_capacity(entries.len());
        for (at, task) in entries.iter().enumerate() {
            // More would only repeat the same mistake.
            if self.problems.0.len() >= 8 {
                break;
            }
            let Some(kind) = self.kind(at, &task, &devices) else { continue };
            let mut next = Vec::new();
            if !matches!(kind, FlexNetKind::AllReduce { .. }) {
                for id in task.next() {
                    match index.get(&id) {
                        Some(&successor) => next.push(successor),
                        None => self.refuse(at, "a task that waits for it does not exist", id.to_string()),
                    }
                }
            }
            tasks.push(FlexNetTask { kind, next });
        }
        self.problems.into_result()?;
        Ok(FlexNetGraph { servers: self.servers, tasks })
    }

    fn kind(
        &mut self,
        at: usize,
        task: &wire::TaskEntry<'_>,
        devices: &BTreeMap<u64, Device>,
    ) -> Option<FlexNetKind> {
        let bytes = Bytes(task.bytes());
        match task.kind() {
            kind @ (0 | 1 | 3) => {
                let pass = [Pass::Forward, Pass::Backward, Pass::Forward, Pass::Update][kind as usize];
                let Some(&Device::Accelerator(node)) = devices.get(&task.device()) else {
                    self.refuse(at, "the accelerator of a task does not exist", task.device().to_string());
                    return None;
                };
                Some(FlexNetKind::Compute {
                    server: self.server(at, node)?,
                    pass,
                    time: self.time(at, task)?,
                })
            }
            5 => {
                let Some(&Device::Route(property)) = devices.get(&task.device()) else {
                    self.refuse(at, "the route of a transfer does not exist", task.device().to_string());
                    return None;
                };
                let (from, to) = (property / self.nodes, property % self.nodes);
                Some(FlexNetKind::Transfer { from: self.server(at, from)?, to: self.server(at, to)?, bytes })
            }
            6 => {
                let mut members = Vec::new();
                for member in task.next() {
                    members.push(self.server(at, member)?);
                }
                members.sort_unstable();
                let count = members.len();
                members.dedup();
                if members.is_empty() || members.len() < count {
                    self.refuse(at, "an all-reduce needs members, each of them once", count.to_string());
                    return None;
                }
                Some(FlexNetKind::AllReduce { members, bytes, inside: self.time(at, task)? })
            }
            other => {
                self.refuse(at, "cannot simulate tasks of this type", other.to_string());
                None
            }
        }
    }

    fn server(&mut self, at: usize, node: u64) -> Option<u32> {
        let server = u32::try_from(node).ok().filter(|&server| server < self.servers);
        if server.is_none() {
            self.refuse(at, "a task names a server that does not exist", node.to_string());
        }
        server
    }

    fn time(&mut self, at: usize, task: &wire::TaskEntry<'_>) -> Option<Time> {
        let milliseconds = task.milliseconds();
        if !(0.0..=LONGEST).contains(&milliseconds) {
            self.refuse(at, "not a valid time of a task", format!("{milliseconds} ms"));
            return None;
        }
        // Picoseconds of a millisecond.
        Some(Time((f64::from(milliseconds) * 1e9).round() as u64))
    }

    fn refuse(&mut self, at: usize, problem: &str, found: String) {
        self.problems.push(
            Diagnostic::error(Code::BadWorkload, problem)
                .at(self.file, 0)
                .key(format!("tasks.{at}"))
                .found(found),
        );
    }
}

#[cfg(test)]
mod tests;
