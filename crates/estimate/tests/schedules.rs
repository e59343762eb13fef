//! Schedules that divide the backward pass or go both ways, beside the formulas of their papers.

use crate::{Counting, PLAIN, SERVERS, gpt3, routed, single};
use proptest::prelude::*;
use syncline_estimate::activations::activations;
use syncline_estimate::check::check;
use syncline_estimate::schedule::run::{ChunkBytes, ChunkTimes, execute, peak, timeline};
use syncline_estimate::stages::{Block, divide};
use syncline_estimate::{Experts, Job, MemorySoftware, Model, Schedule, estimate, memory_by_stage};

const ORDERED: [Schedule; 4] = [Schedule::ZbH1, Schedule::ZbV, Schedule::DualPipe, Schedule::DualPipeV];

fn job(schedule: Schedule, pipeline: u32, micro_batches: u32) -> Job {
    let virtual_stages = schedule.chunks().unwrap_or(1);
    Job { schedule, pipeline, virtual_stages, micro_batches, ..single(2048) }
}

/// Chunks of one kind: seconds of forward pass, gradients of inputs, gradients of weights.
fn equal(job: &Job, forward: f64, input: f64, weight: f64) -> Vec<ChunkTimes> {
    let times = ChunkTimes { forward, input, weight, ..ChunkTimes::default() };
    vec![times; (job.pipeline * job.virtual_stages) as usize]
}

/// Seconds in which the busiest stage waits.
fn bubble(job: &Job, (f, b, w): (f64, f64, f64)) -> f64 {
    let found = execute(job, &equal(job, f, b, w), 0.0);
    found.seconds - found.busy.iter().copied().fold(0.0, f64::max)
}

#[test]
fn bubbles_are_those_of_the_papers() {
    for (stages, batches) in [(2, 8), (4, 8), (4, 40), (8, 16), (8, 64), (16, 256)] {
        let p = f64::from(stages);
        // Qi et al. 2024, table 1: (p - 1) (F + B - W), if forward passes and gradients of inputs are no shorter than W.
        for (f, b, w) in [(1.0, 1.0, 1.0), (10.0, 12.0, 8.0), (3.0, 4.0, 1.0), (2.0, 3.0, 2.0)] {
            let found = bubble(&job(Schedule::ZbH1, stages, batches), (f, b, w));
            assert_eq!(found, (p - 1.0) * (f + b - w), "{stages} stages, {batches} micro-batches");
        }
        // A third of the bubble of 1F1B, if all three take the same time.
        assert_eq!(bubble(&job(Schedule::ZbH1, stages, batches), (1.0, 1.0, 1.0)), (p - 1.0) * 3.0 / 3.0);
        // ZB-V has none but that a micro-batch needs until it comes to the last stage: p - 1 chunks, half as long as stages.
        assert_eq!(bubble(&job(Schedule::ZbV, stages, batches), (1.0, 1.0, 1.0)), p - 1.0);
        // DeepSeek-V3 report, table 2: (p / 2 - 1) (F&B + B - 3 W), where B is the whole backward pass.
        let dual = bubble(&job(Schedule::DualPipe, stages, batches), (1.0, 1.0, 1.0));
        assert_eq!(dual, (p / 2.0 - 1.0) * (3.0 + 2.0 - 3.0));
        // Cut in half, it is DualPipe on twice as many stages.
        let cut = bubble(&job(Schedule::DualPipeV, stages, batches), (1.0, 1.0, 1.0));
        assert_eq!(cut, (p - 1.0) * (3.0 + 2.0 - 3.0));
    }
}

