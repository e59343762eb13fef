//! Random jobs as Chakra traces: pipelines whose stages send to each other, groups along dimensions and across them,
//! several jobs on one fabric.

use crate::support::{collectives, dimensions, models, number};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use syncline_formats::chakra::{CollectiveType, Metadata, Node, write_file};

/// The ranks that take part in a collective.
#[derive(Clone, Copy, Debug)]
enum Group {
    /// The ranks of a stage: all dimensions but that of the pipeline and that of the jobs.
    Stage,
    /// All ranks.
    All,
    /// Lists of ranks with consecutive numbers, which may not be aligned with dimensions.
    Blocks,
    /// Lists of ranks with equal distances.
    Strides,
}

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    dims: Vec<Value>,
    collectives: Value,
    model: &'static str,
    /// The dimension along which the stages lie, and the one along which jobs differ.
    along: [Index; 2],
    several_jobs: bool,
    microbatches: u32,
    iterations: u32,
    /// Whether backward passes run as early as possible, rather than after all forward passes.
    early_backward: bool,
    /// Whether passes of a stage wait for each other, and receives for the previous pass.
    in_order: bool,
    /// Whether the last stage sends to the first one.
    round: bool,
    /// Microseconds of a pass; stages use these values in turn.
    micros: [u32; 2],
    /// The rank whose passes take longer.
    slow: Option<Index>,
    bytes: u32,
    /// Collectives of an iteration.
    exchanges: Vec<(CollectiveType, u32, Group)>,
    /// Number of ranks in a list, and whether all sizes divide evenly.
    members: u32,
    even: bool,
}

fn exchange(round: bool) -> impl Strategy<Value = (CollectiveType, u32, Group)> {
    let kinds = vec![
        CollectiveType::AllReduce,
        CollectiveType::ReduceScatter,
        CollectiveType::AllGather,
        CollectiveType::AllToAll,
    ];
    let groups = vec![Group::Stage, Group::Stage, Group::Stage, Group::All, Group::Blocks, Group::Strides];
    (prop::sample::select(kinds), number(round, &[64, 1024], 1..3000), prop::sample::select(groups))
}

/// Random jobs.
pub(crate) fn traces() -> impl Strategy<Value = Traces> {
    any::<bool>().prop_flat_map(|round| {
        let fabric = (dimensions(round, 1..4), collectives(round), models());
        let shape = (any::<[Index; 2]>(), any::<bool>(), 1u32..5, 1u32..4);
        let schedule = any::<[bool; 3]>();
        let micros = number(round, &[0, 1, 10], 0..30);
        let work = ([micros.clone(), micros], prop::option::weighted(0.2, any::<Index>()));
        let data = (
            number(round, &[1024, 65_536], 1..200_000),
            prop::collection::vec(exchange(round), 0..4),
            2u32..5,
            any::<bool>(),
        );
        (fabric, shape, schedule, work, data).prop_map(
            |(
                (mut dims, collectives, model),
                (along, several_jobs, microbatches, iterations),
                [early_backward, in_order, round],
                (micros, slow),
                (bytes, exchanges, members, even),
            )| {
                // A file for each rank.
                for dim in &mut dims {
                    dim["size"] = json!(dim["size"].as_u64().unwrap().min(4));
                }
                Traces {
                    dims,
                    collectives,
                    model,
                    along,
                    several_jobs,
                    microbatches,
                    iterations,
                    early_backward,
                    in_order,
                    round,
                    micros,
                    slow,
                    bytes,
                    exchanges,
                    members,
                    even,
                }
            },
        )
    })
}

/// A pass of a stage.
#[derive(Clone, Copy)]
enum Pass {
    Forward(u32),
    Backward(u32),
}

/// The nodes of a rank under construction.
struct Nodes {
    nodes: Vec<Node>,
    rank: u32,
}

impl Nodes {
    fn id(&self) -> u64 {
        self.nodes.len() as u64 + 1
    }
    fn push(&mut self, node: Node, after: &[u64]) -> u64 {
        let id = self.id();
        self.nodes.push(node.after(after));
        id
    }
    fn send(&mut self, to: u32, bytes: u32, tag: u32, after: u64) {
        let [from, to, tag] = [self.rank, to, tag].map(|number| number as i32);
        self.push(Node::send(self.id(), "send", from, to, bytes.into(), tag), &[after]);
    }
    fn receive(&mut self, from: u32, bytes: u32, tag: u32, after: &[u64]) -> u64 {
        let [from, to, tag] = [from, self.rank, tag].map(|number| number as i32);
        self.push(Node::receive(self.id(), "receive", from, to, bytes.into(), tag), after)
    }
}

impl Traces {
    fn sizes(&self) -> Vec<u32> {
        self.dims.iter().map(|dim| dim["size"].as_u64().unwrap() as u32).collect()
    }
    fn ranks(&self) -> u32 {
        self.sizes().iter().product()
    }
    /// The dimensions of stages and jobs.
    fn along(&self) -> [usize; 2] {
        self.along.map(|along| along.index(self.dims.len()))
    }
    fn stride(&self, dim: usize) -> u32 {
        self.sizes()[..dim].iter().product()
    }
    fn coordinate(&self, rank: u32, dim: usize) -> u32 {
        rank / self.stride(dim) % self.sizes()[dim]
    }
    /// Number of ranks in a list; 1 if the ranks cannot be divided into lists.
    fn members(&self) -> u32 {
        if self.ranks().is_multiple_of(self.members) { self.members } else { 1 }
    }

