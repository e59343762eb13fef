//! The compact form of a trace for simulation: nodes in ascending order of id and numbered from 0, successors in one
//! array, only the attributes that a simulation needs.

use super::process_groups::ProcessGroup;
use super::schema::{CollectiveType, NodeKind};

/// A rank's task graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    pub(super) ids: Vec<u64>,
    pub(super) ops: Vec<Op>,
    pub(super) names: Names,
    /// Successors of node `i`: `successors[successor_start[i]..successor_start[i + 1]]`, ascending.
    pub(super) successor_start: Vec<u32>,
    pub(super) successors: Vec<u32>,
    pub(super) dependencies: Vec<u32>,
    pub(super) groups: Vec<String>,
    pub(super) involved: Vec<Vec<bool>>,
    pub(super) process_groups: Vec<ProcessGroup>,
}

/// One node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its type.
    pub kind: NodeKind,
    /// Whether it runs on the host (`is_cpu_op`).
    pub cpu: bool,
    /// Its duration when it was recorded (`duration_micros`).
    pub duration_micros: u64,
    /// Its work.
    pub work: Work,
}

/// The work of a node, with the attributes that matter for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing: `INVALID_NODE`, `METADATA_NODE`.
    Nothing,
    /// `COMP_NODE`.
    Compute(Compute),
    /// `MEM_LOAD_NODE`, `MEM_STORE_NODE`: bytes (`tensor_size`).
    Memory(Option<u64>),
    /// `COMM_COLL_NODE`.
    Collective(Collective),
    /// `COMM_SEND_NODE`, `COMM_RECV_NODE`.
    PointToPoint(PointToPoint),
}

/// Attributes of a `COMP_NODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Compute {
    /// Floating-point operations (`num_ops`).
    pub num_ops: Option<u64>,
    /// Bytes moved (`tensor_size`).
    pub tensor_size: Option<u64>,
}

/// Attributes of a `COMM_COLL_NODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Kind of the collective (`comm_type`); `None` only in a trace that is only replayed.
    pub kind: Option<CollectiveType>,
    /// Bytes (`comm_size`); `None` only in a trace that is only replayed.
    pub bytes: Option<u64>,
    /// The process group, as an index for [`Graph::group`].
    pub group: Option<u32>,
    /// The dimensions that take part, as an index for [`Graph::involved`].
    pub involved: Option<u32>,
    /// `comm_priority`.
    pub priority: u32,
}

/// Attributes of a `COMM_SEND_NODE` or `COMM_RECV_NODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PointToPoint {
    /// The sender (`comm_src`).
    pub src: Option<u32>,
    /// The receiver (`comm_dst`).
    pub dst: Option<u32>,
    /// Bytes (`comm_size`).
    pub bytes: Option<u64>,
    /// `comm_tag`.
    pub tag: Option<u32>,
}

/// Names, in one string.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Names {
    text: String,
    end: Vec<u32>,
}

impl Names {
    pub(super) fn push(&mut self, name: &str) -> Option<()> {
        let end = u32::try_from(self.text.len() + name.len()).ok()?;
        self.text.push_str(name);
        self.end.push(end);
        Some(())
    }
    pub(super) fn get(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.end[before] as usize);
        &self.text[start..self.end[index] as usize]
    }
    /// The names in another order.
    pub(super) fn reordered(&self, order: &[u32]) -> Self {
        let mut names = Self { text: String::with_capacity(self.text.len()), end: Vec::new() };
        names.end.reserve_exact(order.len());
        for &index in order {
            names.push(self.get(index as usize));
        }
        names
    }
}

impl Graph {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.ops.len()
    }
    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
    /// The nodes, in ascending order of id.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }
    /// The id of node `index` in the file.
    pub fn id(&self, index: usize) -> u64 {
        self.ids[index]
    }
    /// The name of node `index`.
    pub fn name(&self, index: usize) -> &str {
        self.names.get(index)
    }
    /// The nodes that wait for node `index`.
    pub fn successors(&self, index: usize) -> &[u32] {
        &self.successors[self.successor_start[index] as usize..self.successor_start[index + 1] as usize]
    }
    /// For each node, the number of nodes that it waits for.
    pub fn dependencies(&self) -> &[u32] {
        &self.dependencies
    }
    /// The text of a `pg_name`.
    pub fn group(&self, index: u32) -> &str {
        &self.groups[index as usize]
    }
    /// Every `pg_name` of the trace.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }
    /// The process groups that the trace itself defines; if several have the same name, the last one.
    pub fn process_groups(&self) -> &[ProcessGroup] {
        &self.process_groups
    }
    /// An `involved_dim` list.
    pub fn involved(&self, index: u32) -> &[bool] {
        &self.involved[index as usize]
    }
    /// Every `involved_dim` list of the trace.
    pub fn involved_lists(&self) -> &[Vec<bool>] {
        &self.involved
    }
}
