//! The task graph of a training loop in which every rank holds a part of each layer.
//!
//! An iteration of the graph is a micro-batch: all of the forward pass, then all of the backward pass.

use crate::graph::TaskGraph;
use crate::layer::{BackwardOrder, Layer, Overlap, Parallel, Recompute, Sharding};
use crate::passes::{Passes, Reduction};
use crate::step::Step;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};

/// The settings of a training loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rules {
    /// Order of the two gradients of a layer.
    pub backward: BackwardOrder,
    /// The recommendation-model loop (dlrm2020 Fig. 3): step 0 is the embedding. Its forward exchange is awaited only
    /// after step `last_bottom`, and its backward exchange starts once step `last_bottom + 1` is done.
    pub last_bottom: Option<u32>,
    /// What is recomputed in the backward pass.
    pub recompute: Recompute,
    /// Which communication overlaps the backward pass.
    pub overlap: Overlap,
}

impl Rules {
    /// The rules for `layers`. If the first layer is exchanged, or names the layer that needs it, it is the embedding
    /// of the recommendation-model loop.
    ///
    /// # Errors
    /// Layers that have no place in such a loop; no later layer that could need the embedding; a model that is also
    /// divided (`degree` above 1), in which several ranks would need the same share of an exchange.
    pub fn new(parallel: &Parallel, layers: &[Layer], degree: u32) -> Result<Self, Diagnostics> {
        let rules = Self {
            backward: parallel.backward,
            last_bottom: None,
            recompute: parallel.recompute,
            overlap: parallel.overlap,
        };
        let mut problems = Diagnostics::new();
        let bad = |index: usize, key: &str, message: &str| {
            Diagnostic::error(Code::BadWorkload, message).key(format!("workload.layers.{index}.{key}"))
        };
        for (index, layer) in layers.iter().enumerate().skip(1) {
            if layer.sharding == Sharding::Exchange {
                problems.push(
                    bad(index, "sharding", "only the first layer can be exchanged")
                        .found("exchange")
                        .help("move the layer to the front, or give its `communication`"),
                );
            }
            if let Some(name) = &layer.needed_by {
                problems.push(
                    bad(index, "needed_by", "only the first layer can have `needed_by`")
                        .found(name)
                        .help("remove `needed_by`: the next layer waits for this one"),
                );
            }
        }
        let Some(first) = layers.first() else { return Ok(rules) };
        let exchanged = first.sharding == Sharding::Exchange;
        if exchanged && degree > 1 && first.communication.is_none() {
            problems.push(
                Diagnostic::error(
                    Code::BadWorkload,
                    format!(
                        "layer `{}` is exchanged among data-parallel ranks, but the model is divided",
                        first.name
                    ),
                )
                .key("workload.parallel")
                .found(format!("{degree} model-parallel ranks"))
                .allowed("1")
                .help("write `parallel: { data: all }`, or give layers with `communication`"),
            );
        }
        let last_bottom = match &first.needed_by {
            Some(name) => match layers.iter().skip(1).position(|layer| layer.name == *name) {
                Some(between) => Some(between as u32),
                None => {
                    let others = layers.iter().skip(1).map(|layer| layer.name.as_str());
                    problems.push(
                        bad(0, "needed_by", "no later layer has this name")
                            .one_of(name, others)
                            .help("name a layer that comes after it"),
                    );
                    None
                }
            },
            None if exchanged && layers.len() < 2 => {
                problems.push(
                    bad(0, "sharding", "a layer that is exchanged needs a later layer that uses its output")
                        .found("exchange")
                        .help("add the layers that follow it"),
                );
                None
            }
            None => exchanged.then_some(0),
        };
        problems.into_result().map(|_| Self { last_bottom, ..rules })
    }
}

/// The training loop over `steps`, with this many iterations and micro-batches per iteration. Gradients are reduced
/// and parameters updated in the last micro-batch.
///
/// # Errors
/// As [`GraphBuilder::build`](crate::GraphBuilder::build).
pub fn training_loop(
    steps: &[Step],
    rules: Rules,
    (iterations, micro_batches): (u32, u32),
) -> Result<TaskGraph, Diagnostic> {
    let mut passes = Passes::new(steps, rules);
    match rules.last_bottom {
        None => {
            passes.forward(0..steps.len());
            passes.backward(0..steps.len(), Reduction::InLast, &[]);
        }
        Some(last) => recommendation_loop(&mut passes, last as usize),
    }
    passes.reduce_deferred();
    passes.finish().build_steps(iterations, micro_batches)
}

