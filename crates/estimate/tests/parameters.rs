//! Parameters of 8 and 4 bits: what ranks keep, gather and move of them, counted by hand.

use crate::{Counting, PLAIN, SERVERS, routed, single};
use syncline_estimate::{
    Adapted, Attention, Cluster, Collective, Experts, Job, Latent, MemorySoftware, Model, Precision,
    estimate, memory,
};

/// Llama 3 8B.
fn llama() -> Model {
    crate::llama(4096, 32, 32, 8, 14_336, 128_256)
}

/// Its linear layers: queries and outputs, keys and values, three matrices of the feed-forward block.
const LINEAR: f64 = 32.0 * (2.0 * 4096.0 * 4096.0 + 2.0 * 1024.0 * 4096.0 + 3.0 * 4096.0 * 14_336.0);
/// Its tables: embedding and output layer.
const TABLES: f64 = 2.0 * 128_256.0 * 4096.0;

fn job(precision: Precision, low_precision_parameters: bool) -> Job {
    Job {
        precision,
        low_precision_parameters,
        zero: 1,
        data: 8,
        shard_group: 8,
        micro_batches: 4,
        ..single(1024)
    }
}

fn weights(job: &Job, sides: u8) -> f64 {
    let software = MemorySoftware { fp8_weight_copies: sides, ..MemorySoftware::MEGATRON };
    memory(&llama(), job, &software).weights as f64
}

/// With both copies, 2 bytes of each parameter, and what products need of each side; without those of 16 bits, tables alone
/// have them.
#[test]
fn weights_have_the_copies_that_products_need() {
    let all = LINEAR + TABLES;
    // Tensor cores of Hopper need both sides, those of Blackwell one; scales of MXFP8 and NVFP4 belong to a side.
    let cases = [
        (Precision::Fp8, 2, 2.0),
        (Precision::Fp8, 1, 1.0),
        (Precision::Mxfp8, 1, 2.0 * 33.0 / 32.0),
        (Precision::Nvfp4, 1, 2.0 * (0.5 + 1.0 / 16.0)),
    ];
    for (precision, sides, each) in cases {
        let both = weights(&job(precision, false), sides);
        assert!((both - (2.0 * all + each * LINEAR)).abs() < 1.0, "{precision:?}: {both}");
        let alone = weights(&job(precision, true), sides);
        assert!((alone - (2.0 * TABLES + each * LINEAR)).abs() < 1.0, "{precision:?}: {alone}");
    }
    assert!((weights(&job(Precision::Bf16, false), 2) - 2.0 * all).abs() < 1.0);
    // An output layer of 8 bits has a copy of its table for its products; the parameter keeps 16 bits.
    let output = Job { low_precision_output_layer: true, ..job(Precision::Fp8, true) };
    let more = weights(&output, 2) - weights(&job(Precision::Fp8, true), 2);
    assert!((more - TABLES).abs() < 1.0);
}

/// Bytes of each all-gather of parameters in a step.
fn gathered(model: &Model, job: &Job) -> Vec<f64> {
    let costs = Counting { network: 1.0, ..Counting::default() };
    estimate(model, job, SERVERS, &PLAIN, &costs);
    let calls = costs.calls.borrow();
    calls.iter().filter(|call| call.0 == Collective::AllGather).map(|call| call.1).collect()
}

/// Linear layers of one byte, or of half a byte; MXFP8 is gathered in 16 bits, unless each use gathers parameters.
#[test]
fn ranks_gather_parameters_in_their_type() {
    let model = llama();
    let cases = [
        (Precision::Fp8, false, 2.0),
        (Precision::Fp8, true, 1.0),
        (Precision::Mxfp8, true, 2.0),
        (Precision::Nvfp4, true, 0.5),
    ];
    for (precision, low_precision, each) in cases {
        let found = gathered(&model, &job(precision, low_precision));
        assert_eq!(found, [2.0 * TABLES + each * LINEAR], "{precision:?}");
    }
    let fsdp = |precision| Job { zero: 3, ..job(precision, true) };
    assert_eq!(gathered(&model, &fsdp(Precision::Fp8)), [2.0 * TABLES + LINEAR]);
    assert_eq!(gathered(&model, &fsdp(Precision::Mxfp8)), [2.0 * TABLES + LINEAR * 33.0 / 32.0]);
}

/// Megatron-FSDP has parts of both sides of MXFP8, and of one side of other types; FSDP of PyTorch has those of 32 bits.
#[test]
fn ranks_that_divide_parameters_have_parts_of_them() {
    let fsdp = |precision| Job { zero: 3, ..job(precision, true) };
    let eighth = |each: f64| (2.0 * TABLES + each * LINEAR) / 8.0;
    for (precision, each) in [(Precision::Fp8, 1.0), (Precision::Mxfp8, 66.0 / 32.0)] {
        assert!((weights(&fsdp(precision), 2) - eighth(each)).abs() < 1.0, "{precision:?}");
    }
    let torch = |low_precision| {
        let job = Job { zero: 3, ..job(Precision::Fp8, low_precision) };
        memory(&llama(), &job, &MemorySoftware::FSDP)
    };
    assert_eq!(torch(true).weights, torch(false).weights);
    // A table and a layer are gathered at the same time: the layer has half the bytes.
    let less = torch(false).gathered - torch(true).gathered;
    assert!((less as f64 - LINEAR / 32.0).abs() < 1.0, "{less}");
}

