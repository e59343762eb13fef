//! Training loops without a pipeline: when each exchange begins, what it holds up, and how long steps take.
//!
//! All times follow from the rules of blocking (astra2020 III-A and III-E; Rajbhandari et al. 2020, 7; Korthikanti et
//! al. 2022, 4.2.2). A collective takes a unit of time for each byte.

use crate::support::scheduler::{BY_BYTE, FREE, run};
use crate::support::{FORWARD as F, INPUT_GRAD as I, WEIGHT_GRAD as W, blocks, given, job, samples, timed};
use syncline_units::{Bytes, CollectiveKind, Time};
use syncline_workload::exchange::{GivenExchange, When};
use syncline_workload::layer::{Layer, Sharding};
use syncline_workload::parallel::{Axes, BackwardOrder, Overlap, Parallel, Recompute};
use syncline_workload::{Part, Work, Workload};

const ORDERS: [BackwardOrder; 2] = [BackwardOrder::WeightFirst, BackwardOrder::InputFirst];

/// Layers with these numbers of parameters, whose gradients have 4 bytes.
fn parameters(each: &[u64]) -> Vec<Layer> {
    let layer = |(at, &parameters): (usize, &u64)| Layer { parameters, ..timed(&format!("l{at}"), F, I, W) };
    each.iter().enumerate().map(layer).collect()
}

fn end(layers: &[Layer], sizes: &[u32], parallel: &Parallel, times: (u32, u32)) -> u64 {
    run(&job(layers, sizes, parallel, times), BY_BYTE).end
}

#[test]
fn gradients_are_summed_while_those_of_lower_layers_are_computed() {
    let compute = 3 * F + 2 * I + 3 * W;
    for backward in ORDERS {
        let parallel = Parallel { backward, ..Parallel::default() };
        // When the gradients of each layer are there.
        let (of_2, of_1) = match backward {
            BackwardOrder::WeightFirst => (3 * F + W, 3 * F + 2 * W + I),
            BackwardOrder::InputFirst => (3 * F + I + W, 3 * F + 2 * (I + W)),
        };
        for sums in [[1, 1, 1], [500, 1, 1], [1, 700, 1], [1, 1, 900], [10, 300, 600]] {
            let layers = parameters(&sums);
            let ready = [compute + 4 * sums[0], of_1 + 4 * sums[1], of_2 + 4 * sums[2]];
            let one = ready.into_iter().max().unwrap();
            assert_eq!(end(&layers, &[2], &parallel, (1, 1)), one, "{backward:?} {sums:?}");
            // In the next step each layer waits for its own sum alone.
            let began = ready[0].max(compute);
            let forward = ready.iter().fold(began, |now, &ready| now.max(ready) + F);
            let (second, rest) = (forward - 3 * F, 3 * F);
            let ready = [compute + 4 * sums[0], of_1 + 4 * sums[1], of_2 + 4 * sums[2]];
            let two = ready.into_iter().max().unwrap() + second;
            assert_eq!(end(&layers, &[2], &parallel, (2, 1)), two, "{backward:?} {sums:?} {rest}");
        }
    }
}

#[test]
fn without_overlap_gradients_are_summed_after_the_backward_pass() {
    let compute = 3 * F + 2 * I + 3 * W;
    for backward in ORDERS {
        let parallel = Parallel { backward, overlap: Overlap::None, ..Parallel::default() };
        for sums in [[1, 1, 1], [500, 1, 1], [1, 1, 900]] {
            let longest = 4 * sums.into_iter().max().unwrap();
            for steps in 1..=3 {
                let found = end(&parameters(&sums), &[2], &parallel, (steps, 1));
                assert_eq!(found, u64::from(steps) * (compute + longest), "{sums:?}");
            }
        }
    }
}

