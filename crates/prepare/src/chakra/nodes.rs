//! Converts nodes to tasks, and refuses nodes that cannot be simulated.

use super::{Boxed, Team, TraceJob};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_formats::chakra::{
    Collective, CollectiveType, Compute, Graph, NodeKind, Op, Traces, Work as NodeWork,
};
use syncline_units::{Bytes, CollectiveKind, Flops, RankId, Time};
use syncline_workload::{Peer, TaskKind, Work};

impl TraceJob<'_> {
    /// The task of a node.
    pub(super) fn task(&mut self, site: Site<'_>, op: &Op, teams: &[Team]) -> Boxed<TaskKind> {
        match op.work {
            // Metadata describe the trace, such as its process groups.
            NodeWork::Nothing if op.kind == NodeKind::Metadata => Ok(TaskKind::Join),
            NodeWork::Nothing => Err(site.refused(
                format!("a node of type {} cannot be simulated", op.kind),
                "remove it, or give it the intended type; ASTRA-sim 2 never finishes on such nodes",
            )),
            NodeWork::Compute(compute) => site.compute(op, compute),
            NodeWork::Memory(_) if op.duration_micros > 0 => {
                Ok(TaskKind::Memory(site.time(op.duration_micros)?))
            }
            NodeWork::Memory(_) => Err(site.refused(
                "remote memory is not modelled, and the node has no duration",
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
                    return Err(site.refused(
                        message,
                        "give the rank itself as the sender of what it sends and as the receiver of what it receives",
                    ));
                }
                let bytes = Bytes(bytes);
                Ok(if sends {
                    TaskKind::Send { to: Peer::Rank(RankId(peer)), bytes, tag }
                } else {
                    TaskKind::Receive { from: Peer::Rank(RankId(peer)), bytes, tag }
                })
            }
            NodeWork::Collective(collective) => self.collective(site, collective, teams),
        }
    }

    fn collective(&mut self, site: Site<'_>, collective: Collective, teams: &[Team]) -> Boxed<TaskKind> {
        let Some(kind) = collective.kind else {
            return Err(site.refused("the collective has no type", "add comm_type"));
        };
        let barrier = kind == CollectiveType::Barrier;
        let kind = match kind {
            CollectiveType::AllReduce | CollectiveType::Barrier => CollectiveKind::AllReduce,
            CollectiveType::Broadcast => CollectiveKind::Broadcast,
            CollectiveType::AllGather => CollectiveKind::AllGather,
            CollectiveType::AllToAll => CollectiveKind::AllToAll,
            CollectiveType::ReduceScatter | CollectiveType::ReduceScatterBlock => {
                CollectiveKind::ReduceScatter
            }
            other => {
                return Err(site.refused(
                    format!("the collective {other} cannot be simulated"),
                    "use ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST or BARRIER",
                ));
            }
        };
        let bytes = match collective.bytes {
            // A barrier's size is not payload.
            _ if barrier => 1,
            Some(bytes) => bytes,
            None => return Err(site.refused("the collective has no size", "add comm_size")),
        };
        if bytes == 0 {
            return Err(
                site.refused("a collective needs a comm_size above 0", "give it a size, or remove it")
            );
        }
        let (role, members) = match collective.group.map_or(Team::Everyone, |group| teams[group as usize]) {
            Team::Alone => return Ok(TaskKind::Join),
            Team::Listed { role, members } => (role, members),
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
        let factor = if kind == CollectiveKind::AllGather || barrier { u64::from(members) } else { 1 };
        let bytes = bytes.checked_mul(factor).ok_or_else(|| {
            site.refused(
                format!("{members} shards of this size have more than 2^64 bytes"),
                "check comm_size",
            )
        })?;
        let successors = site.graph.successors(site.node).iter();
        let blocking = successors.clone().any(|&next| site.graph.ops()[next as usize].kind == NodeKind::Comp);
        Ok(TaskKind::Collective { role, kind, bytes: Bytes(bytes), blocking, when: None })
    }

    /// The axes for which `list`, a node's `involved_dim`, is true.
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

/// The first node that occupies the path to remote memory.
pub(super) fn first_memory(graph: &Graph) -> Option<usize> {
    graph.ops().iter().position(|op| matches!(op.work, NodeWork::Memory(_)) && op.duration_micros > 0)
}

/// A node, for errors.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) traces: &'a Traces,
    /// The ranks that have the node.
    pub(super) sharers: &'a [u32],
    pub(super) graph: &'a Graph,
    pub(super) node: usize,
    /// The graph's first node that occupies the path to remote memory.
    pub(super) memory: Option<usize>,
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

    /// Compute of the accelerator or of the host.
    fn compute(self, op: &Op, compute: Compute) -> Boxed<TaskKind> {
        let (flop, memory) = (compute.num_ops.unwrap_or(0), compute.tensor_size.unwrap_or(0));
        let work = match (op.duration_micros, flop, memory) {
            // Traces list many host operators without any work. They take no time.
            (0, 0, 0) if op.cpu => return Ok(TaskKind::Join),
            (0, 0, 0) => Work::Time(Time::ZERO),
            (0, ..) if op.cpu => {
                return Err(self.refused(
                    "compute of the host (is_cpu_op) is given by operations, but the compute model is for the accelerator",
                    "give the node a duration_micros",
                ));
            }
            (micros, ..) if op.cpu => return self.host(micros),
            (0, ..) => Work::Ops {
                flop: Flops(flop),
                memory: Bytes(memory),
                products: Box::default(),
                data_type: None,
            },
            (micros, ..) => Work::Time(self.time(micros)?),
        };
        Ok(TaskKind::Compute(work))
    }

    /// Compute of the host. It uses the engine's resource for the path to remote memory, which works beside the
    /// accelerator and does one operation at a time.
    fn host(self, micros: u64) -> Boxed<TaskKind> {
        if let Some(memory) = self.memory {
            let id = self.graph.id(memory);
            return Err(self.refused(
                format!("a rank has both compute of the host (is_cpu_op) and memory nodes, such as node {id}: they would wait for each other"),
                "remove one of the two kinds of node",
            ));
        }
        Ok(TaskKind::Memory(self.time(micros)?))
    }
}
