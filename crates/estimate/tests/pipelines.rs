//! Layers on stages, and the time of schedules.

use crate::{Counting, PLAIN, SERVERS, gpt3, single};
use proptest::prelude::*;
use syncline_estimate::in_flight::kept_at_once;
use syncline_estimate::schedule::run::{ChunkTimes, execute, pipelined, timeline};
use syncline_estimate::stages::{Block, divide};
use syncline_estimate::{Job, Model, Schedule, Split, estimate};
use syncline_workload::parallel::Schedule as Simulated;
use syncline_workload::schedule::Pipeline;

fn layers(stage: &[Block]) -> usize {
    stage.iter().filter(|block| matches!(block, Block::Layer(_))).count()
}

/// A pipeline with 1F1B, interleaved with several chunks a stage.
fn pipeline(stages: u32, micro_batches: u32, chunks: u32) -> Job {
    Job { pipeline: stages, virtual_stages: chunks, micro_batches, ..single(2048) }
}

/// A chunk with a forward pass of a third of its time.
fn chunk(seconds: f64) -> ChunkTimes {
    let third = seconds / 3.0;
    ChunkTimes { forward: third, input: third, weight: third, ..ChunkTimes::default() }
}

#[test]
fn bubbles_are_those_of_the_paper() {
    // SC21, 2.2: a pipeline of p stages and m micro-batches idles for (p - 1) t / v, if a micro-batch takes t.
    for (stages, batches, chunks) in [(4_u32, 8_u32, 1_u32), (8, 64, 1), (8, 64, 4), (2, 2, 3), (16, 2048, 4)]
    {
        let job = pipeline(stages, batches, chunks);
        let equal = vec![chunk(3.0); (stages * chunks) as usize];
        let found = pipelined(&job, &equal, 0.0, 1.0, 0);
        assert_eq!(found.bubble_s, 3.0 * f64::from(stages - 1));
        assert_eq!(found.messages_s, 0.0);
        let busy = execute(&job, &equal, 0.0).busy;
        assert_eq!(busy, vec![3.0 * f64::from(chunks * batches); stages as usize]);
    }
    // The slowest stage sets the pace; the first and the last micro-batch pass the others.
    let found = pipelined(&pipeline(3, 10, 1), &[chunk(3.0), chunk(6.0), chunk(9.0)], 0.0, 1.0, 2);
    assert_eq!(found.bubble_s, 9.0);
    // Where a stage waits for its messages, each takes its time in both directions of each micro-batch, and the first and the
    // last one that of the others.
    let found = pipelined(&pipeline(4, 8, 1), &[chunk(3.0); 4], 0.5, 1.0, 0);
    assert_eq!((found.bubble_s, found.messages_s), (9.0, 2.0 * 8.0 * 0.5 + 2.0 * 3.0 * 0.5));
}

proptest! {
    /// Beside a walk through the turns by which a simulation counts memory.
    #[test]
    fn a_stage_keeps_the_chunks_that_micro_batches_have_come_to(
        (stages, kept) in (2_u32..9, 1_usize..6).prop_flat_map(|(stages, chunks)| {
            (Just(stages), proptest::collection::vec(0_u32..20, chunks))
        }),
        rounds in 2_u32..6,
    ) {
        let chunks = kept.len() as u32;
        let job = pipeline(stages, rounds * stages, chunks);
        let schedule = if chunks > 1 { Simulated::Interleaved } else { Simulated::OneForwardOneBackward };
        let pipeline = Pipeline { schedule, stages, chunks, micro_batches: rounds * stages, combined: false };
        let bytes: Vec<f64> = kept.iter().copied().map(f64::from).collect();
        for stage in 0..stages {
            let expected = pipeline.peak(stage, |chunk| u128::from(kept[chunk as usize]));
            let found = kept_at_once(&job, stage, &bytes, 0.0);
            prop_assert!((found - expected as f64).abs() < 1e-9, "{} instead of {}", found, expected);
        }
    }

    /// What repeats itself is skipped: no second is lost by that, with any chunks and messages.
    #[test]
    fn many_micro_batches_take_as_long_as_executed_one_by_one(
        (stages, chunks, times) in (2_u32..9, 1_u32..5).prop_flat_map(|(stages, chunks)| {
            let passes = proptest::collection::vec((0_u32..20, 0_u32..20, 0_u32..20), (stages * chunks) as usize);
            (Just(stages), Just(chunks), passes)
        }),
        batches in 1_u32..120,
        message in 0_u32..5,
        gpipe in any::<bool>(),
    ) {
        let schedule = if gpipe { Schedule::GPipe } else { Schedule::OneForwardOneBackward };
        let chunks = if gpipe { 1 } else { chunks };
        let job = Job { schedule, ..pipeline(stages, batches, chunks) };
        let times: Vec<ChunkTimes> = times[..(stages * chunks) as usize]
            .iter()
            .map(|&(forward, input, weight)| ChunkTimes {
                forward: f64::from(forward),
                input: f64::from(input),
                weight: f64::from(weight),
                ..ChunkTimes::default()
            })
            .collect();
        let turns = timeline(&job, &times, f64::from(message));
        let count = 2 * (batches * chunks) as usize;
        prop_assert!(turns.iter().all(|stage| stage.len() == count));
        let expected = turns.iter().flatten().map(|(_, _, end)| *end).fold(0.0, f64::max);
        prop_assert_eq!(execute(&job, &times, f64::from(message)).seconds, expected);
    }
}

