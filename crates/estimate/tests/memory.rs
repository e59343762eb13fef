//! The memory of a job, against formulas of papers, hand-made sums and measured runs.

#![allow(clippy::unwrap_used)]

use crate::{BARE, gpt, llama, routed, single};
use proptest::prelude::*;
use syncline_estimate::activations::activations;
use syncline_estimate::in_flight::in_flight;
use syncline_estimate::{
    Attention, Experts, Job, Latent, MemorySoftware, Model, Precision, Recompute, Split, memory,
    memory_by_stage,
};

const GIB: f64 = (1_u64 << 30) as f64;

/// One rank, one sequence of 2,048 tokens, attention not fused.
fn job() -> Job {
    Job { precision: Precision::Fp16, fused_attention: false, ..single(2048) }
}

/// Korthikanti et al. (2022), Table 3: hidden size, layers, heads, pipeline, sequences of a micro-batch.
const PUBLISHED: [(u64, u32, u64, u32, u32); 4] =
    [(6144, 48, 64, 1, 4), (12_288, 96, 96, 8, 1), (20_480, 105, 128, 35, 1), (25_600, 128, 160, 64, 1)];

/// Table 2 of Korthikanti et al. gives the bytes of a layer for each technique, as factors of `s b h`.
#[test]
fn layers_keep_what_korthikanti_counts() {
    for (hidden, layers, heads, _, batch) in PUBLISHED {
        let model = gpt(hidden, layers, heads);
        let (t, a, h) = (8.0, heads as f64, hidden as f64);
        let (s, b) = (2048.0, f64::from(batch));
        let scores = 5.0 * a * s / h;
        let kept = |tensor, sequence_parallel, recompute| {
            let job = Job { tensor, sequence_parallel, recompute, micro_batch: batch, ..job() };
            activations(&model, &job, &BARE, 0).kept / (s * b * h)
        };
        let table = [
            (kept(1, false, Recompute::None), 34.0 + scores),
            (kept(8, false, Recompute::None), 10.0 + 24.0 / t + scores / t),
            (kept(8, true, Recompute::None), 34.0 / t + scores / t),
            (kept(8, false, Recompute::Selective), 10.0 + 24.0 / t),
            (kept(8, true, Recompute::Selective), 34.0 / t),
            (kept(1, false, Recompute::Full), 2.0),
        ];
        for (number, (found, expected)) in table.into_iter().enumerate() {
            assert!(
                (found - expected).abs() < 1e-9,
                "row {number}, hidden {hidden}: {found} is not {expected}"
            );
        }
    }
}

/// Section 5: recomputing attention's scores saves 70 % of the activations of GPT-3 and 65 % of MT-NLG's; figure 7: together
/// with sequence parallelism, about a fifth of what tensor parallelism alone keeps is left.
#[test]
fn selective_recomputation_saves_what_the_paper_says() {
    let kept = |model: &Model, sequence_parallel, recompute| {
        let job = Job { tensor: 8, sequence_parallel, recompute, ..job() };
        activations(model, &job, &BARE, 0).kept
    };
    for (model, saved) in [(gpt(12_288, 96, 96), 0.70), (gpt(20_480, 105, 128), 0.65)] {
        let share = kept(&model, true, Recompute::Selective) / kept(&model, true, Recompute::None);
        assert!((1.0 - share - saved).abs() < 0.005, "saves {:.3}", 1.0 - share);
    }
    for (hidden, layers, heads, ..) in PUBLISHED {
        let model = gpt(hidden, layers, heads);
        let share = kept(&model, true, Recompute::Selective) / kept(&model, false, Recompute::None);
        assert!((0.15..0.21).contains(&share), "hidden {hidden}: {share}");
    }
}

