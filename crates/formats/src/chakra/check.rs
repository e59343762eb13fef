//! Checks that must hold before a trace can be simulated: ids, dependencies, circles. ASTRA-sim 2 silently drops
//! cyclic nodes and keeps only one of two nodes with the same id.

use super::graph::Graph;
use std::collections::VecDeque;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};

/// Most errors listed for one file.
pub const MAX_PROBLEMS: usize = 10;
/// Most nodes named of a circle.
const MAX_CIRCLE: usize = 16;

/// Finds duplicate ids in the ascending list `ids`.
pub(super) fn ids(file: &str, ids: &[u64], name: impl Fn(usize) -> String) -> Diagnostics {
    let mut problems = Diagnostics::new();
    if ids.is_empty() {
        problems.push(
            Diagnostic::error(Code::BadChakra, "the trace has no nodes")
                .at(file, 0)
                .help("a rank needs at least one node; give an idle rank a COMP_NODE of duration 0"),
        );
    }
    for (index, pair) in ids.windows(2).enumerate() {
        if pair[0] == pair[1] && problems.0.len() < MAX_PROBLEMS {
            problems.push(
                Diagnostic::error(Code::ChakraGraph, "two nodes of the trace have the same id")
                    .at(file, 0)
                    .key(format!("node {}", pair[0]))
                    .found(format!("`{}` and `{}`", name(index), name(index + 1)))
                    .help("ids must differ within a rank's file"),
            );
        }
    }
    problems
}

/// Collects dependencies on nodes that do not exist.
pub(super) struct Missing<'a> {
    file: &'a str,
    problems: Diagnostics,
    left_out: usize,
}

impl<'a> Missing<'a> {
    pub(super) const fn new(file: &'a str) -> Self {
        Self { file, problems: Diagnostics::new(), left_out: 0 }
    }
    pub(super) fn add(&mut self, id: u64, name: &str, dep: u64) {
        if self.problems.0.len() >= MAX_PROBLEMS {
            self.left_out += 1;
            return;
        }
        self.problems.push(
            Diagnostic::error(Code::ChakraGraph, "a node depends on a node that is not in the trace")
                .at(self.file, 0)
                .key(format!("node {id} `{name}`"))
                .found(format!("dependency on node {dep}"))
                .help("add the node or remove its id from data_deps and ctrl_deps"),
        );
    }
    pub(super) fn into_result(mut self) -> Result<()> {
        if self.left_out > 0
            && let Some(last) = self.problems.0.last_mut()
        {
            last.notes.push(format!("{} more of this kind", self.left_out));
        }
        self.problems.into_result().map(|_| ())
    }
}

/// Refuses a graph in which nodes wait for each other in a circle, and names the nodes of one circle.
pub(super) fn acyclic(file: &str, graph: &Graph) -> Result<()> {
    let mut waiting = graph.dependencies().to_vec();
    let mut free: VecDeque<u32> =
        (0..graph.len() as u32).filter(|&node| waiting[node as usize] == 0).collect();
    let mut done = 0;
    while let Some(node) = free.pop_front() {
        done += 1;
        for &next in graph.successors(node as usize) {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                free.push_back(next);
            }
        }
    }
    if done == graph.len() {
        return Ok(());
    }
    let circle = circle(graph, &waiting);
    let shown: Vec<String> = circle
        .iter()
        .take(MAX_CIRCLE)
        .map(|&node| format!("{} `{}`", graph.id(node as usize), graph.name(node as usize)))
        .collect();
    let more = circle.len().saturating_sub(MAX_CIRCLE);
    let rest = if more > 0 { format!(" -> ({more} more)") } else { String::new() };
    Err(Diagnostic::error(
        Code::ChakraGraph,
        "nodes depend on each other in a circle, so none of them can start",
    )
    .at(file, 0)
    .key(format!("node {}", graph.id(circle[0] as usize)))
    .found(format!("{}{rest} -> {}", shown.join(" -> "), graph.id(circle[0] as usize)))
    .note(format!("{} of {} nodes can never start", graph.len() - done, graph.len()))
    .help("remove one of the dependencies")
    .into())
}

/// A circle among the nodes that still wait, in the order in which they wait for each other, lowest id first.
fn circle(graph: &Graph, waiting: &[u32]) -> Vec<u32> {
    // A node that still waits has a predecessor that still waits, so going back from any of them ends in a circle.
    let mut before = vec![u32::MAX; graph.len()];
    for node in 0..graph.len() {
        if waiting[node] > 0 {
            for &next in graph.successors(node) {
                if waiting[next as usize] > 0 {
                    before[next as usize] = node as u32;
                }
            }
        }
    }
    let Some(mut node) = waiting.iter().position(|&count| count > 0) else { return vec![0] };
    for _ in 0..graph.len() {
        node = before[node] as usize;
    }
    let mut circle = vec![node as u32];
    let mut next = before[node];
    while next as usize != node {
        circle.push(next);
        next = before[next as usize];
    }
    circle.reverse();
    let lowest = (0..circle.len()).min_by_key(|&at| circle[at]).unwrap_or(0);
    circle.rotate_left(lowest);
    circle
}