#[test]
fn gradients_are_summed_in_the_last_micro_batch_of_a_step() {
    let compute = 2 * F + I + 2 * W;
    for (overlap, waits) in [(Overlap::Gradients, 4 * 300), (Overlap::None, 4 * 300)] {
        let parallel = Parallel { overlap, ..Parallel::default() };
        for (steps, micro_batches) in [(1, 1), (1, 3), (2, 4)] {
            let found = end(&parameters(&[300, 1]), &[2], &parallel, (steps, micro_batches));
            let step = u64::from(micro_batches) * compute + waits;
            assert_eq!(found, u64::from(steps) * step, "{overlap:?} {steps} {micro_batches}");
        }
    }
    // With stage 2 of ZeRO, each micro-batch sums its gradients, and the next waits for nothing.
    let workload = job(&parameters(&[300, 1]), &[2], &Parallel { zero: 2, ..Parallel::default() }, (1, 3));
    let run = run(&workload, BY_BYTE);
    let sums = run.exchanged(0, "l0", Part::WeightGrad, "reduce_scatter");
    let gradients = run.computed(0, "l0", Part::WeightGrad);
    assert_eq!((sums.len(), gradients.len()), (3, 3));
    for (sum, gradient) in sums.iter().zip(&gradients) {
        assert_eq!(sum.0, gradient.1);
    }
    assert_eq!(run.exchanged(0, "l0", Part::Update, "all_gather").len(), 1);
}

#[test]
fn parameters_are_updated_after_the_sum_and_distributed_after_the_update() {
    let mut layers = parameters(&[100]);
    layers[0].update = Work::Time(Time(80));
    for (zero, sum, update, gathered) in
        [(0, 400, 80, 0), (1, 400, 40, 200), (2, 400, 40, 200), (3, 400, 40, 0)]
    {
        for overlap in [Overlap::Gradients, Overlap::None] {
            let parallel = Parallel { zero, overlap, ..Parallel::default() };
            // Stage 3 gathers 200 bytes before the forward pass, and again before the backward pass.
            let gathers = if zero == 3 { 2 * 200 } else { 0 };
            let step = F + W + sum + update + gathered + gathers;
            for steps in 1..=2 {
                let found = end(&layers, &[2], &parallel, (steps, 1));
                assert_eq!(found, u64::from(steps) * step, "stage {zero}, {overlap:?}");
            }
        }
    }
}

#[test]
fn updates_without_copies_wait_for_the_gradient() {
    let mut layers = parameters(&[100, 100]);
    layers[0].update = Work::Time(Time(7));
    layers[1].update = Work::Time(Time(9));
    for overlap in [Overlap::Gradients, Overlap::None] {
        let parallel = Parallel { overlap, ..Parallel::default() };
        let workload = job(&layers, &[1], &parallel, (2, 2));
        let run = run(&workload, FREE);
        // Two micro-batches, and the updates once.
        assert_eq!(run.end, 2 * (2 * (2 * F + I + 2 * W) + 7 + 9), "{overlap:?}");
        assert_eq!(run.computed(0, "l0", Part::Update).len(), 2);
        let (gradient, update) =
            (run.computed(0, "l1", Part::WeightGrad), run.computed(0, "l1", Part::Update));
        assert!(update[0].0 >= gradient[1].1 && update[0].0 < gradient[2].0);
        let next = run.computed(0, "l1", Part::Forward)[2];
        assert!(update[0].1 <= next.0);
    }
}

/// The samples and two layers of this sharding, with 30 inputs and 50 outputs.
fn divided(sharding: Sharding) -> Vec<Layer> {
    let layer = |name| Layer { sharding, inputs: 30, outputs: 50, ..timed(name, F, I, W) };
    vec![samples(), layer("l1"), layer("l2")]
}

fn tensor(backward: BackwardOrder, overlap: Overlap, sequence: bool) -> Parallel {
    Parallel { tensor: Axes::Degree(2), backward, overlap, sequence, ..Parallel::default() }
}