/// Equation 5: the first stage keeps the activations of all layers of the model, `s b h L (34 + 5 a s / h) / t`, whatever the
/// pipeline; and `1 + (p - 1) / (p m)` times as much with `m` interleaved chunks. Section 4.3: `s b h p / t` bytes more for the
/// dropout of the embedding; interleaved, `2 p` micro-batches have gone through the first chunk and have not come back, when
/// the stage keeps most.
#[test]
fn the_first_stage_keeps_all_layers() {
    for (hidden, layers, heads, pipeline, batch) in PUBLISHED {
        let model = gpt(hidden, layers, heads);
        let (s, b, h, l, t) = (2048.0, f64::from(batch), hidden as f64, f64::from(layers), 8.0);
        let (p, layer) = (f64::from(pipeline), 34.0 + 5.0 * heads as f64 * 2048.0 / hidden as f64);
        for chunks in [1, 3] {
            if pipeline == 1 && chunks > 1 || layers % (pipeline * chunks) != 0 {
                continue;
            }
            let job = Job {
                tensor: 8,
                sequence_parallel: true,
                pipeline,
                virtual_stages: chunks,
                micro_batch: batch,
                micro_batches: 512,
                ..job()
            };
            let m = f64::from(chunks);
            let more = if chunks > 1 { 1.0 + (p - 1.0) / (p * m) } else { 1.0 };
            let embedded = if chunks > 1 { 2.0 * p } else { p };
            let output = if pipeline == 1 { 4.0 * s * b * h / t } else { 0.0 };
            let expected = s * b * h * l * layer / t * more + s * b * h * embedded / t + output;
            let found = memory_by_stage(&model, &job, &BARE)[0].activations as f64;
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "hidden {hidden}, {chunks} chunks: {found} {expected}"
            );
        }
    }
}

#[test]
fn later_stages_keep_fewer_micro_batches() {
    let four = Job { pipeline: 4, micro_batches: 8, ..job() };
    assert_eq!([0, 1, 2, 3].map(|stage| in_flight(&four, stage)), [4.0, 3.0, 2.0, 1.0]);
    let few = Job { pipeline: 4, micro_batches: 2, ..job() };
    assert_eq!([0, 1, 2, 3].map(|stage| in_flight(&few, stage)), [2.0, 2.0, 2.0, 1.0]);
    // Megatron's warm-up: 2 (p - r - 1) + (v - 1) p chunks forward, and one more before the first goes backward.
    let chunks = Job { pipeline: 4, virtual_stages: 2, micro_batches: 8, ..job() };
    assert_eq!([0, 1, 2, 3].map(|stage| in_flight(&chunks, stage) * 2.0), [11.0, 9.0, 7.0, 5.0]);
}

/// Rajbhandari et al. (2020), figure 1: 7.5 billion parameters on 64 ranks take 120, 31.4, 16.6 and 1.9 GB with ZeRO's stages.
#[test]
fn zero_divides_states_as_its_paper_says() {
    let model = Model { vocab: 1, ..gpt(2500, 100, 25) };
    assert!((model.parameters() as f64 / 7.5e9 - 1.0).abs() < 1e-6);
    for (zero, expected) in [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)] {
        let job = Job { data: 64, shard_group: 64, zero, gradient_bytes: 2, ..job() };
        let found = memory(&model, &job, &BARE);
        let states = (found.weights + found.gradients + found.optimizer) as f64 / 1e9;
        assert!((states - expected).abs() < 0.05, "stage {zero}: {states} GB is not {expected} GB");
    }
}

/// ZeRO in groups keeps a copy in each group; FSDP has as many bytes a parameter, 4 of them as weights.
#[test]
fn shard_groups_keep_a_copy_each() {
    let model = gpt(1024, 8, 16);
    let states = |shard_group, software: &MemorySoftware| {
        let job = Job { data: 64, shard_group, zero: 3, ..job() };
        let found = memory(&model, &job, software);
        (found.weights, found.gradients, found.optimizer)
    };
    let parameters = model.parameters();
    assert_eq!(states(8, &BARE), (2 * parameters / 8, 4 * parameters / 8, 12 * parameters / 8));
    let fsdp = MemorySoftware { gathers_from_master: true, ..BARE };
    assert_eq!(states(64, &fsdp), (4 * parameters / 64, 4 * parameters / 64, 8 * parameters / 64));
}

