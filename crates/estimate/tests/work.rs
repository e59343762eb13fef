//! Operations of a step, by the formula of SC21 and by counting.

use crate::{Counting, PLAIN, SERVERS, gpt3, single};
use syncline_estimate::check::check;
use syncline_estimate::machine::AttentionWork;
use syncline_estimate::work::layer_work;
use syncline_estimate::{Cluster, Job, Model, Precision, Recompute, Software, estimate};
use syncline_kernels::Library;

#[test]
fn a_step_has_the_operations_of_the_formula() {
    // SC21, appendix: a forward pass has 24 b s l h^2 (1 + s / 6h) operations in the layers, and 2 b s h V in the output
    // layer; a causal mask hides half of the scores. The backward pass has twice the products, and attention that is
    // fused two and a half times its own, because it computes the scores again.
    let (model, sequence) = (gpt3(), 2048);
    let (h, s, l, v) = (12_288.0, 2048.0, 96.0, 51_200.0);
    let step = estimate(&model, &single(sequence), SERVERS, &PLAIN, &Counting::default());
    let products = 24.0 * s * l * h * h;
    let attention = 24.0 * s * l * h * h * s / (6.0 * h) / 2.0;
    assert_eq!(step.stage.products, 3.0 * products);
    assert_eq!(step.stage.attention, 3.5 * attention);
    assert_eq!(step.ends_s, 3.0 * 2.0 * s * h * v);
    assert_eq!(step.seconds(), step.stage.products + step.stage.attention + step.ends_s);
}

#[test]
fn full_recomputation_adds_a_forward_pass_of_the_layers() {
    let (model, job) = (gpt3(), single(2048));
    let plain = estimate(&model, &job, SERVERS, &PLAIN, &Counting::default());
    let job = Job { recompute: Recompute::Full, ..job };
    let again = estimate(&model, &job, SERVERS, &PLAIN, &Counting::default());
    assert_eq!(again.stage.products, plain.stage.products * 4.0 / 3.0);
    assert_eq!(again.ends_s, plain.ends_s);
    // Selective recomputation computes scores again where they are written, and nothing where they are not.
    let selective = Job { recompute: Recompute::Selective, ..single(2048) };
    assert_eq!(estimate(&model, &selective, SERVERS, &PLAIN, &Counting::default()), plain);
}

#[test]
fn unfused_attention_computes_all_scores_and_recomputes_them_if_asked() {
    let job = Job { fused_attention: false, ..single(2048) };
    let all = 4.0 * 2048.0 * 2048.0 * 12_288.0 * 96.0;
    let step = |job: &Job| estimate(&gpt3(), job, SERVERS, &PLAIN, &Counting::default()).stage.attention;
    assert_eq!(step(&job), 3.0 * all);
    assert_eq!(step(&Job { recompute: Recompute::Selective, ..job }), 4.0 * all);
}

#[test]
fn adapters_leave_out_the_gradients_of_weights() {
    let (model, job) = (gpt3(), Job { adapters: Some(16), ..single(2048) });
    let plain = estimate(&model, &single(2048), SERVERS, &PLAIN, &Counting::default());
    let step = estimate(&model, &job, SERVERS, &PLAIN, &Counting::default());
    // Two thirds, and the adapters' own products: 3 passes of 16 h r weights in each of 96 layers.
    let own = 3.0 * 2.0 * 2048.0 * 16.0 * 12_288.0 * 16.0 * 96.0;
    assert_eq!(step.stage.products, plain.stage.products * 2.0 / 3.0 + own);
    assert_eq!((step.exchange_s, step.update_s), (0.0, 0.0));
}

#[test]
fn a_processor_that_launches_slowly_sets_the_pace() {
    let software = Software { layer_cpu_s: 1e30, ..PLAIN };
    let job = Job { micro_batches: 2, ..single(2048) };
    let step = estimate(&gpt3(), &job, SERVERS, &software, &Counting::default());
    assert!((step.stage.seconds() / (2.0 * 96.0 * 1e30) - 1.0).abs() < 1e-12);
    let job = Job { recompute: Recompute::Full, ..job };
    let again = estimate(&gpt3(), &job, SERVERS, &software, &Counting::default());
    assert!((again.stage.seconds() / step.stage.seconds() - 4.0 / 3.0).abs() < 1e-12);
}

#[test]
fn stages_on_several_servers_pace_a_layer_that_computes_for_a_shorter_time() {
    let model = Model { layers: 8, ..gpt3() };
    let staged = |tensor: u32, software: &Software| {
        let job = Job { tensor, pipeline: 8, data: 8, micro_batches: 8, ..single(2048) };
        estimate(&model, &job, SERVERS, software, &Counting::default()).stage
    };
    // Each of the tensor-parallel ranks adds to the least time; a layer that takes longer hides it.
    let slow = Software { layer_cpu_s: 1e20, staged_layer_s: 1e20, ..PLAIN };
    assert!((staged(4, &slow).seconds() / (8.0 * 5e20) - 1.0).abs() < 1e-9);
    assert!(staged(4, &Software { staged_layer_s: 1.0, ..PLAIN }).launch == 0.0);
}

#[test]
fn recomputation_may_keep_queries_keys_and_values() {
    let step = |recompute| {
        let job = Job { recompute, ..single(2048) };
        estimate(&gpt3(), &job, SERVERS, &PLAIN, &Counting::default()).stage
    };
    let (none, full, kept) = (step(Recompute::None), step(Recompute::Full), step(Recompute::ExceptQkv));
    // Of 12 parts of a layer's products, queries, keys and values are 3, and nothing needs the output of the last 4.
    let forward = full.products - none.products;
    assert!(((kept.products - none.products) / forward - 5.0 / 12.0).abs() < 1e-12);
    assert_eq!(kept.attention, full.attention);
}