#[test]
fn exchanges_of_activations_hold_up_the_next_layer() {
    let overlaps = Overlap::Gradients;
    // Halves of the work, 50 bytes of outputs, 30 of input gradients.
    for (sharding, forward, backward) in [
        (Sharding::Gather, 50, 30),
        (Sharding::Column, 0, 30),
        (Sharding::Row, 50, 0),
        (Sharding::Divided, 0, 0),
    ] {
        let layers = divided(sharding);
        let weight_first = 2 * (F / 2 + forward + W / 2 + I / 2 + backward);
        let found = end(&layers, &[2], &tensor(BackwardOrder::WeightFirst, overlaps, false), (1, 1));
        assert_eq!(found, weight_first, "{sharding:?}");
        // The exchange of input gradients hides behind the weight gradient of the same layer.
        let input_first = 2 * (F / 2 + forward + I / 2 + backward.max(W / 2));
        let found = end(&layers, &[2], &tensor(BackwardOrder::InputFirst, overlaps, false), (1, 1));
        assert_eq!(found, input_first, "{sharding:?}");
        // If it takes longer, the layer below waits for it.
        let long: Vec<Layer> =
            layers.iter().map(|layer| Layer { inputs: layer.inputs * 10, ..layer.clone() }).collect();
        let input_first = 2 * (F / 2 + forward + I / 2 + (10 * backward).max(W / 2));
        let found = end(&long, &[2], &tensor(BackwardOrder::InputFirst, overlaps, false), (1, 1));
        assert_eq!(found, input_first, "{sharding:?}");
        // Without overlap nothing hides.
        for order in ORDERS {
            let found = end(&layers, &[2], &tensor(order, Overlap::None, false), (3, 1));
            assert_eq!(found, 3 * weight_first, "{sharding:?} {order:?}");
        }
    }
    let whole = end(&divided(Sharding::Replicated), &[2], &tensor(ORDERS[0], overlaps, false), (1, 1));
    assert_eq!(whole, 2 * (F + W + I));
}

#[test]
fn the_lowest_layer_has_no_input_gradient_to_exchange() {
    let layers = divided(Sharding::Column).split_off(1);
    for order in ORDERS {
        let workload = job(&layers, &[2], &tensor(order, Overlap::Gradients, false), (1, 1));
        let run = run(&workload, BY_BYTE);
        assert_eq!(run.computed(0, "l1", Part::InputGrad), []);
        assert_eq!(run.exchanged(0, "l1", Part::InputGrad, "all_reduce"), []);
        assert_eq!(run.exchanged(0, "l2", Part::InputGrad, "all_reduce").len(), 1);
        let exchange = if order == BackwardOrder::WeightFirst { 30 } else { 0 };
        assert_eq!(run.end, F + W + I / 2 + exchange, "{order:?}");
    }
}

#[test]
fn sequence_parallelism_gathers_tokens_before_columns_and_scatters_them_after_rows() {
    let (column, row) = (600, 50);
    let layer = |name, sharding, inputs, outputs| Layer { sharding, inputs, outputs, ..timed(name, F, I, W) };
    let layers = [
        samples(),
        layer("column", Sharding::Column, column, 9_999),
        layer("row", Sharding::Row, 9_999, row),
    ];
    // Forward: gather, compute, compute, scatter. Backward: gather the outputs' gradients of the row layer.
    let forward = column + F / 2 + F / 2 + row;
    let found = end(&layers, &[2], &tensor(BackwardOrder::WeightFirst, Overlap::Gradients, true), (1, 1));
    // The column layer's inputs are gathered again before its weight gradient.
    assert_eq!(found, forward + row + W / 2 + I / 2 + column + W / 2 + I / 2 + column);
    // They are gathered while the input gradient is computed, which is scattered while the weight gradient is.
    let found = end(&layers, &[2], &tensor(BackwardOrder::InputFirst, Overlap::Gradients, true), (1, 1));
    let gradients = (column.max(I / 2) + W / 2).max(I / 2 + column);
    assert_eq!(found, forward + row + I / 2 + W / 2 + gradients);
}

