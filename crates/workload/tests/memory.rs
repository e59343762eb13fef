//! The memory that ranks need, against sums that follow from the division of the model (Rajbhandari et al. 2020, 3
//! and 5; Narayanan et al. 2021, 2.2; Korthikanti et al. 2022, 4 and 5).
//!
//! A parameter has 2 bytes, its gradient 4, its states of Adam two of 8 and a copy of 8, an activation 2.

use crate::support::{timed, train};
use syncline_units::{Bytes, DataType};
use syncline_workload::layer::{Layer, Sharding};
use syncline_workload::memory::{Footprint, footprints};
use syncline_workload::parallel::{Axes, Parallel, Recompute, Schedule};
use syncline_workload::schedule::Pipeline;
use syncline_workload::types::{Optimizer, Types};

const STATES: u64 = 2 * 8 + 8;

fn layer(parameters: u64, block: Option<u32>) -> Layer {
    Layer { parameters, block, outputs: 1, kept: Some(Bytes(0)), ..timed("l", 1, 1, 1) }
}

fn found(layers: &[Layer], ranks: u32, parallel: &Parallel, micro_batches: u32) -> Vec<Footprint> {
    footprints(&train(layers, &[ranks], parallel, (1, micro_batches)).unwrap(), Optimizer::Adam)
}

fn first(layers: &[Layer], ranks: u32, parallel: &Parallel) -> Footprint {
    found(layers, ranks, parallel, 1)[0]
}

#[test]
fn the_training_state_is_divided_over_parts_and_copies() {
    // 48 ranks: t parts and d copies of 9,600 parameters.
    for (t, d) in [(1u32, 48u32), (2, 24), (4, 12), (48, 1)] {
        for zero in 0..=3u8 {
            let parallel = Parallel { tensor: Axes::Degree(t), zero, ..Parallel::default() };
            let part = 9_600 / u64::from(t);
            let over = |from| if zero >= from { u64::from(d) } else { 1 };
            let footprint = first(&[layer(9_600, None)], 48, &parallel);
            assert_eq!(footprint.parameters.0, part / over(3) * 2, "{t} x {d}, stage {zero}");
            assert_eq!(footprint.gradients.0, part / over(2) * 4, "{t} x {d}, stage {zero}");
            assert_eq!(footprint.optimizer.0, part / over(1) * STATES, "{t} x {d}, stage {zero}");
            let gathered = if zero == 3 && d > 1 { part * 2 } else { 0 };
            assert_eq!(footprint.gathered.0, gathered, "{t} x {d}, stage {zero}");
            assert_eq!((footprint.stage, footprint.live, footprint.activations), (0, 1, Some(Bytes(0))));
            let parts = [footprint.parameters, footprint.gradients, footprint.optimizer, footprint.gathered];
            assert_eq!(footprint.total().0, parts.iter().map(|each| each.0).sum::<u64>());
        }
    }
}

#[test]
fn shares_are_rounded_up_and_replicated_layers_are_whole() {
    let replicated = Layer { sharding: Sharding::Replicated, ..layer(10, None) };
    let parallel = |zero| Parallel { tensor: Axes::Degree(4), zero, ..Parallel::default() };
    // 10 parameters on 4 ranks are 3; over 2 copies 2.
    assert_eq!(first(&[layer(10, None)], 8, &parallel(0)).parameters.0, 2 * 3);
    assert_eq!(first(&[layer(10, None)], 8, &parallel(3)).parameters.0, 2 * 2);
    assert_eq!(first(std::slice::from_ref(&replicated), 8, &parallel(0)).parameters.0, 2 * 10);
    assert_eq!(first(&[replicated], 8, &parallel(3)).parameters.0, 2 * 5);
}

