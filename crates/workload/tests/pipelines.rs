//! Pipelines: task graphs of all stages, run by a list scheduler, against the closed forms of their schedules
//! (Narayanan et al. 2021, 2.2).

use crate::support::scheduler::{BY_BYTE, Costs, FREE, run};
use crate::support::{FORWARD, INPUT_GRAD, WEIGHT_GRAD, blocks, collectives, job, samples, timed, train};
use std::collections::{BTreeMap, BTreeSet};
use syncline_diagnostics::Code;
use syncline_units::Time;
use syncline_workload::layer::{Layer, Sharding};
use syncline_workload::parallel::{Axes, BackwardOrder, Parallel, Schedule};
use syncline_workload::pipeline::Stages;
use syncline_workload::schedule::Pipeline;
use syncline_workload::{Part, TaskKind, Work, Workload};

/// Forward and backward pass of one block.
const BLOCK: u64 = FORWARD + INPUT_GRAD + WEIGHT_GRAD;

fn staged(schedule: Schedule, stages: u32, virtual_stages: u32) -> Parallel {
    Parallel { pipeline: Axes::Degree(stages), schedule, virtual_stages, ..Parallel::default() }
}

fn one(stages: u32) -> Parallel {
    staged(Schedule::OneForwardOneBackward, stages, 1)
}

/// Sends of a rank: receiver, tag, bytes.
fn sent(workload: &Workload, rank: u32) -> Vec<(u32, u32, u64)> {
    let tasks = &workload.classes[workload.class_of(rank) as usize].tasks;
    let send = |kind: &TaskKind| match *kind {
        TaskKind::Send { to, bytes, tag } => Some((to.of(rank)?.0, tag, bytes.0)),
        _ => None,
    };
    tasks.iter().filter_map(|task| send(&task.kind)).collect()
}

#[test]
fn a_step_takes_its_micro_batches_and_the_bubble() {
    for backward in [BackwardOrder::WeightFirst, BackwardOrder::InputFirst] {
        for (schedule, p, v, m) in [
            (Schedule::GPipe, 2, 1, 1),
            (Schedule::GPipe, 3, 1, 5),
            (Schedule::OneForwardOneBackward, 2, 1, 3),
            (Schedule::OneForwardOneBackward, 4, 1, 2),
            (Schedule::OneForwardOneBackward, 4, 1, 4),
            (Schedule::OneForwardOneBackward, 3, 1, 8),
            (Schedule::Interleaved, 2, 2, 2),
            (Schedule::Interleaved, 2, 3, 6),
            (Schedule::Interleaved, 3, 2, 6),
            (Schedule::Interleaved, 4, 2, 8),
        ] {
            // One block in each part, then two.
            for each in [1, 2] {
                let parallel = Parallel { backward, ..staged(schedule, p, v) };
                let workload = job(&blocks(p * v * each), &[p], &parallel, (1, m));
                let turns = u64::from(m * v + p - 1);
                let end = run(&workload, FREE).end;
                assert_eq!(end, turns * u64::from(each) * BLOCK, "{schedule:?} p {p} v {v} m {m} x {each}");
            }
        }
    }
}

#[test]
fn a_step_begins_when_the_first_stage_has_ended_the_one_before() {
    for (schedule, v) in
        [(Schedule::GPipe, 1), (Schedule::OneForwardOneBackward, 1), (Schedule::Interleaved, 2)]
    {
        let workload = job(&blocks(6), &[3], &staged(schedule, 3, v), (4, 6));
        let turns = u64::from(6 * v + 2);
        assert_eq!(run(&workload, FREE).end, 4 * turns * BLOCK * u64::from(2 / v), "{schedule:?}");
    }
}