#[test]
fn full_recomputation_repeats_the_forward_pass_of_blocks_before_their_backward_pass() {
    let layer = |name: &str, block| Layer { block, selective: true, ..timed(name, F, I, W) };
    let layers = [
        samples(),
        layer("embed", None),
        layer("a", Some(0)),
        layer("b", Some(0)),
        layer("c", Some(1)),
        layer("head", None),
    ];
    let parallel = Parallel { recompute: Recompute::Full, ..Parallel::default() };
    let order = run(&job(&layers, &[1], &parallel, (1, 1)), FREE).order(0);
    let passes: Vec<String> = order.iter().map(|name| short(name)).collect();
    assert_eq!(
        passes,
        [
            "embed F", "a F", "b F", "c F", "head F", "head W", "head I", "c F", "c W", "c I", "a F", "b F",
            "b W", "b I", "a W", "a I", "embed W", "embed I"
        ]
    );
    // Selective recomputation repeats runs of marked layers, and no run goes beyond its block.
    let mark = |name: &str, block, selective| Layer { selective, ..layer(name, block) };
    let layers = [
        samples(),
        mark("a", Some(0), false),
        mark("b", Some(0), true),
        mark("c", Some(0), true),
        mark("d", Some(0), false),
        mark("e", Some(0), true),
        mark("f", Some(1), true),
        mark("g", Some(1), false),
        mark("h", None, true),
        mark("i", None, true),
    ];
    let parallel = Parallel { recompute: Recompute::Selective, ..Parallel::default() };
    let order = run(&job(&layers, &[1], &parallel, (1, 1)), FREE).order(0);
    let passes: Vec<String> = order.iter().skip(9).map(|name| short(name)).collect();
    assert_eq!(
        passes,
        [
            "i F", "i W", "i I", "h F", "h W", "h I", "g W", "g I", "f F", "f W", "f I", "e F", "e W", "e I",
            "d W", "d I", "b F", "c F", "c W", "c I", "b W", "b I", "a W", "a I"
        ]
    );
    // Without recomputation, marks and blocks change nothing.
    assert_eq!(end(&layers, &[1], &Parallel::default(), (1, 1)), 9 * (F + I + W));
}

/// `a weight grad` as `a W`.
fn short(name: &str) -> String {
    let (layer, part) = name.split_once(' ').unwrap();
    let part = match part {
        "forward" => "F",
        "input grad" => "I",
        "weight grad" => "W",
        other => other,
    };
    format!("{layer} {part}")
}

#[test]
fn recomputation_exchanges_activations_again() {
    let layer =
        |name: &str, block| Layer { block: Some(block), inputs: 30, outputs: 50, ..timed(name, F, I, W) };
    let layers = [samples(), layer("a", 0), layer("b", 0), layer("c", 1)];
    let plain = 3 * (F / 2 + 50) + 3 * (W / 2 + I / 2 + 30);
    let at = |recompute, divided_checkpoints| {
        let parallel = Parallel {
            recompute,
            divided_checkpoints,
            ..tensor(BackwardOrder::WeightFirst, Overlap::Gradients, false)
        };
        end(&layers, &[2], &parallel, (1, 1))
    };
    assert_eq!(at(Recompute::None, false), plain);
    assert_eq!(at(Recompute::Full, false), plain + 3 * (F / 2 + 50));
    // The inputs of both blocks, 30 bytes each, are gathered before the blocks are recomputed.
    assert_eq!(at(Recompute::Full, true), plain + 3 * (F / 2 + 50) + 2 * 30);
}

/// Blocks of one layer each, whose parameters have this many bytes; with two copies and stage 3 of ZeRO.
fn gathered(number: u32, bytes: u64) -> Vec<Layer> {
    let mut layers = blocks(number);
    layers.iter_mut().skip(1).for_each(|layer| layer.parameters = bytes / 2);
    layers
}

#[test]
fn parameters_are_gathered_while_the_block_before_is_computed() {
    for bytes in [10, F, F + 50, 1_000, 5_000] {
        for number in 1..=5u32 {
            let parallel = Parallel { zero: 3, ..Parallel::default() };
            let workload = job(&gathered(number, bytes), &[2], &parallel, (1, 1));
            let run = run(&workload, BY_BYTE);
            // A block's parameters are there `bytes` after the one before it could begin. The samples are a block,
            // too, so that the first two gathers begin at once.
            let (mut could_begin, mut now) = (0, 0);
            for at in 0..number {
                let start = now.max(could_begin + bytes);
                could_begin = now;
                now = start + F;
                let found = run.computed(0, &format!("block{at}"), Part::Forward);
                assert_eq!(found, [(start, now)], "block {at} of {number}, {bytes} bytes");
            }
            // Backward the last block is gathered again, once it has been released.
            (could_begin, _) = (now, ());
            for at in (0..number).rev() {
                let start = now.max(could_begin + bytes);
                could_begin = now;
                now = start + W + I;
                let found = run.computed(0, &format!("block{at}"), Part::WeightGrad);
                assert_eq!(found, [(start, start + W)], "block {at} of {number}, {bytes} bytes");
            }
        }
    }
}

