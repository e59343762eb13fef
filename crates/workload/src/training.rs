//! The task graph of a training loop in which every rank holds a part of each layer.
//!
//! An iteration of the graph is a micro-batch: all of the forward pass, then all of the backward pass.

use crate::graph::TaskGraph;
use crate::layer_share::LayerShare;
use crate::parallel::Rules;
use crate::passes::{Passes, Reduction};
use syncline_diagnostics::Diagnostic;

/// The training loop of a rank that has these shares of the layers. Gradients are reduced and parameters updated in the
/// last micro-batch of an iteration.
///
/// # Errors
/// As [`GraphBuilder::build`](crate::GraphBuilder::build).
pub fn training_loop(
    shares: &[LayerShare],
    rules: Rules,
    iterations: u32,
    micro_batches: u32,
) -> Result<TaskGraph, Diagnostic> {
    let mut passes = Passes::new(shares, rules);
    passes.forward(0..shares.len());
    passes.backward(0..shares.len(), Reduction::InLast, &[]);
    passes.end_step();
    passes.finish().build_steps(iterations, micro_batches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Exchange, When};
    use crate::graph::{Part, Task};
    use crate::layer::{Layer, Sharding};
    use crate::layer_share::divide;
    use crate::parallel::{BackwardOrder, Overlap};
    use crate::role::RoleId;
    use crate::samples::{by, layer};
    use syncline_units::{Bytes, CollectiveKind};

    /// The tasks that `name` waits for, as `layer part kind`, with `'` for the previous iteration.
    fn waits(graph: &TaskGraph, layer: u32, part: Part, collective: bool) -> Vec<String> {
        let is =
            |t: &Task| t.layer == Some(layer) && t.part == part && t.kind.is_communication() == collective;
        let at = graph.tasks.iter().position(is).unwrap() as u32;
        let mut names: Vec<String> = graph
            .dependencies(at)
            .iter()
            .map(|d| {
                let task = &graph.tasks[d.task as usize];
                let kind = if task.kind.is_communication() { "comm" } else { "compute" };
                format!(
                    "{}{} {kind}{}",
                    task.layer.expect("a layer"),
                    task.part.name(),
                    if d.lag == 1 { "'" } else { "" }
                )
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn data_parallel_training_blocks_where_the_paper_says() {
        let shares: Vec<LayerShare> =
            ["a", "b"].iter().map(|name| divide(&layer(name), &by(1, 4, 4), None)).collect();
        let graph = training_loop(&shares, Rules::default(), 2, 1).unwrap();
        assert_eq!(waits(&graph, 0, Part::Forward, false), ["0weight grad comm'", "0weight grad compute'"]);
        assert_eq!(waits(&graph, 1, Part::Forward, false), ["0forward compute", "1weight grad comm'"]);
        assert_eq!(waits(&graph, 1, Part::WeightGrad, false), ["1forward compute"]);
        assert_eq!(waits(&graph, 1, Part::InputGrad, false), ["1weight grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["1input grad compute"]);
        assert!(!graph.tasks.iter().any(|t| t.layer == Some(0) && t.part == Part::InputGrad));
    }

    #[test]
    fn transformer_order_overlaps_the_input_exchange_with_the_weight_gradient() {
        let shares: Vec<LayerShare> =
            ["a", "b"].iter().map(|name| divide(&layer(name), &by(2, 4, 4), None)).collect();
        let rules = Rules { backward: BackwardOrder::InputFirst, ..Rules::default() };
        let graph = training_loop(&shares, rules, 1, 1).unwrap();
        assert_eq!(waits(&graph, 1, Part::InputGrad, true), ["1input grad compute"]);
        assert_eq!(waits(&graph, 1, Part::WeightGrad, false), ["1input grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["1input grad comm", "1weight grad compute"]);
    }

    #[test]
    fn without_overlap_gradients_are_reduced_when_the_backward_pass_is_over() {
        let shares: Vec<LayerShare> =
            ["a", "b"].iter().map(|name| divide(&layer(name), &by(1, 4, 4), None)).collect();
        let rules = Rules { overlap: Overlap::None, ..Rules::default() };
        let graph = training_loop(&shares, rules, 2, 1).unwrap();
        for layer in [0, 1] {
            assert_eq!(waits(&graph, layer, Part::WeightGrad, true), ["0weight grad compute"]);
        }
        // The next forward pass begins when all of them are reduced.
        assert_eq!(
            waits(&graph, 0, Part::Forward, false),
            ["0weight grad comm'", "0weight grad compute'", "1weight grad comm'"]
        );
    }

    /// An exchanged embedding, a bottom layer and a top layer.
    fn recommendation() -> Vec<Layer> {
        let embedding =
            Layer { sharding: Sharding::Exchange, needed_by: Some("top".to_owned()), ..layer("embedding") };
        vec![embedding, layer("bottom"), layer("top")]
    }

    fn recommendation_loop(backward: BackwardOrder) -> TaskGraph {
        let divided = |layer: &Layer| divide(layer, &by(1, 4, 4), None);
        let mut shares: Vec<LayerShare> = recommendation().iter().map(divided).collect();
        shares[0].needed_by = Some(2);
        training_loop(&shares, Rules { backward, ..Rules::default() }, 1, 1).unwrap()
    }

    #[test]
    fn recommendation_loop_awaits_the_embedding_late() {
        let graph = recommendation_loop(BackwardOrder::WeightFirst);
        assert_eq!(waits(&graph, 0, Part::Forward, true), ["0forward compute"]);
        assert_eq!(waits(&graph, 1, Part::Forward, false), ["0forward compute", "1weight grad comm'"]);
        assert_eq!(
            waits(&graph, 2, Part::Forward, false),
            ["0forward comm", "1forward compute", "2weight grad comm'"]
        );
        assert_eq!(waits(&graph, 0, Part::InputGrad, true), ["2input grad compute"]);
        assert_eq!(waits(&graph, 1, Part::WeightGrad, false), ["2input grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["0input grad comm", "1input grad compute"]);
        assert!(
            !graph
                .tasks
                .iter()
                .any(|t| t.layer == Some(0) && t.part == Part::WeightGrad && t.kind.is_communication())
        );
        // The next lookup waits only for the end of this iteration, because no gradient of a table is reduced.
        assert_eq!(waits(&graph, 0, Part::Forward, false), ["0weight grad compute'"]);
    }

    #[test]
    fn with_the_input_gradient_first_the_embedding_does_not_wait_for_a_weight_gradient() {
        let graph = recommendation_loop(BackwardOrder::InputFirst);
        assert_eq!(waits(&graph, 0, Part::InputGrad, true), ["2input grad compute"]);
        assert_eq!(waits(&graph, 2, Part::WeightGrad, false), ["2input grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["0input grad comm", "1weight grad compute"]);
    }

    #[test]
    fn a_layer_that_is_exchanged_sends_its_outputs_to_all_data_parallel_ranks() {
        let exchanged = Layer { sharding: Sharding::Exchange, ..layer("tables") };
        let share = divide(&exchanged, &by(1, 4, 2), None);
        let to_all =
            |when| Exchange::new(when, RoleId(1), CollectiveKind::AllToAll, Bytes(40)).expect("not empty");
        assert_eq!(share.exchanges, [When::AfterForward, When::BeforeBackward].map(to_all));
        assert_eq!(share.forward, exchanged.forward);
        assert_eq!(divide(&exchanged, &by(1, 1, 2), None).exchanges, []);
    }

    /// Three layers; the second has this exchange.
    fn with(exchange: &[Exchange]) -> Vec<LayerShare> {
        let mut shares: Vec<LayerShare> =
            ["a", "b", "c"].iter().map(|name| divide(&layer(name), &by(1, 1, 4), None)).collect();
        shares[1].exchanges = exchange.to_vec();
        shares
    }

    #[test]
    fn exchanges_block_or_overlap() {
        let new = |when| Exchange::new(when, RoleId(0), CollectiveKind::AllReduce, Bytes(8)).unwrap();
        let graph = |exchanges: &[Exchange]| training_loop(&with(exchanges), Rules::default(), 2, 1).unwrap();
        let blocking = graph(&[new(When::AfterForward)]);
        assert_eq!(
            waits(&blocking, 2, Part::Forward, false),
            ["1forward comm", "1forward compute", "2weight grad compute'"]
        );
        // An exchange that overlaps is awaited by the next use of its layer alone.
        let overlapping = graph(&[Exchange { blocks: false, ..new(When::AfterForward) }]);
        assert_eq!(
            waits(&overlapping, 2, Part::Forward, false),
            ["1forward compute", "2weight grad compute'"]
        );
        assert_eq!(
            waits(&overlapping, 1, Part::Forward, false),
            ["0forward compute", "1forward comm'", "1weight grad compute'"]
        );
        // A reduction of gradients that blocks holds up the layer below.
        let reduced = graph(&[Exchange { blocks: true, ..new(When::AfterWeightGrad) }]);
        assert_eq!(waits(&reduced, 1, Part::InputGrad, false), ["1weight grad comm", "1weight grad compute"]);
    }

    #[test]
    fn exchanges_of_one_moment_follow_each_other() {
        let new = |role| {
            Exchange::new(When::AfterForward, RoleId(role), CollectiveKind::AllReduce, Bytes(8)).unwrap()
        };
        let graph = training_loop(&with(&[new(0), new(1)]), Rules::default(), 1, 1).unwrap();
        let second = graph
            .tasks
            .iter()
            .position(|task| matches!(task.kind, crate::TaskKind::Collective { role: RoleId(1), .. }));
        let before = graph.dependencies(second.unwrap() as u32);
        let kinds: Vec<bool> =
            before.iter().map(|on| graph.tasks[on.task as usize].kind.is_communication()).collect();
        assert!(kinds.contains(&true), "{kinds:?}");
    }

    #[test]
    fn a_rank_skips_layers_that_it_does_not_have() {
        let mut shares = with(&[]);
        shares[1] = LayerShare { name: "b".to_owned(), absent: true, ..LayerShare::default() };
        let graph = training_loop(&shares, Rules::default(), 1, 1).unwrap();
        assert!(graph.tasks.iter().all(|task| task.layer != Some(1)));
        assert_eq!(waits(&graph, 2, Part::Forward, false), ["0forward compute", "2weight grad compute'"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["2input grad compute"]);
        let none: Vec<LayerShare> =
            (0..3).map(|_| LayerShare { absent: true, ..LayerShare::default() }).collect();
        assert_eq!(training_loop(&none, Rules::default(), 1, 1).unwrap().tasks.len(), 1);
    }
}