    /// The passes of a stage in order.
    fn passes(&self, stage: u32, stages: u32, microbatches: u32) -> Vec<Pass> {
        let ahead = if self.early_backward { (stages - stage).min(microbatches) } else { microbatches };
        let mut passes: Vec<Pass> = (0..ahead).map(Pass::Forward).collect();
        for batch in 0..microbatches {
            passes.push(Pass::Backward(batch));
            passes.extend((ahead + batch < microbatches).then_some(Pass::Forward(ahead + batch)));
        }
        passes
    }

    fn nodes(&self, rank: u32) -> Vec<Node> {
        let [pipe, split] = self.along();
        let (stage, stages, stride) = (self.coordinate(rank, pipe), self.sizes()[pipe], self.stride(pipe));
        let job = if self.several_jobs && split != pipe { self.coordinate(rank, split) } else { 0 };
        let microbatches = self.microbatches + job % 2;
        let slow = self.slow.is_some_and(|slow| slow.index(self.ranks() as usize) as u32 == rank);
        let micros = u64::from(self.micros[stage as usize % 2]) * if slow { 3 } else { 1 };
        let [below, above] = [stage.checked_sub(1), Some(stage + 1).filter(|&above| above < stages)]
            .map(|other| other.map(|other| rank + other * stride - stage * stride));
        let (first, last) = (rank - stage * stride, rank + (stages - 1 - stage) * stride);
        let mut nodes = Nodes { nodes: Vec::new(), rank };
        let mut ends: Vec<u64> = Vec::new();
        for iteration in 0..self.iterations {
            let tag = |batch: u32, way: u32| (iteration * 100 + batch) * 3 + way;
            let begin = std::mem::take(&mut ends);
            let mut before = begin.clone();
            let mut forward = BTreeMap::new();
            for pass in self.passes(stage, stages, microbatches) {
                let (name, batch, source, target, way) = match pass {
                    Pass::Forward(batch) => ("forward", batch, below, above, 0),
                    Pass::Backward(batch) => ("backward", batch, above, below, 1),
                };
                let mut after = if self.in_order { before.clone() } else { begin.clone() };
                if let Some(source) = source {
                    let posted = after.clone();
                    after.push(nodes.receive(source, self.bytes, tag(batch, way), &posted));
                }
                if way == 1 {
                    after.extend(forward.get(&batch));
                }
                let id = nodes.push(Node::compute(nodes.id(), name, micros), &after);
                if let Some(target) = target {
                    nodes.send(target, self.bytes, tag(batch, way), id);
                }
                if way == 0 {
                    forward.insert(batch, id);
                }
                if self.round && stages > 1 && way == 0 && stage + 1 == stages {
                    nodes.send(first, self.bytes, tag(batch, 2), id);
                }
                before = vec![id];
                ends.push(id);
            }
            if self.round && stages > 1 && stage == 0 {
                for batch in 0..microbatches {
                    ends.push(nodes.receive(last, self.bytes, tag(batch, 2), &begin));
                }
            }
            let passes = ends.clone();
            for (index, &(kind, elements, group)) in self.exchanges.iter().enumerate() {
                let bytes = i64::from(elements) * if self.even { 4 * 64 * 27 } else { 4 };
                let node = Node::collective(nodes.id(), "exchange", kind, bytes);
                let node = match group {
                    Group::All => node,
                    Group::Stage => {
                        let apart = |dim: usize| dim == pipe || self.several_jobs && dim == split;
                        let dims: Vec<bool> = (0..self.dims.len()).map(|dim| !apart(dim)).collect();
                        if !dims.contains(&true) {
                            continue;
                        }
                        node.in_dims(&dims)
                    }
                    Group::Blocks => node.in_group(&(1 + rank / self.members()).to_string()),
                    Group::Strides => {
                        let lists = self.ranks() / self.members();
                        node.in_group(&(1 + lists + rank % lists).to_string())
                    }
                };
                let id = nodes.push(node, &passes);
                // The next iteration hides the first collective.
                ends.extend((index > 0).then_some(id));
            }
        }
        nodes.nodes
    }

    /// Writes the traces into a folder and returns the scenario that runs them.
    pub(crate) fn write(&self, folder: &Path) -> Value {
        let ranks = self.ranks();
        for rank in 0..ranks {
            let file = folder.join(format!("job.{rank}.et"));
            write_file(&file, &Metadata::astra(), &self.nodes(rank)).unwrap();
        }
        let lists = ranks / self.members();
        let block = |list: u32| (0..self.members()).map(|at| list * self.members() + at).collect();
        let stride = |list: u32| (0..self.members()).map(|at| list + at * lists).collect();
        let groups: Vec<Vec<u32>> = (0..lists).map(block).chain((0..lists).map(stride)).collect();
        let groups: BTreeMap<String, Vec<u32>> = (1..).map(|id: u32| id.to_string()).zip(groups).collect();
        let file = folder.join("groups.json");
        std::fs::write(&file, serde_json::to_string(&groups).unwrap()).unwrap();
        json!({"schema": "syncline/1", "fabric": {"dims": self.dims}, "collectives": self.collectives,
            "network": {"model": self.model}, "workload": {"source": "chakra",
            "prefix": folder.join("job").to_str().unwrap(), "groups": file.to_str().unwrap()}})
    }
}