#[test]
fn products_of_16_bits_slow_down_under_sustained_load() {
    let step = |cluster, precision| {
        let job = Job { precision, ..single(2048) };
        estimate(&gpt3(), &job, cluster, &PLAIN, &Counting::default())
    };
    let slow = Cluster { sustained: 0.5, ..SERVERS };
    for (precision, ratio) in [(Precision::Bf16, 2.0), (Precision::Fp8, 1.0)] {
        let (plain, slowed) = (step(SERVERS, precision), step(slow, precision));
        assert_eq!(slowed.stage.products, ratio * plain.stage.products);
        // Logits have 16 bits.
        assert!(slowed.ends_s > plain.ends_s);
    }
}

#[test]
fn tensor_parallel_ranks_divide_products_and_share_few_heads_of_keys() {
    let model = Model { kv_heads: 8, ..gpt3() };
    let one = layer_work(&model, &single(2048), 0);
    let work = layer_work(&model, &Job { tensor: 16, sequence_parallel: true, ..single(2048) }, 0);
    let outputs = |at: usize| (one.linears[at].outputs, work.linears[at].outputs);
    // Sixteen ranks divide 96 heads and twice 8 of keys, gather what they multiplied, and each attends with a whole head of keys.
    assert_eq!(outputs(0), ((96 + 16) * 128, (96 + 16) * 128 / 16));
    assert_eq!((one.heads_bytes, work.heads_bytes), (0, 2048 * (96 + 16) * 128 * 2));
    assert_eq!(work.attention.map(|each| (each.heads, each.kv_heads)), Some((6, 1)));
    assert_eq!(outputs(2), (49_152, 49_152 / 16));
    assert_eq!(work.dense_parameters, one.dense_parameters / 16);
}

/// Two products for each pair of a query and a key before it forward, five backward, counted one by one.
#[test]
fn operations_of_attention_are_those_of_all_pairs() {
    for (sequence, window) in [(1, 0), (7, 0), (12, 5), (9, 9), (6, 40)] {
        let work = AttentionWork {
            batch: 2,
            sequence,
            heads: 4,
            kv_heads: 2,
            key_dim: 6,
            value_dim: 4,
            window,
            backward: false,
            library: Library::Measured,
            fp8: false,
        };
        let sees = |query: u64, key: u64| key <= query && (window == 0 || query - key < window);
        let pairs = (0..sequence).flat_map(|query| (0..sequence).map(move |key| (query, key)));
        let count = pairs.filter(|&(query, key)| sees(query, key)).count() as f64 * 8.0;
        assert_eq!(work.flop(), 2.0 * count * (6.0 + 4.0));
        let backward = AttentionWork { backward: true, ..work };
        assert_eq!(backward.flop(), 2.0 * count * (3.0 * 6.0 + 2.0 * 4.0));
    }
}

#[test]
fn attention_of_8_bits_casts_its_inputs_and_gradients() {
    let (model, sequence) = (gpt3(), 2048);
    let linear = Job { precision: Precision::Fp8, ..single(sequence) };
    let both = Job { fp8_attention: true, ..linear.clone() };
    let work = |job: &Job| layer_work(&model, job, 0);
    assert!(!work(&linear).attention.unwrap().fp8 && work(&both).attention.unwrap().fp8);
    // Three bytes for each element of queries, keys and values forward; backward for each of the gradients of outputs, and of
    // queries, keys and values: seven h a token in three passes of this many bytes, of which the backward pass has two.
    let more = work(&both).element_bytes - work(&linear).element_bytes;
    assert_eq!(more, 3 * sequence * 7 * 12_288 / 3);
}

/// 16 h elements a token are inputs and outputs of a layer's products. In 8 bits, each is read once and written along both
/// sides; in NVFP4 it is read twice, and written in 4 bits with a byte of scale for 16 elements. With frozen weights, one side.
#[test]
fn elements_of_nvfp4_are_read_once_more() {
    let elements = 2048.0 * 16.0 * 12_288.0;
    let bytes = |precision, adapters| {
        let job = Job { precision, adapters, ..single(2048) };
        layer_work(&gpt3(), &job, 0).element_bytes as f64
    };
    for (adapters, eight, four) in [(None, 4.0, 4.0 + 2.0 * 9.0 / 16.0), (Some(16), 3.0, 4.0 + 9.0 / 16.0)] {
        let half = bytes(Precision::Bf16, adapters);
        for (precision, each) in
            [(Precision::Fp8, eight), (Precision::Mxfp8, eight), (Precision::Nvfp4, four)]
        {
            let cast = bytes(precision, adapters) - half;
            assert!((cast - each * elements / 3.0).abs() < 8.0, "{precision:?}: {cast}");
        }
    }
}

#[test]
fn attention_of_8_bits_needs_a_recipe_of_8_bits_and_a_fused_kernel() {
    let job = Job { fp8_attention: true, precision: Precision::Mxfp8, ..single(2048) };
    let keys = |job: &Job| check(&gpt3(), job).into_iter().filter_map(|each| each.key).collect::<Vec<_>>();
    assert_eq!(keys(&job), Vec::<String>::new());
    for refused in [
        Job { precision: Precision::Bf16, ..job.clone() },
        Job { fused_attention: false, ..job.clone() },
        Job { attention_library: Some(Library::FlashAttention2), ..job.clone() },
    ] {
        assert_eq!(keys(&refused), ["fp8_attention"]);
    }
    assert_eq!(keys(&Job { attention_library: Some(Library::Cudnn), ..job }), Vec::<String>::new());
}