#[test]
fn dual_pipe_is_near_its_formula_where_passes_differ() {
    // The paper's bubble counts turns of one rank; executed as early as they can be, other ranks' turns end sooner or later by
    // the difference of forward pass and gradients of inputs.
    for (f, b, w) in [(10.0, 12.0, 8.0), (10.0, 11.0, 10.0), (3.0, 4.0, 1.0), (2.0, 3.0, 2.0)] {
        for stages in [4, 8, 16] {
            let half = f64::from(stages) / 2.0 - 1.0;
            let formula = half * (f + b + w + b + w - 3.0 * w);
            let found = bubble(&job(Schedule::DualPipe, stages, 4 * stages), (f, b, w));
            assert!((found - formula).abs() <= half * (b - f).abs(), "{found} is not near {formula}");
        }
    }
}

#[test]
fn stages_keep_what_the_papers_say() {
    let whole = ChunkBytes { forward: 1.0, weight: 0.0 };
    for (stages, batches) in [(2_u32, 16_u32), (4, 8), (8, 64)] {
        let kept = |schedule: Schedule, bytes: ChunkBytes| -> Vec<f64> {
            let job = job(schedule, stages, batches);
            let chunks = vec![bytes; (stages * job.virtual_stages) as usize];
            (0..stages).map(|stage| peak(&job, stage, &chunks)).collect()
        };
        let p = f64::from(stages);
        // As 1F1B where weights need nothing: p - s micro-batches in stage s.
        let expected: Vec<f64> = (0..stages).map(|stage| p - f64::from(stage)).collect();
        assert_eq!(kept(Schedule::ZbH1, whole), expected);
        // Qi et al. 2024: stages defer the gradients of weights of as many micro-batches as they are ahead of the last one less than
        // the first stage, so that all keep p micro-batches if weights need as much as passes.
        assert_eq!(kept(Schedule::ZbH1, ChunkBytes { forward: 1.0, weight: 1.0 }), vec![p; stages as usize]);
        // ZB-V: 2 p chunks of half of a stage each, which are as much as p micro-batches of a stage.
        assert_eq!(kept(Schedule::ZbV, whole).into_iter().fold(0.0, f64::max), 2.0 * p);
        // DeepSeek-V3 report, table 2: p + 1 chunks; cut in half, 2 p + 1 of half of the size.
        assert_eq!(kept(Schedule::DualPipe, whole).into_iter().fold(0.0, f64::max), p + 1.0);
        assert_eq!(kept(Schedule::DualPipeV, whole).into_iter().fold(0.0, f64::max), 2.0 * p + 1.0);
    }
}

#[test]
fn weights_need_inputs_and_gradients_of_products() {
    // Qi et al. 2024, 2.2: 32 s b h bytes of a GPT layer, where the layer keeps 34 s b h and its scores.
    let model = gpt3();
    let software = MemorySoftware::named("megatron");
    let found = activations(&model, &job(Schedule::ZbH1, 4, 8), &software, 0);
    assert_eq!(found.weights, 32.0 * 2048.0 * 12_288.0);
    assert_eq!(activations(&model, &single(2048), &software, 0).weights, 0.0);
}

#[test]
fn gpipe_keeps_all_micro_batches() {
    let model = gpt3();
    let software = MemorySoftware { fragmentation: 0.0, ..MemorySoftware::named("megatron") };
    let kept = |schedule| {
        let job = Job { schedule, pipeline: 4, micro_batches: 24, ..single(2048) };
        memory_by_stage(&model, &job, &software)[0].activations
    };
    assert_eq!(kept(Schedule::GPipe), kept(Schedule::OneForwardOneBackward) / 4 * 24);
    let step = |schedule| {
        let job = Job { schedule, pipeline: 4, micro_batches: 24, ..single(2048) };
        estimate(&model, &job, SERVERS, &PLAIN, &Counting::default()).seconds()
    };
    assert_eq!(step(Schedule::GPipe), step(Schedule::OneForwardOneBackward));
}

