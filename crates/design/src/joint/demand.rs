//! What a strategy sends in a step.

use super::step::Model;
use crate::topology::Demand;
use syncline_workload::operators::Strategy;

/// What a strategy sends in a step.
pub fn demand(model: &Model, strategy: &Strategy, servers: u32) -> Demand {
    let graph = &model.graph;
    let mut demand = Demand::new(servers);
    for (members, bytes) in strategy.reductions(graph) {
        demand.all_reduce(members, bytes);
    }
    for (reader, operator) in graph.operators.iter().enumerate() {
        for &input in &operator.inputs {
            let input = input as usize;
            let (from, to) = (&strategy.placed[input].servers, &strategy.placed[reader].servers);
            for piece in strategy.pieces(graph, input, reader) {
                let (sender, receiver) = (from[piece.source as usize], to[piece.reader as usize]);
                demand.transfers.add(sender, receiver, piece.bytes);
                demand.transfers.add(receiver, sender, piece.bytes);
            }
        }
    }
    demand
}