#[test]
fn exchanged_tables_are_divided_over_copies_and_have_no_gradients() {
    let tables = Layer { sharding: Sharding::Exchange, ..layer(1_001, None) };
    for zero in [0, 1, 3] {
        let parallel = Parallel { zero, ..Parallel::default() };
        let footprint = first(&[tables.clone(), layer(80, None)], 4, &parallel);
        let over = |from: u8| if zero >= from { 4 } else { 1 };
        // A rank has 251 of 1,001.
        assert_eq!(footprint.parameters.0, 2 * (251 + 80 / over(3)), "stage {zero}");
        assert_eq!(footprint.gradients.0, 4 * 80 / over(2), "stage {zero}");
        assert_eq!(footprint.optimizer.0, STATES * (251 + 80 / over(1)), "stage {zero}");
        assert_eq!(footprint.gathered.0, if zero == 3 { 2 * 80 } else { 0 });
    }
}

#[test]
fn layers_with_exchanges_of_their_own_divide_no_state() {
    let own = Layer { exchanges: Some(Vec::new()), ..layer(80, None) };
    let footprint = first(&[own], 4, &Parallel { zero: 3, ..Parallel::default() });
    assert_eq!((footprint.parameters.0, footprint.optimizer.0, footprint.gathered.0), (160, 80 * STATES, 0));
}

#[test]
fn two_neighbouring_blocks_are_gathered_at_once() {
    // Blocks of 10, 40 and 30 in two layers, 5; and a layer outside of blocks.
    let sizes = [(10, 0), (40, 1), (20, 2), (10, 2), (5, 3)];
    let mut layers: Vec<Layer> = sizes.iter().map(|&(size, block)| layer(size, Some(block))).collect();
    let gathered = |layers: &[Layer], pipeline, schedule, virtual_stages| -> Vec<u64> {
        let parallel = Parallel { zero: 3, pipeline, schedule, virtual_stages, ..Parallel::default() };
        found(layers, 8, &parallel, 4).iter().map(|each| each.gathered.0).collect()
    };
    let flat = Schedule::GPipe;
    assert_eq!(gathered(&layers, Axes::None, flat, 1), [2 * (40 + 30)]);
    assert_eq!(gathered(&layers, Axes::Degree(2), flat, 1), [2 * (10 + 40), 2 * (30 + 5)]);
    // Parts of one stage are not neighbours: 10 and 30, 40 and 5.
    assert_eq!(gathered(&layers, Axes::Degree(2), Schedule::Interleaved, 2), [2 * 30, 2 * 40]);
    layers.push(layer(66, None));
    layers.push(layer(9, None));
    assert_eq!(gathered(&layers, Axes::None, flat, 1), [2 * (66 + 9)]);
    // With stage 2, nothing is gathered.
    let parallel = Parallel { zero: 2, ..Parallel::default() };
    assert_eq!(first(&layers, 8, &parallel).gathered.0, 0);
}

#[test]
fn a_layer_on_some_ranks_counts_where_it_is() {
    let mut part = layer(100, None);
    part.ranks = [("tensor".to_owned(), vec![1])].into();
    part.kept = Some(Bytes(7));
    let whole = Layer { kept: Some(Bytes(11)), ..layer(40, None) };
    let layers = [whole, part];
    let parallel = |zero| Parallel { tensor: Axes::Degree(2), zero, ..Parallel::default() };
    // The ranks that need the most: half of 40, and all of 100.
    let footprint = first(&layers, 2, &parallel(0));
    assert_eq!((footprint.parameters.0, footprint.activations), (2 * (20 + 100), Some(Bytes(11 + 7))));
    let footprint = first(&layers, 4, &parallel(3));
    assert_eq!((footprint.parameters.0, footprint.gathered.0), (2 * (10 + 50), 2 * (20 + 100)));
    // One layer of unknown size makes the sum unknown, also if only some ranks have it.
    let unknown = [layers[0].clone(), Layer { kept: None, ..layers[1].clone() }];
    assert_eq!(first(&unknown, 2, &parallel(0)).activations, None);
}