#[test]
fn chunks_go_forth_and_back() {
    let model = Model { layers: 16, ..gpt3() };
    let layers = |schedule: Schedule| -> Vec<Vec<u32>> {
        let layer = |block: Block| if let Block::Layer(number) = block { Some(number) } else { None };
        let stages = divide(&model, &job(schedule, 4, 8));
        stages.into_iter().map(|blocks| blocks.into_iter().filter_map(layer).collect()).collect()
    };
    assert_eq!(layers(Schedule::ZbV)[0], [0, 1, 14, 15]);
    assert_eq!(layers(Schedule::DualPipeV)[3], [6, 7, 8, 9]);
    // Both ways: each stage has layers twice as many.
    let both = layers(Schedule::DualPipe);
    assert_eq!(both[0], [0, 1, 2, 3, 12, 13, 14, 15]);
    assert_eq!(both[3].iter().collect::<std::collections::BTreeSet<_>>(), both[0].iter().collect());
    // Embedding and output layer are on the first stage; on the last one too, for the way back.
    let ends = |schedule, stage: usize| {
        let stages = divide(&model, &job(schedule, 4, 8));
        stages[stage].iter().filter(|block| !matches!(block, Block::Layer(_))).count()
    };
    assert_eq!([ends(Schedule::ZbV, 0), ends(Schedule::ZbV, 3)], [2, 0]);
    assert_eq!([ends(Schedule::DualPipe, 0), ends(Schedule::DualPipe, 3)], [2, 2]);
}

#[test]
fn dual_pipe_holds_the_model_twice() {
    let model = Model { layers: 16, tied: false, ..gpt3() };
    let software = MemorySoftware::named("megatron");
    let weights = |schedule| {
        let stages = memory_by_stage(&model, &job(schedule, 4, 8), &software);
        stages.iter().map(|stage| stage.weights).sum::<u64>()
    };
    assert_eq!(weights(Schedule::ZbH1), 2 * model.parameters());
    assert_eq!(weights(Schedule::DualPipeV), 2 * model.parameters());
    assert_eq!(weights(Schedule::DualPipe), 4 * model.parameters());
}

#[test]
fn a_step_is_its_stage_and_the_schedule_s_bubble() {
    // Without embedding and output layer, whose products a vocabulary of one token makes small: F = 24 s h^2 + s^2 h, twice
    // that backward, of which weights are 24 s h^2; attention has 2.5 times its forward pass.
    let model = Model { vocab: 1, ..gpt3() };
    let (h, s, layers) = (12_288.0, 2048.0, 24.0);
    let products = 24.0 * s * h * h * layers;
    let attention = 2.0 * s * s * h * layers;
    let (f, b, w) = (products + attention, products + 2.5 * attention, products);
    let step = estimate(&model, &job(Schedule::ZbH1, 4, 16), SERVERS, &PLAIN, &Counting::default());
    let expected = 16.0 * (f + b + w) + 3.0 * (f + b - w);
    assert!((step.seconds() / expected - 1.0).abs() < 1e-6);
    let plain = Job { schedule: Schedule::OneForwardOneBackward, ..job(Schedule::ZbH1, 4, 16) };
    let plain = estimate(&model, &plain, SERVERS, &PLAIN, &Counting::default());
    assert!((plain.bubble_s / (3.0 * (f + b + w)) - 1.0).abs() < 1e-6);
}

#[test]
fn dual_pipe_hides_tokens_to_experts() {
    let experts = Experts { shared_ffn: 2048, ..routed(64, 8, 2048) };
    let model = Model { hidden: 1024, layers: 16, ffn: 4096, experts: Some(experts), ..gpt3() };
    let step = |schedule| {
        let job = Job { data: 8, expert: 8, ..job(schedule, 8, 64) };
        let costs = Counting { network: 1e3, ..Counting::default() };
        estimate(&model, &job, SERVERS, &PLAIN, &costs)
    };
    let (zero, dual) = (step(Schedule::ZbH1), step(Schedule::DualPipe));
    assert!(zero.stage.expert > 0.0);
    // Most passes are in pairs, which hide 112 of 132 parts of dispatch that is shorter than what they compute.
    let left = dual.stage.expert / zero.stage.expert;
    assert!((20.0 / 132.0..0.4).contains(&left), "{left}");
    assert!(dual.seconds() < zero.seconds());
}

