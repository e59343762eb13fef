//! Builds a [`Graph`] from the nodes of a file: attributes, order of ids, dependencies.

use super::check;
use super::decode::{self, AttrView};
use super::graph::{Collective, Compute, Graph, Names, Op, PointToPoint, Work};
use super::process_groups::{self, ProcessGroup};
use super::schema::{CollectiveType, NodeKind, Value};
use syncline_diagnostics::{Code, Diagnostic, Result};

/// The fields of a node that matter for simulation.
#[derive(Default)]
pub(super) struct Raw<'a> {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) kind: i64,
    pub(super) deps: Vec<u64>,
    pub(super) duration_micros: u64,
    /// The encoded inputs and their offset.
    pub(super) inputs: Option<(&'a [u8], usize)>,
}

impl Raw<'_> {
    /// The name of the node in errors.
    fn key(&self) -> String {
        format!("node {} `{}`", self.id, self.name)
    }
}

pub(super) type Built<T> = std::result::Result<T, Box<Diagnostic>>;

/// Nodes in file order.
#[derive(Default)]
pub(super) struct Builder {
    ids: Vec<u64>,
    ops: Vec<Op>,
    names: Names,
    /// Dependencies of node `i`: `deps[dep_end[i - 1]..dep_end[i]]`, by id.
    deps: Vec<u64>,
    dep_end: Vec<usize>,
    groups: Vec<String>,
    involved: Vec<Vec<bool>>,
    process_groups: Vec<ProcessGroup>,
}