#[test]
fn a_pipeline_takes_as_long_as_its_stages_and_its_bubble() {
    let model = gpt3();
    let one = estimate(&model, &single(2048), SERVERS, &PLAIN, &Counting::default());
    let job = Job { pipeline: 8, micro_batches: 24, ..single(2048) };
    let step = estimate(&model, &job, SERVERS, &PLAIN, &Counting::default());
    let stage = one.stage.seconds() / 8.0;
    let last = stage + one.ends_s;
    assert!((step.seconds() / (24.0 * last + 7.0 * stage) - 1.0).abs() < 1e-12);
}

#[test]
fn layers_that_do_not_divide_go_to_the_later_chunks() {
    let model = Model { layers: 10, ..gpt3() };
    let job = Job { pipeline: 4, ..single(2048) };
    let found = divide(&model, &job);
    assert_eq!(found.iter().map(|stage| layers(stage)).collect::<Vec<_>>(), [2, 2, 3, 3]);
    assert_eq!((found[0][0], *found[3].last().unwrap()), (Block::Embedding, Block::Output));
    // Interleaved: chunks go round the stages.
    let job = Job { pipeline: 2, virtual_stages: 2, ..single(2048) };
    let model = Model { layers: 8, ..gpt3() };
    let first: Vec<_> = divide(&model, &job)[0].clone();
    assert_eq!(first[1..], [0, 1, 4, 5].map(Block::Layer));
}

#[test]
fn embedding_and_output_count_as_layers_where_the_split_says_so() {
    // Llama 3.1 405B on 16 stages of 8 chunks: 126 layers, the first and the last chunk without one each.
    let model = Model { layers: 126, ..gpt3() };
    let job = Job { pipeline: 16, virtual_stages: 8, split: Split::Ends, ..single(2048) };
    let found = divide(&model, &job);
    assert_eq!(
        found.iter().map(|stage| layers(stage)).collect::<Vec<_>>()[..],
        [[7].as_slice(), &[8; 14], &[7]].concat()
    );
}

#[test]
fn the_last_chunk_has_the_rest_where_the_split_says_so() {
    // NVIDIA's layout of DeepSeek-V3 on 4 stages of 4 chunks: 4 layers in each chunk, and in the last one the 61st and the
    // one for multi-token prediction.
    let model = Model { layers: 61, prediction_layers: 1, ..gpt3() };
    let job = Job { pipeline: 4, virtual_stages: 4, split: Split::Rest, ..single(2048) };
    let found = divide(&model, &job);
    assert_eq!(found.iter().map(|stage| layers(stage)).collect::<Vec<_>>(), [16, 16, 16, 14]);
    assert_eq!(found[3][12..], [Block::Layer(60), Block::Layer(61), Block::Output]);
    // More chunks than there are layers for: the later ones have none.
    let model = Model { layers: 5, ..gpt3() };
    let job = Job { pipeline: 4, split: Split::Rest, ..single(2048) };
    assert_eq!(divide(&model, &job).iter().map(|stage| layers(stage)).collect::<Vec<_>>(), [2, 2, 1, 0]);
}

#[test]
fn equal_costs_split_layers_as_nanotron_does() {
    // A model of 1 billion parameters on 8 stages, as nanotron splits it: the output layer is on the seventh one alone.
    let model = Model { hidden: 2048, layers: 16, ffn: 8192, vocab: 131_072, gated: true, ..gpt3() };
    let job = Job { pipeline: 8, split: Split::Cost, ..single(4096) };
    let found = divide(&model, &job);
    assert_eq!(found.iter().map(|stage| layers(stage)).collect::<Vec<_>>(), [3, 3, 2, 3, 2, 3, 0, 0]);
    assert_eq!(found[6], [Block::Output]);
}