#[test]
fn without_overlap_each_block_waits_for_its_parameters() {
    let parallel = Parallel { zero: 3, overlap: Overlap::None, ..Parallel::default() };
    let mut layers = gathered(3, 70);
    // Two blocks: one of two layers, whose parameters are gathered at once.
    layers[2].block = layers[1].block;
    let compute = 3 * (F + W + I);
    // Two gathers forward and two backward; the longest sum has 4 bytes for each of 35 gradients.
    assert_eq!(end(&layers, &[2], &parallel, (1, 1)), compute + 4 * 70 + 4 * 35);
    assert_eq!(end(&layers, &[2], &parallel, (2, 1)), 2 * (compute + 4 * 70 + 4 * 35));
}

#[test]
fn the_layers_of_a_block_wait_for_their_own_parameters() {
    let mut layers = gathered(2, 0);
    layers[2].block = layers[1].block;
    (layers[1].parameters, layers[2].parameters) = (10, 200);
    let run_of = |layers: &[Layer], recompute| {
        let parallel = Parallel { zero: 3, recompute, ..Parallel::default() };
        let workload = job(layers, &[2], &parallel, (1, 1));
        let run = run(&workload, BY_BYTE);
        let forward = ["block0", "block1"].map(|name| run.computed(0, name, Part::Forward)[0].0);
        (
            forward,
            run.computed(0, "block1", Part::WeightGrad)[0].0,
            run.computed(0, "block0", Part::WeightGrad)[0].0,
        )
    };
    // Both gathers begin at once; the second layer waits for 400 bytes.
    let done = 400 + F;
    assert_eq!(run_of(&layers, Recompute::None), ([20, 400], done + 400, done + 400 + W + I));
    // To recompute the block, all of its parameters are awaited.
    assert_eq!(run_of(&layers, Recompute::Full), ([20, 400], done + 400 + 2 * F, done + 400 + 2 * F + W + I));
}

#[test]
fn parameters_are_gathered_again_when_they_have_been_updated() {
    let parallel = Parallel { zero: 3, ..Parallel::default() };
    let mut layers = gathered(2, 40);
    layers[1].parameters = 500;
    let workload = job(&layers, &[2], &parallel, (2, 1));
    let run = run(&workload, BY_BYTE);
    let sum = run.exchanged(0, "block0", Part::WeightGrad, "reduce_scatter");
    let gather = run.exchanged(0, "block0", Part::Forward, "all_gather");
    assert_eq!((sum.len(), gather.len()), (2, 2));
    assert_eq!(gather[1].0, sum[0].1);
}

/// Tables that are exchanged and needed by `top`, a layer beside them, and the top.
fn recommendation(outputs: u64) -> Vec<Layer> {
    let tables = Layer {
        sharding: Sharding::Exchange,
        needed_by: Some("top".to_owned()),
        outputs,
        ..timed("tables", F, I, W)
    };
    vec![tables, timed("bottom", F, I, W), timed("top", F, I, W)]
}

#[test]
fn exchanged_tables_hold_up_only_the_layer_that_needs_them() {
    for order in ORDERS {
        let parallel = Parallel { backward: order, ..Parallel::default() };
        for bytes in [10, F - 1, 2_000] {
            let found = end(&recommendation(bytes), &[2], &parallel, (1, 1));
            let top = F + F.max(bytes) + F;
            // The gradients of lookups start once the top's input gradient is there; meanwhile the rest goes on.
            let (before, beside) = match order {
                BackwardOrder::WeightFirst => (W + I, W + I),
                BackwardOrder::InputFirst => (I, W + I + W),
            };
            assert_eq!(found, top + before + beside.max(bytes) + W, "{order:?} {bytes}");
        }
    }
    // Tables that the next layer needs hold it up.
    let mut layers = recommendation(300);
    layers[0].needed_by = None;
    let found = end(&layers, &[2], &Parallel::default(), (1, 1));
    assert_eq!(found, F + 300 + 2 * F + 2 * (W + I) + 300 + W);
    // On one rank nothing is exchanged.
    assert_eq!(end(&recommendation(300), &[1], &Parallel::default(), (1, 1)), 3 * F + 2 * I + 3 * W);
}

/// The middle one of three layers has these exchanges.
fn with(exchanges: &[GivenExchange]) -> Vec<Layer> {
    let middle = Layer { exchanges: Some(exchanges.to_vec()), ..timed("l1", F, I, W) };
    vec![timed("l0", F, I, W), middle, timed("l2", F, I, W)]
}

