//! Layers at both ends in 16 bits, by hand.

use crate::{PLAIN, SERVERS, llama, single};
use syncline_estimate::activations::activations;
use syncline_estimate::machine::AttentionWork;
use syncline_estimate::{
    Collective, Costs, Group, Job, MemorySoftware, Model, Precision, Product, blocks, estimate, memory,
    memory_by_stage, profile,
};

/// A second for each operation in 8 bits, and two in 16; nothing else takes time.
struct Halved;

impl Costs for Halved {
    fn product(&self, _: Product, precision: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        let each = if precision.casts() { 1.0 } else { 2.0 };
        each * (2 * m * n * k * groups) as f64
    }

    fn attention(&self, work: AttentionWork) -> f64 {
        if work.fp8 { 0.0 } else { 1e15 }
    }

    fn memory(&self, _: f64) -> f64 {
        0.0
    }

    fn collective(&self, _: Collective, _: f64, _: Group) -> f64 {
        0.0
    }
}

/// Eight layers, a multiple of four stages.
fn model() -> Model {
    llama(1024, 8, 8, 8, 4096, 32_000)
}

/// Parameters of linear layers of one layer, and of a table.
const LAYER: f64 = 4.0 * 1024.0 * 1024.0 + 3.0 * 4096.0 * 1024.0;
const TABLE: f64 = 32_000.0 * 1024.0;
const TOKENS: f64 = 2048.0;

fn job(first: u32, last: u32) -> Job {
    Job {
        precision: Precision::Fp8,
        fp8_attention: true,
        first_layers_bf16: first,
        last_layers_bf16: last,
        zero: 1,
        ..single(2048)
    }
}

fn seconds(model: &Model, job: &Job) -> Vec<f64> {
    estimate(model, job, SERVERS, &PLAIN, &Halved).stages_s
}

/// A layer of 16 bits: three products of each parameter and token take twice as long, and attention is not that of 8 bits.
const LONGER: f64 = 6.0 * TOKENS * LAYER + 2.0 * 1e15;

#[test]
fn layers_of_16_bits_take_the_time_of_16_bits() {
    let plain = seconds(&model(), &job(0, 0))[0];
    for (first, last) in [(1, 0), (0, 1), (1, 1), (2, 3), (8, 0), (4, 4)] {
        let more = seconds(&model(), &job(first, last))[0] - plain;
        let wanted = f64::from(first + last) * LONGER;
        assert!((more / wanted - 1.0).abs() < 1e-9, "{first} and {last}: {more}");
    }
    // All of them are a job of 16 bits.
    let whole = Job { precision: Precision::Bf16, fp8_attention: false, ..job(0, 0) };
    assert_eq!(seconds(&model(), &job(8, 0)), seconds(&model(), &whole));
}

#[test]
fn stages_at_both_ends_have_them() {
    let stages = |first, last| seconds(&model(), &Job { pipeline: 4, micro_batches: 8, ..job(first, last) });
    let (plain, bf16) = (stages(0, 0), stages(1, 3));
    let more: Vec<f64> =
        bf16.iter().zip(&plain).map(|(bf16, plain)| ((bf16 - plain) / LONGER).round()).collect();
    assert_eq!(more, [1.0, 0.0, 1.0, 2.0]);
}

/// Megatron Core does not count layers of multi-token prediction among the last ones.
#[test]
fn predicted_tokens_keep_8_bits() {
    let model = Model { prediction_layers: 1, ..model() };
    let more = seconds(&model, &job(0, 1))[0] - seconds(&model, &job(0, 0))[0];
    assert!((more / LONGER - 1.0).abs() < 1e-9, "{more}");
}

/// Weights of such a layer have 16 bits alone, and its activations those of a job of 16 bits.
#[test]
fn layers_of_16_bits_have_its_memory() {
    let software = MemorySoftware { fp8_weight_copies: 1, ..MemorySoftware::MEGATRON };
    let weights = |job: &Job| memory(&model(), job, &software).weights as f64;
    for (first, last) in [(0, 0), (1, 2), (8, 0)] {
        let eight_bits = f64::from(8 - first - last) * LAYER;
        let both = 2.0 * (8.0 * LAYER + 2.0 * TABLE) + eight_bits;
        assert!((weights(&job(first, last)) - both).abs() < 1.0);
        let alone = Job { low_precision_parameters: true, ..job(first, last) };
        assert!((weights(&alone) - (both - 2.0 * eight_bits)).abs() < 1.0);
    }
    let kept = |job: &Job| memory(&model(), job, &software).activations as f64;
    let half = Job { precision: Precision::Bf16, fp8_attention: false, ..job(0, 0) };
    let more = activations(&model(), &half, &software, 0).kept
        - activations(&model(), &job(0, 0), &software, 0).kept;
    assert!(more > 0.0 && (kept(&job(1, 1)) - kept(&job(0, 0)) - 2.0 * more).abs() < 1.0);
    // Stages in the middle do not change.
    let stages = |first, last| {
        memory_by_stage(&model(), &Job { pipeline: 4, micro_batches: 8, ..job(first, last) }, &software)
    };
    let (plain, bf16) = (stages(0, 0), stages(2, 2));
    for stage in 0..4 {
        assert_eq!(plain[stage].activations < bf16[stage].activations, [0, 3].contains(&stage));
    }
}

/// A profile and simulations' blocks add up to the same.
#[test]
fn details_say_the_same() {
    let (model, job) = (model(), job(1, 2));
    let whole = seconds(&model, &job)[0];
    let detailed = blocks(&model, &job, SERVERS, &PLAIN, &Halved);
    let each = detailed.chunks[0].iter().map(|block| block.dense);
    let sum: f64 = each.map(|share| share.forward_s + share.input_s + share.weight_s).sum();
    assert!((sum / whole - 1.0).abs() < 1e-9);
    let found = profile(&model, &job, SERVERS, &PLAIN, &MemorySoftware::MEGATRON, &Halved);
    let kernels: f64 = found.kernels.iter().map(|each| each.times * each.each_s).sum();
    assert!((kernels / whole - 1.0).abs() < 1e-9);
    let of = |name: &str| {
        let chosen =
            found.kernels.iter().filter(|each| each.name == "output of attention" && each.pass == "forward");
        chosen.filter(|each| each.precision == Some(name)).map(|each| each.times).sum::<f64>()
    };
    assert_eq!((of("bf16"), of("fp8")), (3.0, 5.0));
}

#[test]
fn a_model_has_as_many_layers() {
    let refused = |job: &Job| {
        let found = syncline_estimate::check::check(&model(), job);
        let each = found
            .first()
            .map(|each| (each.key.clone().unwrap_or_default(), each.help.clone().unwrap_or_default()));
        each.unwrap_or_default()
    };
    assert_eq!(refused(&job(8, 0)), (String::new(), String::new()));
    assert_eq!(
        refused(&job(9, 0)),
        ("first_layers_bf16".to_owned(), "write first_layers_bf16: 8".to_owned())
    );
    assert_eq!(refused(&job(3, 6)), ("last_layers_bf16".to_owned(), "write last_layers_bf16: 5".to_owned()));
    let half = Job { precision: Precision::Bf16, fp8_attention: false, ..job(1, 0) };
    assert_eq!(refused(&half).0, "first_layers_bf16");
}