impl Builder {
    pub(super) fn push(&mut self, raw: &mut Raw<'_>, attrs: &[AttrView<'_>], replay: bool) -> Built<()> {
        let Some(kind) = NodeKind::from_number(raw.kind) else {
            return Err(Box::new(
                Diagnostic::error(Code::BadChakra, "a node has an unknown type")
                    .key(raw.key())
                    .found(raw.kind.to_string())
                    .allowed("0 to 7, see NodeType in Chakra's et_def.proto"),
            ));
        };
        let attrs = Attrs { raw, attrs };
        let cpu = match attrs.value("is_cpu_op")? {
            None => false,
            Some(value) => match value.integer() {
                Some(number) => number != 0,
                None => return Err(attrs.wrong("is_cpu_op", &value, "a bool")),
            },
        };
        let work = match kind {
            NodeKind::Invalid => Work::Nothing,
            NodeKind::Metadata => {
                self.define(raw)?;
                Work::Nothing
            }
            NodeKind::Comp => Work::Compute(Compute {
                num_ops: attrs.unsigned("num_ops")?,
                tensor_size: attrs.unsigned("tensor_size")?,
            }),
            NodeKind::MemLoad | NodeKind::MemStore => {
                Work::Memory(attrs.required("tensor_size", attrs.unsigned("tensor_size")?, replay)?)
            }
            NodeKind::CommColl => Work::Collective(self.collective(&attrs, replay)?),
            NodeKind::CommSend | NodeKind::CommRecv => {
                let peer = if kind == NodeKind::CommSend { "comm_dst" } else { "comm_src" };
                attrs.required(peer, attrs.small(peer)?, replay)?;
                Work::PointToPoint(PointToPoint {
                    src: attrs.small("comm_src")?,
                    dst: attrs.small("comm_dst")?,
                    bytes: attrs.required("comm_size", attrs.unsigned("comm_size")?, replay)?,
                    tag: attrs.required("comm_tag", attrs.small("comm_tag")?, replay)?,
                })
            }
        };
        let id = raw.id;
        if raw.deps.contains(&id) {
            return Err(Box::new(
                Diagnostic::error(Code::ChakraGraph, "a node depends on itself, so it can never start")
                    .key(raw.key())
                    .help("remove its own id from data_deps and ctrl_deps"),
            ));
        }
        raw.deps.sort_unstable();
        raw.deps.dedup();
        self.names.push(&raw.name).ok_or_else(|| {
            Box::new(Diagnostic::error(Code::BadChakra, "the names of the nodes exceed 4 GiB").key(raw.key()))
        })?;
        self.deps.extend_from_slice(&raw.deps);
        self.dep_end.push(self.deps.len());
        self.ids.push(id);
        self.ops.push(Op { kind, cpu, duration_micros: raw.duration_micros, work });
        Ok(())
    }

    /// Stores the process groups of a metadata node.
    fn define(&mut self, raw: &Raw<'_>) -> Built<()> {
        let Some((bytes, at)) = raw.inputs else { return Ok(()) };
        let inputs = decode::io_info(bytes, at).map_err(|error| {
            let key = format!("{}, inputs, byte {}", raw.key(), error.at);
            Box::new(Diagnostic::error(Code::BadChakra, error.problem).key(key))
        })?;
        let groups = process_groups::read(&inputs.values).map_err(|error| Box::new(error.key(raw.key())))?;
        for group in groups {
            match self.process_groups.iter_mut().find(|known| known.name == group.name) {
                Some(known) => *known = group,
                None => self.process_groups.push(group),
            }
        }
        Ok(())
    }

    fn collective(&mut self, attrs: &Attrs<'_>, replay: bool) -> Built<Collective> {
        let number = attrs.required("comm_type", attrs.integer("comm_type")?, replay)?;
        let kind = match number {
            None => None,
            Some(number) => match i64::try_from(number).ok().and_then(CollectiveType::from_number) {
                Some(kind) => Some(kind),
                None => {
                    return Err(Box::new(
                        Diagnostic::error(Code::BadChakra, "a collective has an unknown type")
                            .key(format!("{}, comm_type", attrs.raw.key()))
                            .found(number.to_string())
                            .allowed("0 to 9, see CollectiveCommType in Chakra's et_def.proto"),
                    ));
                }
            },
        };
        let group = match attrs.value("pg_name")? {
            None => None,
            Some(Value::String(name)) => Some(intern(&mut self.groups, name)),
            Some(value) => return Err(attrs.wrong("pg_name", &value, "a string")),
        };
        let involved = match attrs.value("involved_dim")? {
            None => None,
            Some(Value::BoolList(dims)) => Some(intern(&mut self.involved, dims)),
            Some(value) => return Err(attrs.wrong("involved_dim", &value, "a bool_list")),
        };
        Ok(Collective {
            kind,
            // A barrier has no payload.
            bytes: attrs.required(
                "comm_size",
                attrs.unsigned("comm_size")?,
                replay || kind == Some(CollectiveType::Barrier),
            )?,
            group,
            involved,
            priority: attrs.small("comm_priority")?.unwrap_or(0),
        })
    }

    /// Sorts by id, resolves the dependencies and checks them.
    pub(super) fn finish(self, file: &str) -> Result<Graph> {
        let count =
            u32::try_from(self.ids.len()).ok().filter(|&count| count < u32::MAX).ok_or_else(|| {
                Diagnostic::error(Code::BadChakra, "the trace has 2^32 nodes or more").at(file, 0)
            })?;
        let mut order: Vec<u32> = (0..count).collect();
        if !self.ids.is_sorted() {
            order.sort_by_key(|&index| self.ids[index as usize]);
        }
        let ids: Vec<u64> = order.iter().map(|&index| self.ids[index as usize]).collect();
        let names = self.names.reordered(&order);
        let ops = order.iter().map(|&index| self.ops[index as usize]).collect();
        let dep_range =
            |index: usize| index.checked_sub(1).map_or(0, |before| self.dep_end[before])..self.dep_end[index];
        let problems = check::ids(file, &ids, |index| names.get(index).to_owned());
        if problems.has_errors() {
            return Err(problems);
        }
        let mut problems = check::Missing::new(file);
        let mut edges = Vec::with_capacity(self.deps.len());
        let mut dependencies = Vec::with_capacity(ids.len());
        for (node, &index) in order.iter().enumerate() {
            let deps = &self.deps[dep_range(index as usize)];
            for &dep in deps {
                match ids.binary_search(&dep) {
                    Ok(from) => edges.push((from as u32, node as u32)),
                    Err(_) => problems.add(ids[node], names.get(node), dep),
                }
            }
            dependencies.push(deps.len() as u32);
        }
        problems.into_result()?;
        let (successor_start, successors) = csr(ids.len(), &edges).ok_or_else(|| {
            Diagnostic::error(Code::BadChakra, "the trace has 2^32 dependencies or more").at(file, 0)
        })?;
        let graph = Graph {
            ids,
            ops,
            names,
            successor_start,
            successors,
            dependencies,
            groups: self.groups,
            involved: self.involved,
            process_groups: self.process_groups,
        };
        check::acyclic(file, &graph)?;
        Ok(graph)
    }
}