#[test]
fn messages_fill_and_empty_the_pipeline_but_hide_behind_work_in_between() {
    const LATENCY: u64 = 30;
    let costs = Costs { message: |_| LATENCY, ..FREE };
    for (p, m) in [(2, 1), (2, 4), (3, 7), (4, 5)] {
        let filled = u64::from(m + p - 1) * BLOCK + 2 * u64::from(p - 1) * LATENCY;
        let workload = job(&blocks(p), &[p], &staged(Schedule::GPipe, p, 1), (1, m));
        assert_eq!(run(&workload, costs).end, filled, "p {p} m {m}");
        // A single micro-batch visits all stages and returns, whatever the schedule.
        let workload = job(&blocks(p), &[p], &one(p), (1, 1));
        let single = u64::from(p) * BLOCK + 2 * u64::from(p - 1) * LATENCY;
        assert_eq!(run(&workload, costs).end, single, "p {p}");
    }
    // Through both parts of each stage.
    let workload = job(&blocks(4), &[2], &staged(Schedule::Interleaved, 2, 2), (1, 2));
    let visits = run(&workload, Costs { message: |_| 1_000_000, ..FREE }).end / 1_000_000;
    assert_eq!(visits, 6);
}

#[test]
fn each_cut_is_crossed_twice_by_each_micro_batch() {
    for (schedule, p, v, m) in [
        (Schedule::GPipe, 3, 1, 4),
        (Schedule::OneForwardOneBackward, 3, 1, 4),
        (Schedule::Interleaved, 3, 2, 6),
        (Schedule::Interleaved, 2, 3, 4),
    ] {
        // Two ranks of each part, two copies: ranks 4 s + 2 c + t.
        let parallel = Parallel { tensor: Axes::Degree(2), ..staged(schedule, p, v) };
        let workload = job(&blocks(p * v), &[4 * p], &parallel, (1, m));
        let mut channels: BTreeMap<(u32, u32, u32), Vec<u64>> = BTreeMap::new();
        for rank in 0..workload.ranks {
            for (to, tag, bytes) in sent(&workload, rank) {
                assert_eq!(to % 4, rank % 4, "ranks talk to those with the same part and copy");
                assert!((to / 4 + 1) % p == rank / 4 || (rank / 4 + 1) % p == to / 4, "to neighbours only");
                channels.entry((rank, to, tag)).or_default().push(bytes);
            }
        }
        // 10 outputs of 1 byte, whole on both ranks of a part. Each cut and direction has a channel of its own.
        let cuts = (p * v - 1) as usize;
        assert_eq!(channels.len(), 4 * 2 * cuts, "{schedule:?}");
        assert!(channels.values().all(|bytes| *bytes == vec![10; m as usize]), "{channels:?}");
        let tags: BTreeSet<u32> = channels.keys().map(|&(.., tag)| tag).collect();
        assert_eq!(tags.len(), 2 * cuts);
    }
}

#[test]
fn messages_have_the_size_of_what_the_last_layer_of_a_part_puts_out() {
    let mut layers = blocks(3);
    for (layer, outputs) in layers.iter_mut().zip([0, 7, 11, 13]) {
        layer.outputs = outputs;
    }
    let workload = job(&layers, &[3], &one(3), (1, 1));
    let sizes =
        |rank| sent(&workload, rank).into_iter().map(|(to, _, bytes)| (to, bytes)).collect::<Vec<_>>();
    assert_eq!(sizes(0), [(1, 7)]);
    assert_eq!(sizes(1), [(2, 11), (0, 7)]);
    assert_eq!(sizes(2), [(1, 11)]);
    // With sequence parallelism, each rank of a part sends its own tokens; 11 elements are 6 for each of two ranks.
    let parallel = Parallel { sequence: true, tensor: Axes::Degree(2), ..one(3) };
    let workload = job(&layers, &[6], &parallel, (1, 1));
    let bytes = |rank| sent(&workload, rank).into_iter().map(|(.., bytes)| bytes).collect::<Vec<_>>();
    assert_eq!([bytes(0), bytes(2), bytes(4)], [vec![4], vec![6, 4], vec![6]]);
}