#[test]
fn stages_hold_their_own_layers_and_copies_of_shared_ones() {
    let mut layers: Vec<Layer> = (0..4).map(|block| layer(10 << block, Some(block))).collect();
    layers[0].name = "table".to_owned();
    layers.push(Layer { shares: Some("table".to_owned()), ..layer(0, None) });
    let parallel = Parallel { pipeline: Axes::Degree(2), ..Parallel::default() };
    let parameters: Vec<u64> = found(&layers, 2, &parallel, 1).iter().map(|each| each.parameters.0).collect();
    assert_eq!(parameters, [2 * (10 + 20), 2 * (40 + 80 + 10)]);
    assert_eq!(first(&layers, 1, &Parallel::default()).parameters.0, 2 * (10 + 20 + 40 + 80));
}

/// Blocks of a layer that all ranks have in full, and one that they divide.
fn kept(blocks: u32) -> Vec<Layer> {
    let of = |block, sharding, kept, inputs| Layer {
        sharding,
        inputs,
        kept: Some(Bytes(kept)),
        heads: Some(8),
        tokens: Some(8),
        ..layer(0, Some(block))
    };
    (0..blocks)
        .flat_map(|block| [of(block, Sharding::Gather, 800, 50), of(block, Sharding::Row, 1_600, 9_999)])
        .collect()
}

fn activations(layers: &[Layer], ranks: u32, parallel: &Parallel) -> u64 {
    first(layers, ranks, parallel).activations.unwrap().0
}

#[test]
fn parts_keep_what_they_divide_and_sequence_parallelism_divides_the_rest() {
    for (t, sequence, each) in
        [(1, false, 800 + 1_600), (4, false, 800 + 400), (4, true, 200 + 400), (8, true, 100 + 200)]
    {
        let parallel = Parallel { tensor: Axes::Degree(t), sequence, ..Parallel::default() };
        assert_eq!(activations(&kept(3), t, &parallel), 3 * each, "{t} {sequence}");
    }
    // Heads are divided, columns are not.
    let parallel = Parallel { tensor: Axes::Degree(4), ..Parallel::default() };
    for (sharding, left) in [(Sharding::Divided, 200), (Sharding::Column, 800), (Sharding::Replicated, 800)] {
        let layers = [Layer { sharding, kept: Some(Bytes(800)), ..layer(0, None) }];
        assert_eq!(activations(&layers, 4, &parallel), left, "{sharding:?}");
    }
}

#[test]
fn full_recomputation_keeps_the_inputs_of_blocks_and_holds_one_block() {
    let parallel = |tensor, divided_checkpoints, sequence| Parallel {
        tensor: Axes::Degree(tensor),
        recompute: Recompute::Full,
        divided_checkpoints,
        sequence,
        ..Parallel::default()
    };
    // An input of 50 elements of 2 bytes. While a block is computed again, its 2,400 bytes include the input.
    assert_eq!(activations(&kept(3), 1, &parallel(1, false, false)), 3 * 100 + (2_400 - 100));
    assert_eq!(activations(&kept(3), 4, &parallel(4, false, false)), 3 * 100 + (1_200 - 100));
    assert_eq!(activations(&kept(3), 4, &parallel(4, true, false)), 3 * 25 + (1_200 - 25));
    assert_eq!(activations(&kept(3), 4, &parallel(4, false, true)), 3 * 25 + (600 - 25));
    // Layers outside of blocks keep what they keep; the largest block counts.
    let mut layers = kept(3);
    layers.push(Layer { kept: Some(Bytes(5_000)), inputs: 1, ..layer(0, None) });
    layers[2].kept = Some(Bytes(1_800));
    assert_eq!(activations(&layers, 1, &parallel(1, false, false)), 3 * 100 + 5_000 + (3_400 - 100));
}

#[test]
fn selective_recomputation_keeps_less_of_marked_layers() {
    let mut layers = kept(2);
    layers[1].selective = true;
    layers[1].kept_selective = Some(Bytes(160));
    // A marked layer that does not say keeps nothing.
    layers[2].selective = true;
    let parallel =
        |tensor, recompute| Parallel { tensor: Axes::Degree(tensor), recompute, ..Parallel::default() };
    let selective = Recompute::Selective;
    assert_eq!(activations(&layers, 1, &parallel(1, selective)), (800 + 160) + 1_600 + (1_600 - 160));
    assert_eq!(activations(&layers, 4, &parallel(4, selective)), (800 + 40) + 400 + 800);
    assert_eq!(activations(&layers, 1, &parallel(1, Recompute::None)), 2 * 2_400);
}