#[test]
fn exchanges_of_one_moment_follow_each_other_and_block_as_they_say() {
    let compute = 3 * F + 2 * I + 3 * W;
    let sum = |when| given(when, &["data"], CollectiveKind::AllReduce);
    let free = |when| GivenExchange { blocks: Some(false), ..sum(when) };
    let found = |exchanges: &[GivenExchange]| end(&with(exchanges), &[2], &Parallel::default(), (1, 1));
    for when in [
        When::BeforeForward,
        When::AfterForward,
        When::BeforeBackward,
        When::BeforeWeightGrad,
        When::AfterInputGrad,
    ] {
        assert_eq!(found(&[sum(when)]), compute + 64, "{when:?}");
        assert_eq!(found(&[sum(when), sum(when)]), compute + 2 * 64, "{when:?}");
    }
    for when in [When::AfterForward, When::AfterInputGrad, When::AfterWeightGrad] {
        assert_eq!(found(&[free(when)]), compute, "{when:?}");
    }
    let blocking = GivenExchange { blocks: Some(true), ..sum(When::AfterWeightGrad) };
    assert_eq!(found(&[blocking]), compute + 64);
    // What does not block holds up the next step's use of the layer.
    let long = GivenExchange { bytes: Bytes(5_000), ..free(When::AfterForward) };
    let workload = job(&with(&[long]), &[2], &Parallel::default(), (2, 1));
    let run = run(&workload, BY_BYTE);
    assert_eq!(run.computed(0, "l0", Part::Forward)[1].0, compute);
    assert_eq!(run.computed(0, "l1", Part::Forward)[1].0, 2 * F + 5_000);
}

#[test]
fn given_sums_run_once_a_step_unless_they_run_in_each_micro_batch() {
    let sum = given(When::AfterWeightGrad, &["data"], CollectiveKind::AllReduce);
    for (each_micro_batch, runs) in [(false, 2), (true, 6)] {
        let exchange = GivenExchange { each_micro_batch, ..sum.clone() };
        let workload = job(&with(&[exchange]), &[2], &Parallel::default(), (2, 3));
        assert_eq!(run(&workload, FREE).exchanged(0, "l1", Part::WeightGrad, "all_reduce").len(), runs);
    }
}

fn first_start(workload: &Workload, layer: &str) -> u64 {
    run(workload, BY_BYTE).computed(0, layer, Part::Forward)[0].0
}

#[test]
fn exchanges_before_the_first_layer_begin_at_once() {
    let mut layers = with(&[]);
    layers[0].exchanges = Some(vec![given(When::BeforeForward, &["data"], CollectiveKind::Broadcast)]);
    assert_eq!(first_start(&job(&layers, &[2], &Parallel::default(), (1, 1)), "l0"), 64);
    // In the next iteration, they wait for the end of the one before.
    let workload = job(&layers, &[2], &Parallel::default(), (2, 1));
    let run = run(&workload, BY_BYTE);
    let exchanges = run.exchanged(0, "l0", Part::Forward, "broadcast");
    assert_eq!(exchanges[1].0, 64 + 3 * F + 2 * I + 3 * W);
    assert_eq!(run.end, 2 * (64 + 3 * F + 2 * I + 3 * W));
}

#[test]
fn ranks_without_a_layer_skip_it() {
    let mut layers = with(&[]);
    layers[1].ranks = [("tensor".to_owned(), vec![0])].into();
    let parallel = Parallel { tensor: Axes::Degree(2), ..Parallel::default() };
    layers.iter_mut().for_each(|layer| layer.sharding = Sharding::Replicated);
    let workload = job(&layers, &[2], &parallel, (1, 1));
    let run = run(&workload, FREE);
    assert_eq!(
        run.order(1).iter().map(|name| short(name)).collect::<Vec<_>>(),
        ["l0 F", "l2 F", "l2 W", "l2 I", "l0 W"]
    );
    assert_eq!(run.order(0).len(), 8);
    // A rank without any layer has a task that takes no time.
    layers.iter_mut().for_each(|layer| layer.ranks = [("tensor".to_owned(), vec![0])].into());
    let workload = job(&layers, &[2], &parallel, (1, 1));
    assert_eq!(workload.classes[1].tasks.len(), 1);
}