#[test]
fn stages_take_turns_as_their_schedule_says() {
    let order = |schedule, stage: u32| -> String {
        let workload = job(&blocks(2), &[2], &staged(schedule, 2, 1), (1, 3));
        let short = |name: String| match name.split_once(' ').unwrap().1 {
            "forward" => "F",
            "input grad" => "b",
            _ => "B",
        };
        run(&workload, FREE).order(stage).into_iter().map(short).collect()
    };
    assert_eq!(order(Schedule::GPipe, 0), "FFFBbBbBb");
    assert_eq!(order(Schedule::OneForwardOneBackward, 0), "FFBbFBbBb");
    assert_eq!(order(Schedule::OneForwardOneBackward, 1), "FBbFBbFBb");
}

#[test]
fn a_stage_receives_the_next_micro_batch_while_it_works() {
    let costs = Costs { message: |_| 30, ..FREE };
    let workload = job(&blocks(2), &[2], &staged(Schedule::GPipe, 2, 1), (1, 3));
    let run = run(&workload, costs);
    let computed = run.computed(1, "block1", Part::Forward);
    // The first micro-batch arrives at 130, the others before the one ahead of them is done, so that they are there
    // when the stage asks for them.
    assert_eq!(computed, [(130, 230), (230, 330), (330, 430)]);
    assert_eq!(run.received(1, "block1", Part::Forward), [(0, 130), (230, 230), (330, 330)]);
}

fn ranges(stages: &Stages) -> Vec<Vec<(usize, usize)>> {
    let of = |stage| stages.chunks(stage).map(|chunk| (chunk.start, chunk.end)).collect();
    (0..stages.pipeline.stages).map(of).collect()
}

/// A layer of each name, in the block of that number if there is one.
fn named(layers: &[(&str, Option<u32>)]) -> Vec<Layer> {
    let layer = |&(name, block): &(&str, Option<u32>)| Layer { block, outputs: 10, ..timed(name, 1, 1, 1) };
    layers.iter().map(layer).collect()
}

#[test]
fn parts_hold_whole_blocks_and_the_outer_parts_what_lies_outside() {
    let cut = |layers: &[Layer], schedule, stages, chunks| {
        Stages::new(Pipeline { schedule, stages, chunks, micro_batches: stages, combined: false }, layers)
            .unwrap()
    };
    // Four blocks of two layers between an input and an output.
    let mut model = vec![("in", None)];
    model.extend((0..4).flat_map(|block| [("a", Some(block)), ("b", Some(block))]));
    model.push(("out", None));
    let model = named(&model);
    let flat = Schedule::GPipe;
    assert_eq!(ranges(&cut(&model, flat, 1, 1)), [[(0, 10)]]);
    assert_eq!(ranges(&cut(&model, flat, 2, 1)), [[(0, 5)], [(5, 10)]]);
    assert_eq!(ranges(&cut(&model, flat, 4, 1)), [[(0, 3)], [(3, 5)], [(5, 7)], [(7, 10)]]);
    let interleaved = cut(&model, Schedule::Interleaved, 2, 2);
    assert_eq!(ranges(&interleaved), [[(0, 3), (5, 7)], [(3, 5), (7, 10)]]);
    let stages: Vec<u32> = (0..10).map(|layer| interleaved.stage(layer)).collect();
    assert_eq!(stages, [0, 0, 0, 1, 1, 0, 0, 1, 1, 1]);
    // What lies between two blocks stays with the one before it.
    let between = named(&[("a", Some(0)), ("b", Some(1)), ("between", None), ("c", Some(2)), ("d", Some(3))]);
    assert_eq!(ranges(&cut(&between, flat, 2, 1)), [[(0, 3)], [(3, 5)]]);
    // Without blocks, each layer is one.
    let plain = named(&[("a", None), ("b", None), ("c", None), ("d", None), ("e", None), ("f", None)]);
    assert_eq!(ranges(&cut(&plain, flat, 3, 1)), [[(0, 2)], [(2, 4)], [(4, 6)]]);
    assert_eq!(
        (0..6).map(|layer| cut(&plain, flat, 3, 1).stage(layer)).collect::<Vec<_>>(),
        [0, 0, 1, 1, 2, 2]
    );
}