#[test]
fn messages_delay_the_stages_that_wait_for_them() {
    for schedule in ORDERED {
        let job = job(schedule, 4, 16);
        let chunks = equal(&job, 1.0, 1.0, 1.0);
        let (without, with) = (execute(&job, &chunks, 0.0), execute(&job, &chunks, 0.25));
        // The first micro-batch's messages come before anything can hide them: three to the last stage and three back.
        assert!(with.seconds >= without.seconds + 3.0 * 0.25, "{}", schedule.name());
        assert_eq!(with.busy, without.busy);
    }
}

#[test]
fn schedules_refuse_what_they_cannot_order() {
    let keys = |job: &Job| -> Vec<(String, String)> {
        let found = check(&gpt3(), job);
        found.into_iter().map(|each| (each.key.unwrap_or_default(), each.help.unwrap_or_default())).collect()
    };
    for schedule in ORDERED {
        assert_eq!(keys(&job(schedule, 4, 8)), []);
        let one = Job { pipeline: 1, ..job(schedule, 4, 8) };
        assert_eq!(keys(&one), [("pipeline".to_owned(), "write pipeline: 2, or schedule: 1f1b".to_owned())]);
    }
    let found = keys(&job(Schedule::DualPipe, 5, 12));
    assert_eq!(found, [("pipeline".to_owned(), "write pipeline: 4".to_owned())]);
    let found = keys(&job(Schedule::DualPipe, 4, 9));
    assert_eq!(found, [("micro_batches".to_owned(), "write micro_batches: 10".to_owned())]);
    let found = keys(&job(Schedule::DualPipeV, 4, 7));
    assert_eq!(found, [("micro_batches".to_owned(), "write micro_batches: 8".to_owned())]);
    let found = keys(&Job { virtual_stages: 3, ..job(Schedule::ZbV, 4, 8) });
    assert_eq!(found, [("virtual_stages".to_owned(), "write virtual_stages: 2".to_owned())]);
}

proptest! {
    /// Stages of any times, any number of micro-batches: every piece of work is done once, no stage does two things at once,
    /// and what a few micro-batches tell of many is what all of them take.
    #[test]
    fn any_stages_work_on_each_micro_batch_once(
        schedule in prop::sample::select(ORDERED.to_vec()),
        half in 1_u32..5,
        more in 0_u32..40,
        message in 0_u32..3,
        seconds in prop::collection::vec((1_u32..9, 1_u32..9, 0_u32..9), 16),
    ) {
        let stages = 2 * half;
        let job = job(schedule, stages, 4 * half + 2 * more);
        prop_assert_eq!(check(&gpt3(), &job), vec![]);
        let count = (stages * job.virtual_stages) as usize;
        let chunks: Vec<ChunkTimes> = (0..count)
            .map(|at| {
                let (forward, input, weight) = seconds[at % 16];
                ChunkTimes {
                    forward: f64::from(forward),
                    input: f64::from(input),
                    weight: f64::from(weight),
                    ..ChunkTimes::default()
                }
            })
            .collect();
        let lines = timeline(&job, &chunks, f64::from(message));
        let mut end = 0.0_f64;
        for turns in &lines {
            prop_assert!(turns.windows(2).all(|pair| pair[0].2 <= pair[1].1));
            end = end.max(turns.last().map_or(0.0, |turn| turn.2));
        }
        let work: f64 = lines.iter().flatten().map(|turn| turn.2 - turn.1).sum();
        let all: f64 = chunks.iter().map(ChunkTimes::seconds).sum::<f64>() * f64::from(job.micro_batches);
        prop_assert_eq!(work, all);
        let found = execute(&job, &chunks, f64::from(message));
        prop_assert!((found.seconds / end - 1.0).abs() < 0.02, "{} is not {end}", found.seconds);
    }
}
