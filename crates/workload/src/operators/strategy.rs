//! How the operators of a model are divided, and where their parts run.

use super::graph::OperatorGraph;
use super::transfers::{Piece, PieceMap, Split};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_units::Bytes;

/// The division and the servers of every operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Strategy {
    /// Indexed by operator.
    pub placed: Vec<Placed>,
}

/// The division and the servers of one operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// Position in [`Operator::choices`](super::Operator::choices).
    pub choice: u32,
    /// The server of each part, all different. Part `i * parameters + j` has the `i`-th samples and the `j`-th
    /// parameters.
    pub servers: Vec<u32>,
}

impl Strategy {
    /// The servers that have the same parameters of an operator, and so reduce their gradients: one group for each part
    /// of the parameters, in the order of the parts.
    pub fn groups(&self, graph: &OperatorGraph, operator: usize) -> Vec<Vec<u32>> {
        let placed = &self.placed[operator];
        let parameters = graph.operators[operator].choices[placed.choice as usize].parameters as usize;
        (0..parameters)
            .map(|part| placed.servers.iter().skip(part).step_by(parameters).copied().collect())
            .collect()
    }

    /// How an operator is divided.
    pub fn split(&self, graph: &OperatorGraph, operator: usize) -> Split {
        let choice = &graph.operators[operator].choices[self.placed[operator].choice as usize];
        Split { samples: choice.samples, parameters: choice.parameters }
    }

    /// What the parts of operator `reader` read of the parts of operator `input`.
    pub fn pieces(&self, graph: &OperatorGraph, input: usize, reader: usize) -> Vec<Piece> {
        let (source, reads) = (self.split(graph, input), graph.operators[reader].reads);
        let map = PieceMap::new(source, self.split(graph, reader), reads);
        map.pieces(graph.operators[input].output, graph.samples).collect()
    }

    /// Memory of an accelerator of each server.
    pub fn memory(&self, graph: &OperatorGraph, servers: u32) -> Vec<Bytes> {
        let mut memory = vec![Bytes(0); servers as usize];
        for (operator, placed) in graph.operators.iter().zip(&self.placed) {
            let part = operator.choices[placed.choice as usize].memory;
            for &server in &placed.servers {
                let sum = &mut memory[server as usize];
                *sum = sum.saturating_add(part);
            }
        }
        memory
    }

    /// Checks the strategy against a graph that [`OperatorGraph::check`] has accepted for `servers` servers.
    ///
    /// # Errors
    /// Everything that is wrong, by operator; a server whose memory is too small.
    pub fn check(&self, graph: &OperatorGraph, servers: u32) -> Result<()> {
        let mut errors = Diagnostics::new();
        let bad = |key: String, message: String| Diagnostic::error(Code::BadWorkload, message).key(key);
        if self.placed.len() != graph.operators.len() {
            errors.push(
                bad("strategy".to_owned(), "a strategy places each operator once".to_owned())
                    .found(format!("{} operators", self.placed.len()))
                    .allowed(graph.operators.len().to_string()),
            );
            return errors.into_result().map(drop);
        }
        for (at, (operator, placed)) in graph.operators.iter().zip(&self.placed).enumerate() {
            let key = |rest: &str| format!("strategy.{at}.{rest}");
            let Some(choice) = operator.choices.get(placed.choice as usize) else {
                errors.push(
                    bad(key("choice"), format!("`{}` has no such choice", operator.name))
                        .found(placed.choice.to_string())
                        .allowed(format!("0 to {}", operator.choices.len() - 1)),
                );
                continue;
            };
            let mut distinct = placed.servers.clone();
            distinct.sort_unstable();
            distinct.dedup();
            if placed.servers.len() != choice.parts() as usize || distinct.len() != placed.servers.len() {
                errors.push(
                    bad(
                        key("servers"),
                        format!("each part of `{}` needs a server of its own", operator.name),
                    )
                    .found(format!("{} different servers", distinct.len()))
                    .allowed(choice.parts().to_string()),
                );
            }
            if let Some(server) = placed.servers.iter().find(|&&server| server >= servers) {
                errors.push(
                    bad(key("servers"), format!("`{}` is on a server that does not exist", operator.name))
                        .found(server.to_string())
                        .allowed(format!("0 to {}", servers - 1)),
                );
            }
        }
        errors.into_result()?;
        if let Some(limit) = graph.server.memory {
            let memory = self.memory(graph, servers);
            if let Some((server, &most)) = memory.iter().enumerate().max_by_key(|(_, most)| **most)
                && most > limit
            {
                let message = "the strategy does not fit into the memory of accelerators";
                return Err(Diagnostic::error(Code::DoesNotFit, message)
                    .key("strategy")
                    .found(format!("{most} on an accelerator of server {server}"))
                    .allowed(format!("at most {limit}"))
                    .help("divide operators with many parameters among more servers, or take accelerators with more memory")
                    .into());
            }
        }
        Ok(())
    }

    /// Bytes of gradients that each group of servers reduces in a step. Groups of a single server are left out.
    pub fn reductions(&self, graph: &OperatorGraph) -> BTreeMap<Vec<u32>, u64> {
        let mut reductions = BTreeMap::new();
        for (at, operator) in graph.operators.iter().enumerate() {
            let split = self.split(graph, at);
            for mut members in self.groups(graph, at) {
                if members.len() > 1 && operator.parameters.0 > 0 {
                    members.sort_unstable();
                    let sum: &mut u64 = reductions.entry(members).or_insert(0);
                    *sum = sum.saturating_add(split.parameters_of(operator.parameters));
                }
            }
        }
        reductions
    }
}