#[test]
fn each_stage_computes_its_own_layers() {
    let layers = named(&[("in", None), ("a", Some(0)), ("b", Some(1)), ("out", None)]);
    let workload = job(&layers, &[2], &one(2), (1, 1));
    let run = run(&workload, FREE);
    let a = ["in forward", "a forward", "a weight grad", "a input grad", "in weight grad"];
    let b =
        ["b forward", "out forward", "out weight grad", "out input grad", "b weight grad", "b input grad"];
    assert_eq!((run.order(0), run.order(1)), (a.map(str::to_owned).to_vec(), b.map(str::to_owned).to_vec()));
    assert_eq!(workload.classes.len(), 2);
    let role = workload.roles.last().unwrap();
    assert_eq!((role.name.as_str(), role.ranks(0)), ("pipeline", vec![0, 1]));
    assert_eq!(workload.axes, [("pipeline".to_owned(), 2)]);
}

#[test]
fn models_that_cannot_be_cut_are_refused_with_the_numbers_that_can() {
    let cut = |number: u32, schedule, stages, chunks, blocks: bool| {
        let of = |at: u32| Layer { block: blocks.then_some(at), outputs: 1, ..timed("l", 1, 1, 1) };
        let layers: Vec<Layer> = (0..number).map(of).collect();
        Stages::new(Pipeline { schedule, stages, chunks, micro_batches: stages, combined: false }, &layers)
            .unwrap_err()
    };
    let error = cut(6, Schedule::GPipe, 4, 1, true);
    assert_eq!(error.code, Code::BadWorkload);
    assert_eq!(error.message, "6 blocks do not divide into 4 equal parts");
    assert_eq!(error.found.as_deref(), Some("4 stages"));
    assert_eq!(error.allowed.as_deref(), Some("1, 2, 3, 6 parts"));
    assert_eq!(error.key.as_deref(), Some("workload.parallel.pipeline"));
    let error = cut(6, Schedule::Interleaved, 2, 2, false);
    assert_eq!(error.message, "6 layers do not divide into 4 equal parts");
    assert_eq!(error.found.as_deref(), Some("2 stages of 2 virtual ones"));
    assert_eq!(cut(0, Schedule::GPipe, 1, 1, true).message, "0 layers do not divide into 1 equal parts");
    // A part that ends with nothing to send; the last part may.
    let mut layers = blocks(4);
    layers[4].outputs = 0;
    assert!(train(&layers, &[4], &one(4), (1, 1)).is_ok());
    layers[2].outputs = 0;
    let error = train(&layers, &[4], &one(4), (1, 1)).unwrap_err();
    assert_eq!(error.0[0].key.as_deref(), Some("workload.layers.2.outputs"));
    assert_eq!(error.0[0].message, "layer `block1` ends a stage but has no `outputs`");
    // Only the ends of parts count.
    assert!(train(&layers, &[1], &Parallel::default(), (1, 1)).is_ok());
    layers[1].outputs = 0;
    assert_eq!(
        train(&layers, &[2], &one(2), (1, 1)).unwrap_err().0[0].key.as_deref(),
        Some("workload.layers.2.outputs")
    );
}

#[test]
fn a_step_may_have_four_million_tasks() {
    // Four tasks of each of 4 layers in each micro-batch.
    let layers = named(&[("a", Some(0)), ("b", Some(1)), ("c", Some(2)), ("d", Some(3))]);
    let stages = |stages, micro_batches| {
        let pipeline =
            Pipeline { schedule: Schedule::GPipe, stages, chunks: 1, micro_batches, combined: false };
        Stages::new(pipeline, &layers)
    };
    let most = (1 << 22) / 16;
    assert!(stages(2, most).is_ok());
    let error = stages(2, most + 1).unwrap_err();
    assert_eq!(error.key.as_deref(), Some("workload.micro_batches"));
    assert_eq!(error.found, Some(format!("{} micro-batches of 4 layers", most + 1)));
    assert_eq!(error.allowed, Some(format!("at most {most}")));
    // Without a pipeline, a step is one micro-batch, repeated.
    assert!(stages(1, most + 1).is_ok());
}