#[test]
fn stages_keep_as_many_micro_batches_as_are_in_flight() {
    let of = |schedule, p, v: u32, m, recompute| -> Vec<(u64, u32)> {
        let parallel = Parallel {
            pipeline: Axes::Degree(p),
            schedule,
            virtual_stages: v,
            recompute,
            ..Parallel::default()
        };
        let each = |found: &Footprint| (found.activations.unwrap().0, found.live);
        found(&kept(p * v), p, &parallel, m).iter().map(each).collect()
    };
    let block = 2_400;
    for (p, m) in [(2, 1), (3, 2), (3, 3), (4, 9)] {
        let gpipe = of(Schedule::GPipe, p, 1, m, Recompute::None);
        assert_eq!(gpipe, vec![(u64::from(m) * block, m); p as usize]);
        let expected: Vec<(u64, u32)> =
            (0..p).map(|stage| m.min(p - stage)).map(|live| (u64::from(live) * block, live)).collect();
        assert_eq!(of(Schedule::OneForwardOneBackward, p, 1, m, Recompute::None), expected);
        // With recomputation, inputs of 100 bytes, and one whole block.
        let inputs: Vec<(u64, u32)> =
            expected.iter().map(|&(_, live)| (u64::from(live) * 100 + block - 100, live)).collect();
        assert_eq!(of(Schedule::OneForwardOneBackward, p, 1, m, Recompute::Full), inputs);
    }
    // 2 (p - s - 1) + (v - 1) p warm-up turns and one more; with m = p everything.
    let live: Vec<u32> =
        of(Schedule::Interleaved, 4, 3, 8, Recompute::None).into_iter().map(|(_, live)| live).collect();
    assert_eq!(live, [15, 13, 11, 9]);
    assert_eq!(of(Schedule::Interleaved, 4, 3, 4, Recompute::None), [(12 * block, 12); 4]);
    // Without stages, all blocks of one micro-batch.
    assert_eq!(first(&kept(4), 1, &Parallel::default()).live, 1);
}

#[test]
fn chunks_of_different_sizes_have_their_own_peak() {
    // Two stages of two chunks, four micro-batches. The first stage goes forward through 0a 1a 0b 1b 2a, then backward
    // and forward in turn: 0b, 3a, 1b, 2b, 0a, 3b, ...
    let pipeline =
        Pipeline { schedule: Schedule::Interleaved, stages: 2, chunks: 2, micro_batches: 4, combined: false };
    let peak = |stage, a: u128, b: u128| pipeline.peak(stage, |chunk| [a, b][chunk as usize]);
    assert_eq!([peak(0, 1, 10), peak(0, 10, 1), peak(0, 1, 1)], [3 + 20, 40 + 1, 5]);
    assert_eq!([peak(0, 0, 1), peak(0, 1, 0), peak(1, 0, 0)], [2, 4, 0]);
    // The last stage: 0a 1a 0b, backward 0b, forward 1b, backward 1b, forward 2a, ...
    assert_eq!([peak(1, 0, 1), peak(1, 1, 1)], [1, 3]);
}

#[test]
fn optimizers_keep_states_and_a_copy_of_short_parameters() {
    let types = |parameters, optimizer| Types { parameters, optimizer, ..Types::uniform(DataType::Float64) };
    let adam = |parameters, optimizer| Optimizer::Adam.bytes(&types(parameters, optimizer));
    use DataType::{BFloat16, Float32, Float64};
    assert_eq!(adam(BFloat16, Float32), 4 + 4 + 4);
    assert_eq!(adam(Float32, Float32), 4 + 4);
    assert_eq!(adam(Float64, Float32), 4 + 4);
    assert_eq!(adam(Float32, Float64), 8 + 8 + 8);
    assert_eq!([Optimizer::Sgd, Optimizer::None].map(|one| one.bytes(&types(BFloat16, Float32))), [0, 0]);
    assert_eq!(Types::default(), Types::uniform(Float32));
}