/// A layer of Llama 3 8B with fused attention, tensor by tensor: four of `h` (both norms, both inputs of products), queries
/// and outputs of `h`, keys and values of `h / 4` each, `2 f` and `f` of the feed-forward block, and 32 logarithms.
#[test]
fn gated_layers_with_grouped_keys_keep_each_tensor_once() {
    let model = llama(4096, 32, 32, 8, 14_336, 128_256);
    let job = Job { fused_attention: true, sequence: 8192, ..job() };
    let token = 2 * (4 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14_336) + 4 * 32;
    assert_eq!(activations(&model, &job, &BARE, 0).kept, f64::from(8192 * token));
    // A gate whose activation is a tensor of its own.
    let apart = MemorySoftware { fused_gate: false, ..BARE };
    assert_eq!(activations(&model, &job, &apart, 0).kept, f64::from(8192 * (token + 2 * 14_336)));
    // Both inputs of products whole, on two ranks that divide all else.
    let whole = MemorySoftware { whole_inputs: 1.0, ..BARE };
    let two = Job { tensor: 2, sequence_parallel: true, ..job };
    assert_eq!(activations(&model, &two, &whole, 0).kept, f64::from(8192 * (token / 2 + 2 * 4096)),);
}

/// Inputs of four products have one byte; what attention and activation keep for themselves has two.
#[test]
fn transformer_engine_keeps_inputs_of_products_in_8_bits() {
    let model = llama(4096, 32, 32, 8, 14_336, 128_256);
    let fp8 = Job { fused_attention: true, precision: Precision::Fp8, ..job() };
    let engine = MemorySoftware { keeps_casts: true, ..BARE };
    let token = 2 * (2 * 4096 + 2 * 4096 + 2 * 1024 + 2 * 14_336) + (3 * 4096 + 14_336) + 4 * 32;
    assert_eq!(activations(&model, &fp8, &engine, 0).kept, f64::from(2048 * token));
    // Attention of 8 bits keeps its queries, keys and values in them.
    let attention = Job { fp8_attention: true, ..fp8.clone() };
    let less = 2048 * (4096 + 2 * 1024);
    assert_eq!(activations(&model, &attention, &engine, 0).kept, f64::from(2048 * token - less));
    // Weights of layers: 16 bits, and 8 bits in two orders. Tables have 16 bits alone.
    let bf16 = Job { precision: Precision::Bf16, ..fp8.clone() };
    let (eight, half) = [&fp8, &bf16].map(|job| memory(&model, job, &engine).weights).into();
    assert_eq!(eight, 2 * half - 2 * 2 * 4096 * 128_256);
}

/// One expert that all tokens go to keeps what a dense block keeps, and the input and output in the order of experts; and its
/// router 8 bytes.
#[test]
fn experts_keep_the_copies_of_tokens() {
    let dense = llama(2048, 4, 16, 16, 8192, 32_000);
    let experts = |count, top_k| Model { experts: Some(routed(count, top_k, 8192)), ..dense.clone() };
    let kept = |model: &Model, job: &Job| activations(model, job, &BARE, 0).kept;
    let more = kept(&experts(1, 1), &job()) - kept(&dense, &job());
    assert_eq!(more, 2048.0 * (4.0 * 2048.0 + 8.0));
    // Outputs that nothing multiplies are not kept.
    let weighted = MemorySoftware { keeps_expert_outputs: false, ..BARE };
    let less = kept(&experts(8, 2), &job()) - activations(&experts(8, 2), &job(), &weighted, 0).kept;
    assert_eq!(less, 2048.0 * 2.0 * 2.0 * 2048.0);
    // Experts on other ranks receive as many tokens as they send.
    let divided = Job { expert: 8, data: 8, ..job() };
    assert_eq!(kept(&experts(8, 2), &job()), kept(&experts(8, 2), &divided));
    let found = |job: &Job| memory(&experts(8, 2), job, &BARE);
    let router_free = |job: &Job| found(job).weights;
    let expert_bytes = 2 * 4 * 3 * 2048 * 8192 * 8;
    assert_eq!(router_free(&job()) - router_free(&divided), expert_bytes - expert_bytes / 8);
    // Each rank updates the experts that it alone has.
    let zero = Job { zero: 1, shard_group: 8, ..divided };
    let router = 4 * 8 * 2048;
    let dense_parameters = dense.parameters() - 4 * 3 * 2048 * 8192 + router;
    assert_eq!(found(&zero).optimizer, 12 * (dense_parameters / 8 + 4 * 3 * 2048 * 8192));
}