/// A table in the first block, and an output that uses its parameters; `blocks` blocks between them.
fn tied(between: u32, parameters: u64) -> Vec<Layer> {
    let table = Layer { parameters, update: Work::Time(Time(5)), outputs: 10, ..timed("table", 1, 1, 1) };
    let output = Layer { shares: Some("table".to_owned()), ..timed("output", 1, 1, 1) };
    let mut layers = vec![table];
    layers.extend(blocks(between).split_off(1));
    layers.push(output);
    layers
}

#[test]
fn stages_that_share_parameters_sum_their_gradients_once_a_step() {
    let layers = tied(2, 100);
    let parallel = Parallel { tensor: Axes::Degree(2), ..one(2) };
    let workload = job(&layers, &[8], &parallel, (1, 3));
    // Besides 10 bytes of activations: half of 100 gradients of 4 bytes, in each direction.
    let sums =
        |rank| sent(&workload, rank).into_iter().filter(|&(.., bytes)| bytes != 10).collect::<Vec<_>>();
    for rank in 0..4 {
        let (first, last) = (sums(rank), sums(rank + 4));
        assert_eq!((first.len(), first[0].0, first[0].2), (1, rank + 4, 200));
        assert_eq!((last.len(), last[0].0, last[0].2), (1, rank, 200));
        assert_eq!(first[0].1, last[0].1, "one tag for both directions");
        assert!(!sent(&workload, rank).iter().any(|&(_, tag, bytes)| bytes == 10 && tag == first[0].1));
    }
    // Both have the parameters, reduce the gradients over the copies, and update.
    for (rank, layer) in [(0, "table"), (4, "output")] {
        let reduced: Vec<_> =
            collectives(&workload, rank).into_iter().filter(|each| each.0 == layer).collect();
        let sum = (layer.to_owned(), Part::WeightGrad, "data".to_owned(), "all_reduce", 200, 1);
        assert!(reduced.contains(&sum), "{reduced:?}");
        assert_eq!(run(&workload, FREE).computed(rank, layer, Part::Update).len(), 1);
    }
    let training = train(&layers, &[8], &parallel, (1, 3)).unwrap();
    let held: Vec<u64> = training.stages.held(&layers).iter().map(|layer| layer.parameters).collect();
    assert_eq!(held, [100, 0, 0, 100]);
}

#[test]
fn the_sum_with_the_other_stage_comes_before_that_over_copies() {
    let mut layers = tied(2, 100);
    layers[0].sharding = Sharding::Replicated;
    let workload = job(&layers, &[4], &one(2), (1, 2));
    let run = run(&workload, BY_BYTE);
    let sum = run.exchanged(0, "table", Part::WeightGrad, "all_reduce")[0];
    let received = run.received(0, "table", Part::WeightGrad)[0];
    // The rest of the backward pass took longer than it took the output's gradients to arrive.
    let computed = *run.computed(0, "table", Part::WeightGrad).last().unwrap();
    assert!(received.0 >= computed.1 && received.1 == sum.0, "{received:?} {sum:?}");
    assert_eq!(sum.1 - sum.0, 400);
    assert_eq!(run.computed(0, "table", Part::Update), [(sum.1, sum.1 + 5)]);
}