/// Routers keep 16 bits, and experts do not; compressing layers of latent attention are linear layers.
#[test]
fn routers_keep_16_bits() {
    let latent = Latent { query_rank: 512, kv_rank: 256, nope_dim: 64, rope_dim: 32, value_dim: 64 };
    let experts = Experts { shared_ffn: 1024, ..routed(16, 2, 1024) };
    let model = Model {
        hidden: 2048,
        layers: 4,
        heads: 16,
        kv_heads: 16,
        vocab: 32_000,
        attention: Attention::Latent(latent),
        experts: Some(experts),
        ..llama()
    };
    let queries = 2048 * 512 + 512 * 16 * 96;
    let keys = 2048 * (256 + 32) + 256 * 16 * 128;
    let dense = 4 * (queries + keys + 16 * 64 * 2048 + 3 * 2048 * 1024);
    let routed = 4 * 16 * 3 * 2048 * 1024;
    let half = 2 * 32_000 * 2048 + 4 * 16 * 2048;
    let job = |low_precision| Job { expert: 8, ..job(Precision::Fp8, low_precision) };
    let found = gathered(&model, &job(true));
    // Eight ranks divide the experts, so that each copy of them is one, and none is gathered.
    assert_eq!(found, [f64::from(2 * half + dense)]);
    let low_precision = memory(&model, &job(true), &MemorySoftware::MEGATRON).weights;
    assert_eq!(low_precision, (2 * half + 2 * (dense + routed / 8)) as u64);
}

/// A second for each byte of memory: parameters are written in their type, and cast or turned once a step.
#[test]
fn weights_are_cast_once_a_step() {
    let update = |precision, low_precision, sides| {
        let costs = Counting { memory: 1.0, ..Counting::default() };
        let software = syncline_estimate::Software {
            memory: MemorySoftware { fp8_weight_copies: sides, ..MemorySoftware::MEGATRON },
            ..PLAIN
        };
        estimate(&llama(), &job(precision, low_precision), SERVERS, &software, &costs).update_s
    };
    let bf16 = update(Precision::Bf16, false, 2);
    // Each rank writes an eighth of the parameters.
    let cases = [
        // Read in 16 bits and written in 8, along rows and columns.
        (Precision::Fp8, false, 2, 4.0),
        (Precision::Fp8, false, 1, 3.0),
        // Written in 8 bits by the optimizer, read and turned.
        (Precision::Fp8, true, 2, 2.0 - 1.0 / 8.0),
        (Precision::Fp8, true, 1, -1.0 / 8.0),
        (Precision::Mxfp8, true, 1, 2.0 + 2.0 * 33.0 / 32.0),
        (Precision::Nvfp4, true, 1, 2.0 * (0.5 + 1.0 / 16.0) - 1.5 / 8.0),
    ];
    for (precision, low_precision, sides, each) in cases {
        let more = update(precision, low_precision, sides) - bf16;
        assert!((more / (each * LINEAR) - 1.0).abs() < 1e-9, "{precision:?} {low_precision}: {more}");
    }
}

/// Adapters have 16 bits; frozen weights lie in 8 bits alone, and nothing is cast.
#[test]
fn frozen_weights_lie_in_8_bits_alone() {
    let lora = |low_precision| Job {
        adapters: Some(16),
        adapted: Adapted::All,
        ..job(Precision::Fp8, low_precision)
    };
    assert!((weights(&lora(false), 2) - weights(&lora(true), 2) - 2.0 * LINEAR).abs() < 1.0);
    assert_eq!(gathered(&llama(), &lora(false)), gathered(&llama(), &lora(true)));
}

/// Constants of an accelerator come with its cluster.
#[test]
fn a_cluster_says_how_many_sides_its_products_need() {
    let cluster = Cluster { fp8_weight_copies: 1, ..SERVERS };
    assert_eq!(MemorySoftware::named("megatron").on(cluster).fp8_weight_copies, 1);
}

/// Without products of 8 bits, there is nothing to keep in 8 bits.
#[test]
fn parameters_of_8_bits_need_products_of_8_bits() {
    let found = syncline_estimate::check::check(&llama(), &job(Precision::Bf16, true));
    let keys: Vec<_> = found.iter().filter_map(|each| each.key.as_deref()).collect();
    assert_eq!(keys, ["low_precision_parameters"]);
    assert!(found[0].help.as_deref().is_some_and(|help| help.contains("low_precision_parameters: false")));
}