/// DeepSeek-V2 (section 2.1): compressed queries, keys and values twice, whole ones once, and keys with their positions.
#[test]
fn latent_attention_keeps_compressed_and_whole_keys() {
    let latent = Latent { query_rank: 1536, kv_rank: 512, nope_dim: 128, rope_dim: 64, value_dim: 128 };
    let model = Model { attention: Attention::Latent(latent), ..llama(5120, 4, 128, 128, 12_288, 102_400) };
    let job = Job { fused_attention: true, ..job() };
    let attention = 2 * (2 * 1536 + 2 * 512 + 64) + 128 * (2 * (192 + 192 + 128 + 128 + 128) + 4);
    let token = 2 * 4 * 5120 + attention + 2 * 3 * 12_288;
    assert_eq!(activations(&model, &job, &BARE, 0).kept, f64::from(2048 * token));
}

/// Adapters of rank 8 beside three linear layers of a GPT layer's four (queries, keys and values are one): only they have
/// gradients and states.
#[test]
fn lora_trains_adapters_alone() {
    let model = gpt(1024, 2, 16);
    let job = Job { adapters: Some(8), ..job() };
    let adapters = 2 * 8 * ((1024 + 3072) + (1024 + 1024) + (1024 + 4096) + (4096 + 1024));
    let found = memory(&model, &job, &BARE);
    assert_eq!(found.weights, 2 * (model.parameters() + adapters));
    assert_eq!((found.gradients, found.optimizer), (4 * adapters, 12 * adapters));
}

/// FSDP gathers two layers at a time; in a pipeline, a stage keeps all its parameters and whole gradients.
#[test]
fn fsdp_gathers_units() {
    let model = Model { vocab: 1, ..gpt(1024, 8, 16) };
    let layer = 12 * 1024 * 1024;
    let job = Job { data: 4, shard_group: 4, zero: 3, ..job() };
    assert_eq!(memory(&model, &job, &BARE).gathered, 2 * 2 * layer + (2 + 4) * layer);
    let stages = Job { pipeline: 2, micro_batches: 4, ..job };
    assert_eq!(memory(&model, &stages, &BARE).gathered, (2 + 4) * (4 * layer + 1024));
}

/// NCCL's all-to-all of eight H100 takes 3.3 GB (NVIDIA/nccl, issue 1685).
#[test]
fn all_to_all_has_buffers_for_each_peer() {
    let model = Model { experts: Some(routed(64, 2, 1024)), ..gpt(1024, 2, 16) };
    let buffers = |expert, data| {
        memory(&model, &Job { expert, data, ..job() }, &MemorySoftware::MEGATRON).buffers as f64 / 1e9
    };
    assert_eq!(buffers(1, 1), 0.0);
    assert!((buffers(8, 8) - buffers(1, 8) - 3.3).abs() < 0.6);
    assert_eq!(buffers(64, 64), buffers(8, 64));
}