#[test]
fn one_stage_has_shared_parameters_once() {
    // Both ends of the model are in the only stage, or both in the first one.
    let mut beside = tied(2, 100);
    let output = beside.pop().unwrap();
    beside.insert(1, output);
    for (layers, parallel, ranks) in [(tied(2, 100), Parallel::default(), 1), (beside, one(2), 2)] {
        let training = train(&layers, &[ranks], &parallel, (1, 1)).unwrap();
        let owned = training.stages.held(&layers).iter().filter(|layer| layer.parameters == 100).count();
        assert_eq!(owned, 1);
        let workload = job(&layers, &[ranks], &parallel, (1, 1));
        assert!((0..ranks).all(|rank| sent(&workload, rank).iter().all(|&(.., bytes)| bytes == 10)));
    }
    // No parameters, no sums.
    let workload = job(&tied(2, 0), &[2], &one(2), (1, 1));
    assert!([0, 1].iter().all(|&rank| sent(&workload, rank).iter().all(|&(.., bytes)| bytes == 10)));
}

#[test]
fn parameters_are_shared_with_another_layer_that_exists() {
    for (name, nearest) in [("tabel", Some("table")), ("output", None)] {
        let mut layers = tied(2, 100);
        layers[3].shares = Some(name.to_owned());
        let error = train(&layers, &[2], &one(2), (1, 1)).unwrap_err().0.remove(0);
        assert_eq!(error.message, "no other layer has this name");
        assert_eq!(error.key.as_deref(), Some("workload.layers.3.shares"));
        assert_eq!(error.allowed.as_deref(), Some("table, block0, block1"));
        assert_eq!(error.nearest.as_deref(), nearest);
    }
}

#[test]
fn stages_reduce_gradients_when_their_last_micro_batch_is_done() {
    let mut layers = blocks(4);
    for layer in &mut layers[1..] {
        (layer.parameters, layer.update) = (50, Work::Time(Time(3)));
    }
    let times = |zero, kind: &'static str, part| {
        let parallel = Parallel { zero, ..staged(Schedule::Interleaved, 2, 2) };
        let workload = job(&layers, &[4], &parallel, (1, 4));
        let run = run(&workload, FREE);
        let of = |rank: u32| {
            ["block0", "block1", "block2", "block3"].map(|name| run.exchanged(rank, name, part, kind).len())
        };
        (of(0), of(2))
    };
    assert_eq!(times(0, "all_reduce", Part::WeightGrad), ([1, 0, 1, 0], [0, 1, 0, 1]));
    // Optimizer states alone are divided: gradients are summed at the end. Divided gradients are summed in each
    // micro-batch, and divided parameters gathered before each use.
    assert_eq!(times(1, "reduce_scatter", Part::WeightGrad), ([1, 0, 1, 0], [0, 1, 0, 1]));
    assert_eq!(times(1, "all_gather", Part::Update), ([1, 0, 1, 0], [0, 1, 0, 1]));
    assert_eq!(times(2, "reduce_scatter", Part::WeightGrad), ([4, 0, 4, 0], [0, 4, 0, 4]));
    assert_eq!(times(2, "all_gather", Part::Update), ([1, 0, 1, 0], [0, 1, 0, 1]));
    assert_eq!(times(3, "all_gather", Part::Forward), ([4, 0, 4, 0], [0, 4, 0, 4]));
    assert_eq!(times(3, "all_gather", Part::InputGrad), ([4, 0, 4, 0], [0, 4, 0, 4]));
    assert_eq!(times(3, "all_gather", Part::Update), ([0; 4], [0; 4]));
    // Before the last micro-batch is done there is nothing to sum.
    let workload = job(&layers, &[4], &staged(Schedule::OneForwardOneBackward, 2, 1), (1, 4));
    let run = run(&workload, FREE);
    for (rank, name) in [(0, "block0"), (0, "block1"), (2, "block2"), (2, "block3")] {
        let last = run.computed(rank, name, Part::WeightGrad)[3];
        assert_eq!(run.exchanged(rank, name, Part::WeightGrad, "all_reduce")[0].0, last.1, "{name}");
    }
    assert_eq!(samples().parameters, 0);
}