/// The loop in which the exchange of layer 0 overlaps the layers up to `last`.
fn recommendation_loop(passes: &mut Passes<'_>, last: usize) {
    let count = passes.steps.len();
    let exchange = passes.forward_step(0).1;
    if last == 0 {
        passes.awaited.extend(exchange);
    }
    for layer in 1..count {
        let own = passes.forward_step(layer).1;
        passes.awaited.extend(own);
        if layer == last {
            passes.awaited.extend(exchange);
        }
    }
    passes.before_first = Some(last + 1);
    for layer in (1..count).rev() {
        passes.backward_step(layer, Reduction::InLast, &[]);
    }
    let exchange = passes.first_exchange;
    passes.awaited.extend(exchange);
    passes.backward_step(0, Reduction::InLast, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Part, Task};
    use crate::layer::Comm;
    use crate::role::RoleId;
    use crate::samples::{by, layer};
    use crate::step::settle;
    use syncline_units::{Bytes, CollectiveKind};

    fn order(backward: BackwardOrder) -> Parallel {
        Parallel { backward, ..Parallel::default() }
    }

    /// The tasks that `name` waits for, as `layer part kind`, with `'` for the previous iteration.
    fn waits(graph: &TaskGraph, layer: u32, part: Part, collective: bool) -> Vec<String> {
        let is = |t: &Task| t.layer == layer && t.part == part && t.kind.is_communication() == collective;
        let at = graph.tasks.iter().position(is).unwrap() as u32;
        let mut names: Vec<String> = graph
            .dependencies(at)
            .iter()
            .map(|d| {
                let task = &graph.tasks[d.task as usize];
                let kind = if task.kind.is_communication() { "comm" } else { "compute" };
                format!("{}{} {kind}{}", task.layer, task.part.name(), if d.lag == 1 { "'" } else { "" })
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn data_parallel_training_blocks_where_the_paper_says() {
        let steps: Vec<Step> = ["a", "b"].iter().map(|name| settle(&layer(name), &by(1, 4, 4))).collect();
        let graph = training_loop(&steps, Rules::default(), (2, 1)).unwrap();
        assert_eq!(waits(&graph, 0, Part::Forward, false), ["0weight grad comm'", "0weight grad compute'"]);
        assert_eq!(waits(&graph, 1, Part::Forward, false), ["0forward compute", "1weight grad comm'"]);
        assert_eq!(waits(&graph, 1, Part::WeightGrad, false), ["1forward compute"]);
        assert_eq!(waits(&graph, 1, Part::InputGrad, false), ["1weight grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["1input grad compute"]);
        assert!(!graph.tasks.iter().any(|t| t.layer == 0 && t.part == Part::InputGrad));
    }

    #[test]
    fn transformer_order_overlaps_the_input_exchange_with_the_weight_gradient() {
        let steps: Vec<Step> = ["a", "b"].iter().map(|name| settle(&layer(name), &by(2, 4, 4))).collect();
        let rules = Rules { backward: BackwardOrder::InputFirst, ..Rules::default() };
        let graph = training_loop(&steps, rules, (1, 1)).unwrap();
        assert_eq!(waits(&graph, 1, Part::InputGrad, true), ["1input grad compute"]);
        assert_eq!(waits(&graph, 1, Part::WeightGrad, false), ["1input grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["1input grad comm", "1weight grad compute"]);
    }

    #[test]
    fn without_overlap_gradients_are_reduced_when_the_backward_pass_is_over() {
        let steps: Vec<Step> = ["a", "b"].iter().map(|name| settle(&layer(name), &by(1, 4, 4))).collect();
        let rules = Rules { overlap: Overlap::None, ..Rules::default() };
        let graph = training_loop(&steps, rules, (2, 1)).unwrap();
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
        let layers = recommendation();
        let rules = Rules::new(&order(backward), &layers, 1).unwrap();
        assert_eq!(rules.last_bottom, Some(1));
        let steps: Vec<Step> = layers.iter().map(|layer| settle(layer, &by(1, 4, 4))).collect();
        training_loop(&steps, rules, (1, 1)).unwrap()
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
                .any(|t| t.layer == 0 && t.part == Part::WeightGrad && t.kind.is_communication())
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
        let step = settle(&exchanged, &by(1, 4, 2));
        let to_all = Some((RoleId(1), Comm { kind: CollectiveKind::AllToAll, bytes: Bytes(40) }));
        assert_eq!((step.forward_comm, step.input_grad_comm, step.weight_grad_comm), (to_all, to_all, None));
        assert_eq!(step.forward, exchanged.forward);
        let alone = settle(&exchanged, &by(1, 1, 2));
        assert_eq!((alone.forward_comm, alone.input_grad_comm, alone.weight_grad_comm), (None, None, None));
        // Without `needed_by`, the next layer needs it.
        let rules = Rules::new(&order(BackwardOrder::WeightFirst), &[exchanged, layer("next")], 1).unwrap();
        assert_eq!(rules.last_bottom, Some(0));
    }

    #[test]
    fn exchanges_that_have_no_place_in_the_loop_are_refused() {
        let exchanged = |name: &str| Layer { sharding: Sharding::Exchange, ..layer(name) };
        let needed = |by: &str| Layer { needed_by: Some(by.to_owned()), ..exchanged("e") };
        let named = Layer { needed_by: Some("b".to_owned()), ..layer("a") };
        for (layers, degree, key, message) in [
            (
                vec![layer("a"), exchanged("e")],
                1,
                "layers.1.sharding",
                "only the first layer can be exchanged",
            ),
            (vec![layer("x"), named, layer("b")], 1, "layers.1.needed_by", "only the first layer can have"),
            (vec![exchanged("e"), layer("a")], 2, "parallel", "the model is divided"),
            (vec![exchanged("e")], 1, "layers.0.sharding", "needs a later layer"),
            (vec![needed("tpo"), layer("bottom"), layer("top")], 1, "layers.0.needed_by", "no later layer"),
            (vec![needed("e"), layer("top")], 1, "layers.0.needed_by", "no later layer"),
        ] {
            let errors = Rules::new(&order(BackwardOrder::WeightFirst), &layers, degree).unwrap_err();
            assert_eq!(errors.0[0].key.as_deref(), Some(&*format!("workload.{key}")));
            assert!(errors.0[0].message.contains(message), "{errors}");
            assert!(errors.0[0].help.is_some());
        }
        let misspelt = [needed("tpo"), layer("bottom"), layer("top")];
        let errors = Rules::new(&order(BackwardOrder::WeightFirst), &misspelt, 1).unwrap_err();
        assert_eq!(errors.0[0].nearest.as_deref(), Some("top"));
        assert_eq!(Rules::new(&order(BackwardOrder::InputFirst), &[], 1).unwrap().last_bottom, None);
    }
}