#[test]
fn the_fullest_stage_is_named() {
    let model = llama(2048, 16, 32, 32, 8192, 131_072);
    // Logits of the last stage need more than a second micro-batch of the first.
    let job = Job { pipeline: 2, fused_attention: true, micro_batch: 16, micro_batches: 1, ..job() };
    let (fullest, stages) = (
        memory(&model, &job, &MemorySoftware::NANOTRON),
        memory_by_stage(&model, &job, &MemorySoftware::NANOTRON),
    );
    assert_eq!((fullest.stage, fullest), (1, stages[1]));
    assert!(stages[0].logits == 0 && stages[1].logits > stages[0].activations);
    assert!(fullest.fits(fullest.total()) && !fullest.fits(fullest.total() - 1));
}

/// A job of nanotron's sweep.
fn nanotron(tensor: u32, pipeline: u32, data: u32, zero: u8, micro_batch: u32, micro_batches: u32) -> Job {
    Job {
        tensor,
        sequence_parallel: tensor > 1,
        pipeline,
        split: Split::Cost,
        data,
        zero,
        shard_group: data,
        micro_batch,
        micro_batches,
        sequence: 4096,
        precision: Precision::Bf16,
        fused_attention: true,
        ..job()
    }
}

/// Rows of `validation/runs.csv`: GiB that PyTorch reserved on the first stage of nanotron's runs, within 10 %.
#[test]
fn measured_runs_of_nanotron() {
    let one = Model { tied: true, ..llama(2048, 16, 32, 32, 8192, 131_072) };
    let three = Model { tied: true, ..llama(3072, 28, 32, 32, 8192, 131_072) };
    let eight = llama(4096, 32, 32, 32, 14_336, 131_072);
    for (model, job, measured) in [
        (&one, nanotron(1, 1, 8, 1, 1, 32), 24.2),
        (&one, nanotron(1, 8, 32, 0, 1, 8), 19.4),
        (&one, nanotron(8, 1, 1, 0, 16, 16), 38.3),
        (&three, nanotron(1, 4, 2, 1, 1, 128), 36.1),
        (&three, nanotron(2, 1, 4, 0, 1, 64), 45.5),
        (&three, nanotron(4, 8, 2, 1, 8, 16), 46.0),
        (&eight, nanotron(2, 2, 2, 0, 1, 128), 63.6),
        (&eight, nanotron(4, 4, 4, 0, 1, 64), 21.4),
        (&eight, nanotron(8, 1, 32, 1, 8, 1), 48.7),
    ] {
        let found = memory_by_stage(model, &job, &MemorySoftware::NANOTRON)[0].reserved() as f64 / GIB;
        assert!((found / measured - 1.0).abs() < 0.1, "{found:.1} GiB, measured {measured}: {job:?}");
    }
}

/// The same for SimuMax's measurements of Megatron: GiB that PyTorch allocated, within 5 %. Nothing was fitted to them.
#[test]
fn measured_runs_of_megatron() {
    let llama_70b = llama(8192, 12, 64, 8, 28_672, 128_256);
    let deepseek = Model {
        attention: Attention::Latent(Latent {
            query_rank: 1536,
            kv_rank: 512,
            nope_dim: 128,
            rope_dim: 64,
            value_dim: 128,
        }),
        experts: Some(Experts { shared_ffn: 3072, dense_layers: 1, ..routed(160, 6, 1536) }),
        ..llama(5120, 4, 128, 128, 12_288, 102_400)
    };
    let job = |tensor, pipeline, data, expert| Job {
        expert,
        split: Split::Even,
        ..nanotron(tensor, pipeline, data, 1, 1, 32)
    };
    let long = Job { context: 4, shard_group: 4, sequence: 32_768, ..job(2, 1, 1, 1) };
    for (model, job, measured) in [
        (&llama_70b, job(8, 1, 1, 1), 28.29),
        (&llama_70b, job(4, 1, 2, 1), 39.07),
        (&llama_70b, job(1, 2, 4, 1), 66.55),
        (&llama_70b, long, 68.43),
        (&deepseek, job(1, 1, 8, 8), 45.63),
        (&deepseek, job(1, 2, 4, 4), 44.70),
    ] {
        let found = memory(model, &job, &MemorySoftware::MEGATRON).allocated() as f64 / GIB;
        assert!((found / measured - 1.0).abs() < 0.05, "{found:.2} GiB, measured {measured}: {job:?}");
    }
}