/// Successor lists of `count` nodes in one array. `edges` must be sorted by their second end.
fn csr(count: usize, edges: &[(u32, u32)]) -> Option<(Vec<u32>, Vec<u32>)> {
    u32::try_from(edges.len()).ok()?;
    let mut start = vec![0u32; count + 1];
    for &(from, _) in edges {
        start[from as usize + 1] += 1;
    }
    for index in 0..count {
        start[index + 1] += start[index];
    }
    let mut fill = start.clone();
    let mut successors = vec![0; edges.len()];
    for &(from, to) in edges {
        let at = &mut fill[from as usize];
        successors[*at as usize] = to;
        *at += 1;
    }
    Some((start, successors))
}

/// The index of `value` in `values`; adds it if it is new.
fn intern<T: PartialEq>(values: &mut Vec<T>, value: T) -> u32 {
    let index = values.iter().position(|known| *known == value).unwrap_or_else(|| {
        values.push(value);
        values.len() - 1
    });
    index as u32
}

/// The attributes of one node, decoded on demand. If several have the same name, the first counts, as in ASTRA-sim 2,
/// `et_feeder_node.cpp`.
struct Attrs<'a> {
    raw: &'a Raw<'a>,
    attrs: &'a [AttrView<'a>],
}

impl Attrs<'_> {
    fn value(&self, name: &str) -> Built<Option<Value>> {
        match self.attrs.iter().find(|attr| attr.name == name.as_bytes()) {
            None => Ok(None),
            Some(attr) => attr.value().map_err(|error| {
                let key = format!("{}, {name}, byte {}", self.raw.key(), error.at);
                Box::new(Diagnostic::error(Code::BadChakra, error.problem).key(key))
            }),
        }
    }
    fn wrong(&self, name: &str, value: &Value, allowed: &str) -> Box<Diagnostic> {
        Box::new(
            Diagnostic::error(Code::ChakraNode, "an attribute has a value of the wrong kind")
                .key(format!("{}, {name}", self.raw.key()))
                .found(format!("{} {}", value.kind(), short(value)))
                .allowed(allowed),
        )
    }
    fn integer(&self, name: &str) -> Built<Option<i128>> {
        match self.value(name)? {
            None => Ok(None),
            Some(value) => match value.integer() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(name, &value, "an integer")),
            },
        }
    }
    fn unsigned(&self, name: &str) -> Built<Option<u64>> {
        self.within(name, u64::MAX)
    }
    fn small(&self, name: &str) -> Built<Option<u32>> {
        Ok(self.within(name, u32::MAX.into())?.map(|number| number as u32))
    }
    fn within(&self, name: &str, max: u64) -> Built<Option<u64>> {
        match self.integer(name)? {
            None => Ok(None),
            Some(number) => match u64::try_from(number) {
                Ok(number) if number <= max => Ok(Some(number)),
                _ => Err(Box::new(
                    Diagnostic::error(Code::ChakraNode, "an attribute is out of range")
                        .key(format!("{}, {name}", self.raw.key()))
                        .found(number.to_string())
                        .allowed(format!("0 to {max}")),
                )),
            },
        }
    }
    /// Refuses an absent value, unless the trace is only replayed.
    fn required<T>(&self, name: &str, value: Option<T>, replay: bool) -> Built<Option<T>> {
        if value.is_none() && !replay {
            return Err(Box::new(
                Diagnostic::error(Code::ChakraNode, format!("the attribute {name} is missing"))
                    .key(self.raw.key())
                    .help(format!("add the attribute {name} to the node")),
            ));
        }
        Ok(value)
    }
}

/// A value as shown in an error.
fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("{text:?}"),
        Value::Double(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other => other.integer().map_or_else(String::new, |number| number.to_string()),
    };
    text.chars().take(60).collect()
}
