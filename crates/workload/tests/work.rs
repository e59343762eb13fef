//! Operations and bytes that ranks work on, against those of the undivided model.

use crate::support::{job, train};
use syncline_units::{Bytes, DataType, Flops};
use syncline_workload::layer::{Layer, Sharding};
use syncline_workload::parallel::{Axes, Parallel, Recompute, Schedule};
use syncline_workload::product::{Cut, Product};
use syncline_workload::{Part, TaskGraph, TaskKind, Work, Workload};

fn ops(flop: u64, memory: u64, products: &[Product], data_type: Option<DataType>) -> Work {
    Work::Ops { flop: Flops(flop), memory: Bytes(memory), products: products.into(), data_type }
}

fn product(m: u64, k: u64, n: u64, count: u64) -> Product {
    Product { m, k, n, count, memory: Bytes(960) }
}

/// A linear layer of 16 rows, 8 inputs and 32 outputs, which divides into 2 and 4.
fn linear(name: &str, sharding: Sharding, block: Option<u32>) -> Layer {
    let of = |product: Product| ops(product.flop().unwrap(), 960, &[product], None);
    Layer {
        name: name.to_owned(),
        forward: of(product(16, 8, 32, 1)),
        input_grad: of(product(16, 32, 8, 1)),
        weight_grad: of(product(8, 16, 32, 1)),
        update: ops(256, 512, &[], None),
        parameters: 256,
        inputs: 128,
        outputs: 512,
        sharding,
        block,
        ..Layer::default()
    }
}

const LINEAR: u64 = 2 * 16 * 8 * 32;

/// A sum over the work that a graph does in a step for a part.
fn done(graph: &TaskGraph, part: Part, of: fn(&Work) -> u64) -> u128 {
    let tasks = (0..).zip(&graph.tasks).filter(|(_, task)| task.part == part);
    let one = |(at, task): (u32, &syncline_workload::Task)| match &task.kind {
        TaskKind::Compute(work) => u128::from(of(work)) * u128::from(graph.times_a_step(at)),
        _ => 0,
    };
    tasks.map(one).sum()
}

fn flop(work: &Work) -> u64 {
    match work {
        Work::Ops { flop, .. } => flop.0,
        _ => 0,
    }
}

fn memory(work: &Work) -> u64 {
    match work {
        Work::Ops { memory, .. } => memory.0,
        _ => 0,
    }
}

/// What the products of a work amount to.
fn multiplied(work: &Work) -> u64 {
    match work {
        Work::Ops { products, .. } => products.iter().map(|product| product.flop().unwrap()).sum(),
        _ => 0,
    }
}

fn moved(work: &Work) -> u64 {
    match work {
        Work::Ops { products, .. } => products.iter().map(|product| product.memory.0).sum(),
        _ => 0,
    }
}

fn total(workload: &Workload, part: Part, of: fn(&Work) -> u64) -> u64 {
    u64::try_from(workload.sum(|graph| done(graph, part, of))).unwrap()
}

#[test]
fn ranks_of_a_copy_together_do_the_work_of_the_model() {
    let divided = [Sharding::Gather, Sharding::Column, Sharding::Row, Sharding::Divided];
    for (sharding, tensor, sequence) in divided
        .into_iter()
        .flat_map(|sharding| [1, 2, 4].map(|tensor| (sharding, tensor)))
        .flat_map(|(sharding, tensor)| [false, true].map(|sequence| (sharding, tensor, sequence)))
    {
        let layers = [linear("a", sharding, None), linear("b", sharding, None)];
        let parallel = Parallel { tensor: Axes::Degree(tensor), sequence, ..Parallel::default() };
        // Eight ranks, three micro-batches.
        let workload = job(&layers, &[8], &parallel, (1, 3));
        let copies = u64::from(8 / tensor);
        let said = format!("{sharding:?} over {tensor}");
        for of in [flop, multiplied] {
            assert_eq!(total(&workload, Part::Forward, of), copies * 3 * 2 * LINEAR, "{said}");
            assert_eq!(total(&workload, Part::InputGrad, of), copies * 3 * LINEAR, "{said}");
            assert_eq!(total(&workload, Part::WeightGrad, of), copies * 3 * 2 * LINEAR, "{said}");
        }
        for of in [memory, moved] {
            assert_eq!(total(&workload, Part::Forward, of), copies * 3 * 2 * 960, "{said}");
        }
        // Updates come once a step.
        assert_eq!(total(&workload, Part::Update, flop), copies * 2 * 256, "{said}");
    }
}

#[test]
fn replicated_work_is_done_by_each_rank_unless_it_is_divided_by_tokens() {
    let layers = [linear("a", Sharding::Replicated, None), linear("b", Sharding::Replicated, None)];
    for (sequence, times) in [(false, 4), (true, 1)] {
        let parallel = Parallel { tensor: Axes::Degree(4), sequence, ..Parallel::default() };
        let workload = job(&layers, &[4], &parallel, (1, 1));
        assert_eq!(total(&workload, Part::Forward, flop), times * 2 * LINEAR);
        assert_eq!(total(&workload, Part::WeightGrad, memory), times * 2 * 960);
        // All parameters are on each rank.
        assert_eq!(total(&workload, Part::Update, flop), 4 * 2 * 256);
    }
}