fn any_model() -> impl Strategy<Value = Model> {
    (1_u64..5, 2_u32..24, prop::bool::ANY, prop::bool::ANY, prop::bool::ANY, prop::bool::ANY).prop_map(
        |(size, layers, gated, tied, dropout, experts)| Model {
            gated,
            tied,
            dropout,
            experts: experts.then_some(Experts { shared_ffn: 1024, dense_layers: 1, ..routed(16, 2, 1024) }),
            ..gpt(1024 * size, layers, 16 * size)
        },
    )
}

fn any_job() -> impl Strategy<Value = Job> {
    let recompute = prop_oneof![
        Just(Recompute::None),
        Just(Recompute::Selective),
        Just(Recompute::Operators),
        Just(Recompute::Full)
    ];
    let shape = (0_u32..4, 0_u32..4, 1_u32..4, 0_u32..4, 0_u8..4, prop::bool::ANY);
    (shape, 1_u32..4, 1_u32..20, recompute, prop::bool::ANY).prop_map(
        |((tensor, pipeline, chunks, data, zero, sequence_parallel), batch, batches, recompute, fused)| Job {
            tensor: 1 << tensor,
            sequence_parallel,
            pipeline: 1 << pipeline,
            virtual_stages: if pipeline > 0 { chunks } else { 1 },
            data: 1 << data,
            shard_group: 1 << data,
            zero,
            micro_batch: batch,
            micro_batches: batches,
            recompute,
            fused_attention: fused,
            ..job()
        },
    )
}

fn any_software() -> impl Strategy<Value = MemorySoftware> {
    prop_oneof![
        Just(BARE),
        Just(MemorySoftware::MEGATRON),
        Just(MemorySoftware::MEGATRON_DEEPSPEED),
        Just(MemorySoftware::NANOTRON),
        Just(MemorySoftware::FSDP),
        Just(MemorySoftware::LLM_FOUNDRY)
    ]
}