#[test]
fn copies_divide_updates_from_stage_1_of_zero_on() {
    let layers = [linear("a", Sharding::Column, None)];
    for (zero, each) in [(0, 256 / 2), (1, 256 / 8), (2, 256 / 8), (3, 256 / 8)] {
        let parallel = Parallel { tensor: Axes::Degree(2), zero, ..Parallel::default() };
        let workload = job(&layers, &[8], &parallel, (1, 5));
        assert_eq!(total(&workload, Part::Update, flop), 8 * each, "stage {zero}");
        assert_eq!(total(&workload, Part::Update, memory), 8 * 2 * each, "stage {zero}");
        // Other work stays the same.
        assert_eq!(total(&workload, Part::Forward, flop), 4 * 5 * LINEAR);
    }
}

#[test]
fn recomputation_adds_the_forward_passes_that_it_repeats() {
    let mut layers: Vec<Layer> =
        (0..4).flat_map(|block| ["a", "b"].map(|name| linear(name, Sharding::Gather, Some(block)))).collect();
    layers.push(linear("head", Sharding::Gather, None));
    layers.iter_mut().step_by(2).for_each(|layer| layer.selective = true);
    layers[8].selective = false;
    for (recompute, forward) in
        [(Recompute::None, 9), (Recompute::Selective, 9 + 4), (Recompute::Full, 9 + 8)]
    {
        for (pipeline, sizes) in [(Axes::None, [4]), (Axes::Degree(2), [4])] {
            let parallel = Parallel { recompute, pipeline, ..Parallel::default() };
            let workload = job(&layers, &sizes, &parallel, (1, 2));
            let copies = if parallel.pipeline == Axes::None { 4 } else { 2 };
            assert_eq!(total(&workload, Part::Forward, flop), copies * 2 * forward * LINEAR, "{recompute:?}");
            assert_eq!(total(&workload, Part::InputGrad, flop), copies * 2 * 8 * LINEAR, "{recompute:?}");
        }
    }
}

#[test]
fn schedules_order_work_and_do_not_change_it() {
    let layers: Vec<Layer> = (0..4).map(|block| linear("l", Sharding::Gather, Some(block))).collect();
    for (schedule, virtual_stages) in
        [(Schedule::GPipe, 1), (Schedule::OneForwardOneBackward, 1), (Schedule::Interleaved, 2)]
    {
        let parallel =
            Parallel { pipeline: Axes::Degree(2), schedule, virtual_stages, ..Parallel::default() };
        let workload = job(&layers, &[2], &parallel, (1, 4));
        for (part, times) in [(Part::Forward, 16), (Part::InputGrad, 12), (Part::WeightGrad, 16)] {
            assert_eq!(total(&workload, part, flop), times * LINEAR);
        }
        assert_eq!(total(&workload, Part::Update, flop), 4 * 256);
    }
}

#[test]
fn work_keeps_its_type_and_a_vocabulary_is_padded() {
    // 10 tokens of 6 parameters on 4 ranks are 3 tokens on each.
    let mut layer = linear("table", Sharding::Column, None);
    (layer.vocabulary, layer.parameters) = (Some(10), 60);
    layer.forward = ops(1_000, 2_000, &[], Some(DataType::Float8));
    let layers = [layer];
    let parallel = Parallel { tensor: Axes::Degree(4), ..Parallel::default() };
    let workload = job(&layers, &[4], &parallel, (1, 1));
    let forward = workload.classes[0].tasks.iter().find(|task| task.part == Part::Forward).unwrap();
    assert_eq!(forward.kind, TaskKind::Compute(ops(300, 600, &[], Some(DataType::Float8))));
    let training = train(&layers, &[4], &parallel, (1, 1)).unwrap();
    assert_eq!(training.division(0).parameters(&layers[0]), 18);
}

#[test]
fn shares_of_a_product_hold_all_of_it() {
    let whole = Product { m: 10, k: 7, n: 5, count: 6, memory: Bytes(1_000) };
    for by in 1..=20u32 {
        for cut in [Cut::M, Cut::K, Cut::N, Cut::Count] {
            let share = whole.share(by, cut);
            let (part, all) = (share.flop().unwrap(), whole.flop().unwrap());
            // Together the shares have all of it, and no more than rounding adds.
            assert!(part * u64::from(by) >= all, "{cut:?} by {by}");
            let same = [share.m == 10, share.k == 7, share.n == 5, share.count == 6];
            let changed = same.iter().filter(|same| !**same).count();
            match cut {
                Cut::Count if by > 6 => {
                    // Fewer products than ranks: rows of the six, counted together.
                    assert_eq!((share.count, share.m), (1, 60_u64.div_ceil(by.into())), "by {by}");
                }
                Cut::Count => assert_eq!((share.m, share.count), (10, 6_u64.div_ceil(by.into()))),
                Cut::M => assert!(share.m == 10_u64.div_ceil(by.into()) && changed <= 1),
                Cut::K => assert!(share.k == 7_u64.div_ceil(by.into()) && changed <= 1),
                Cut::N => assert!(share.n == 5_u64.div_ceil(by.into()) && changed <= 1),
            }
            assert_eq!(share.memory.0, 1_000_u64.div_ceil(by.into()));
        }
    }
}

#[test]
fn a_product_in_a_file_is_one_product_unless_it_says() {
    let read = |text: &str| serde_json::from_str::<Product>(text);
    assert_eq!(read(r#"{"m": 2, "k": 3, "n": 4, "memory": "5B"}"#).unwrap().flop(), Some(48));
    assert_eq!(read(r#"{"m": 2, "k": 3, "n": 4, "count": 10, "memory": "5B"}"#).unwrap().flop(), Some(480));
    assert!(read(r#"{"m": 2, "k": 3, "n": 4, "size": 1, "memory": "5B"}"#).is_err());
}