proptest! {
    /// More tensor parallelism never needs more weights, gradients, optimizer's states or activations.
    #[test]
    fn tensor_parallelism_divides(model in any_model(), job in any_job(), software in any_software()) {
        let more = Job { tensor: 2 * job.tensor, ..job.clone() };
        let (one, two) = (memory_by_stage(&model, &job, &software), memory_by_stage(&model, &more, &software));
        for (one, two) in one.iter().zip(&two) {
            prop_assert!(two.weights <= one.weights);
            prop_assert!(two.gradients <= one.gradients);
            prop_assert!(two.optimizer <= one.optimizer);
            prop_assert!(two.activations <= one.activations);
        }
    }

    /// More or larger micro-batches never need less.
    #[test]
    fn larger_batches_need_more(model in any_model(), job in any_job(), software in any_software()) {
        let total = |job: &Job| memory(&model, job, &software).total();
        let more = Job { micro_batches: job.micro_batches + 1, ..job.clone() };
        prop_assert!(total(&more) >= total(&job));
        let larger = Job { micro_batch: job.micro_batch + 1, ..job.clone() };
        prop_assert!(total(&larger) >= total(&job));
        let longer = Job { sequence: 2 * job.sequence, ..job.clone() };
        prop_assert!(total(&longer) >= total(&job));
    }

    /// Each stage of ZeRO needs at most what the one before needs, apart from what it gathers.
    #[test]
    fn zero_divides_more(model in any_model(), job in any_job()) {
        let states = |zero| {
            let found = memory(&model, &Job { zero, pipeline: 1, virtual_stages: 1, ..job.clone() }, &BARE);
            found.weights + found.gradients + found.optimizer
        };
        for zero in 0..3 {
            prop_assert!(states(zero + 1) <= states(zero));
        }
    }

    /// The more is computed again, the less is kept.
    #[test]
    fn recomputation_keeps_less(model in any_model(), job in any_job(), software in any_software()) {
        let kept = |recompute| activations(&model, &Job { recompute, ..job.clone() }, &software, 1).kept;
        prop_assert!(kept(Recompute::Full) <= kept(Recompute::Operators));
        prop_assert!(kept(Recompute::Operators) <= kept(Recompute::None));
        prop_assert!(kept(Recompute::Full) <= kept(Recompute::Selective));
        prop_assert!(kept(Recompute::Selective) <= kept(Recompute::None));
    }

    /// Sequence parallelism never keeps more; with one rank, it changes nothing.
    #[test]
    fn sequence_parallelism_keeps_less(model in any_model(), job in any_job(), software in any_software()) {
        let total = |sequence_parallel| {
            memory(&model, &Job { sequence_parallel, ..job.clone() }, &software).total()
        };
        prop_assert!(total(true) <= total(false));
        if job.tensor == 1 {
            prop_assert_eq!(total(true), total(false));
        }
    }

    /// All kinds together are the whole, and the fullest stage is one of the stages.
    #[test]
    fn kinds_are_the_whole(model in any_model(), job in any_job(), software in any_software()) {
        let stages = memory_by_stage(&model, &job, &software);
        let fullest = memory(&model, &job, &software);
        prop_assert_eq!(stages.len(), job.pipeline as usize);
        prop_assert_eq!(stages[fullest.stage as usize], fullest);
        for each in &stages {
            prop_assert!(each.total() <= fullest.total());
            let kinds = [
                each.weights, each.gradients, each.optimizer, each.activations, each.logits, each.working,
                each.gathered, each.fragmentation, each.buffers, each.context,
            ];
            prop_assert_eq!(kinds.iter().sum::<u64>(), each.total());
            prop_assert_eq!(each.total(), each.reserved() + each.buffers + each.context);
            prop_assert_eq!(each.reserved(), each.allocated() + each.fragmentation);
        }
    }
}

/// Adam in 8 bits keeps a quarter of the moments (Dettmers et al. 2022): 8 GB less for a billion parameters becomes 2, with
/// scales; in 16 bits, half.
#[test]
fn moments_can_have_fewer_bits() {
    let model = llama(4096, 32, 32, 8, 14_336, 128_256);
    let parameters = model.parameters() as f64;
    let states = |moment_bytes| memory(&model, &Job { moment_bytes, ..job() }, &BARE).optimizer as f64;
    assert!((states(4) / parameters - 12.0).abs() < 1e-9);
    assert!((states(2) / parameters - 8.0).abs() < 1e-9);
    assert!((states(1) / parameters - (4.0 + 2.0 * (1.0 + 4.0 / 2048.0))).abs() < 1e-6);
}

/// Megatron pads 50,257 tokens to 51,200 with eight tensor-parallel ranks (SC21, 5.1), 6,400 on each; without padding, one rank
/// more has 6,283 of them. A table of tokens has 18 bytes a parameter without ZeRO: 2 + 4 + 12.
#[test]
fn tables_are_padded() {
    let model = Model { vocab: 50_257, tied: true, ..gpt(4096, 8, 32) };
    let held = |vocab_multiple: u32| {
        let found = memory(&model, &Job { tensor: 8, vocab_multiple, ..job() }, &BARE);
        (found.weights + found.gradients + found.optimizer, found.logits)
    };
    let ((padded, logits), (plain, fewer)) = (held(128), held(1));
    assert_eq!(padded - plain, 18 * 4096 * (6_400 - 6_283));
    assert_eq!(logits, 4 * 2048 * 6_400);
    assert_eq!(fewer, 4 * 2048 * 6_283);
}
