//! Layers and parts of them that the backward pass computes again.

use crate::{Counting, PLAIN, SERVERS, gpt3, routed, single};
use syncline_estimate::activations::activations;
use syncline_estimate::check::check;
use syncline_estimate::job::RecomputeMethod;
use syncline_estimate::machine::AttentionWork;
use syncline_estimate::{
    Attention, Experts, Job, Latent, MemorySoftware, Model, Module, Precision, Recompute, Step, estimate,
    memory,
};

/// A byte of memory takes a second, and nothing else takes any.
struct Traffic;

impl syncline_estimate::Costs for Traffic {
    fn product(&self, _: syncline_estimate::Product, _: Precision, _: u64, _: u64, _: u64, _: u64) -> f64 {
        0.0
    }

    fn attention(&self, _: AttentionWork) -> f64 {
        0.0
    }

    fn memory(&self, bytes: f64) -> f64 {
        bytes
    }

    fn collective(&self, _: syncline_estimate::Collective, _: f64, _: syncline_estimate::Group) -> f64 {
        0.0
    }
}

fn step(model: &Model, job: &Job) -> Step {
    estimate(model, job, SERVERS, &PLAIN, &Counting::default())
}

fn selective(modules: &[Module]) -> Job {
    Job { recompute: Recompute::Selective, recompute_modules: modules.to_vec().into(), ..single(2048) }
}

/// Sizes of DeepSeek-V3, with fewer layers.
fn deepseek() -> Model {
    Model {
        hidden: 7168,
        layers: 4,
        heads: 128,
        kv_heads: 128,
        head_dim: 128,
        ffn: 18_432,
        gated: true,
        vocab: 129_280,
        tied: false,
        rotary: true,
        yarn: false,
        dropout: false,
        attention: Attention::Latent(Latent {
            query_rank: 1536,
            kv_rank: 512,
            nope_dim: 128,
            rope_dim: 64,
            value_dim: 128,
        }),
        experts: Some(Experts { shared_ffn: 2048, dense_layers: 1, ..routed(64, 8, 2048) }),
        biased_experts: false,
        prediction_layers: 0,
    }
}

const BARE: MemorySoftware = MemorySoftware {
    fragmentation: 0.0,
    workspace_bytes: 0,
    communicator_bytes: 0,
    context_bytes: 0,
    ..MemorySoftware::MEGATRON
};

#[test]
fn a_block_of_layers_is_between_none_and_all() {
    // 24 layers on each of 4 stages: each recomputed layer adds a forward pass, and keeps 2 s b h bytes.
    let model = gpt3();
    let job = |recompute, layers: u32| Job {
        pipeline: 4,
        micro_batches: 8,
        recompute,
        recompute_method: (layers > 0).then_some(RecomputeMethod::Block),
        recompute_layers: layers.max(1),
        ..single(2048)
    };
    let (none, full) = (job(Recompute::None, 0), job(Recompute::Full, 0));
    let seconds = |job: &Job| step(&model, job).stage.seconds();
    let kept = |job: &Job| memory(&model, job, &BARE).activations as f64;
    for layers in [1, 6, 12, 24] {
        let some = job(Recompute::Full, layers);
        let part = f64::from(layers) / 24.0;
        let expected = seconds(&none) + part * (seconds(&full) - seconds(&none));
        assert!((seconds(&some) / expected - 1.0).abs() < 1e-12);
        let expected = kept(&none) + part * (kept(&full) - kept(&none));
        assert!((kept(&some) / expected - 1.0).abs() < 1e-9);
        assert_eq!(check(&model, &some), vec![]);
    }
    // In chunks, the first ones of each.
    let chunks = Job { virtual_stages: 4, recompute_layers: 3, ..job(Recompute::Full, 3) };
    let half = seconds(&none) + 0.5 * (seconds(&full) - seconds(&none));
    assert!((seconds(&chunks) / half - 1.0).abs() < 1e-12);
}

#[test]
fn groups_of_layers_keep_one_input() {
    // Chen et al. 2016: of n layers in groups of k, n / k inputs, and k layers while a group is computed again.
    let model = gpt3();
    let job = |layers: u32| Job {
        recompute: Recompute::Full,
        recompute_method: Some(RecomputeMethod::Uniform),
        recompute_layers: layers,
        ..single(2048)
    };
    let whole = activations(&model, &single(2048), &BARE, 0);
    for layers in [1, 2, 8] {
        let found = activations(&model, &job(layers), &BARE, 0);
        let k = f64::from(layers);
        assert_eq!(found.kept, 2.0 * 2048.0 * 12_288.0 / k);
        assert_eq!(found.working - whole.working, k * whole.kept);
    }
    assert_eq!(step(&model, &job(1)), step(&model, &job(8)));
}

#[test]
fn parts_of_a_gpt_layer_keep_less() {
    // Of 34 s b h bytes with the logarithms of 96 heads: norms' outputs 4, the block's 16 after its norm.
    let model = gpt3();
    let sbh = 2048.0 * 12_288.0;
    let kept = |modules: &[Module]| activations(&model, &selective(modules), &BARE, 0).kept;
    let whole = activations(&model, &single(2048), &BARE, 0).kept;
    assert_eq!(whole, 34.0 * sbh + 2048.0 * 96.0 * 4.0);
    assert_eq!(whole - kept(&[Module::Layernorm]), 4.0 * sbh);
    assert_eq!(whole - kept(&[Module::Mlp]), 16.0 * sbh);
    assert_eq!(whole - kept(&[Module::CoreAttention]), 2048.0 * 96.0 * 4.0);
    assert_eq!(whole - kept(&[Module::Layernorm, Module::Mlp]), 20.0 * sbh);
}

#[test]
fn parts_of_a_gpt_layer_take_their_forward_pass() {
    let (model, s, h) = (gpt3(), 2048.0, 12_288.0);
    let more = |modules: &[Module]| {
        step(&model, &selective(modules)).stage.seconds() - step(&model, &single(2048)).stage.seconds()
    };
    let near =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    near(more(&[Module::Mlp]), 96.0 * 2.0 * 2.0 * s * h * 4.0 * h);
    near(more(&[Module::CoreAttention]), 96.0 * 2.0 * s * s * h);
    assert_eq!(more(&[Module::Layernorm]), 0.0);
    // Norms move 2 x (2 + 2) bytes of each element, the activation of the block 2 x (4 + 4).
    let moved = |modules: &[Module]| {
        let bytes = |job: &Job| estimate(&model, job, SERVERS, &PLAIN, &Traffic).stage.element_wise;
        bytes(&selective(modules)) - bytes(&single(2048))
    };
    near(moved(&[Module::Layernorm]), 96.0 * 8.0 * s * h);
    near(moved(&[Module::Mlp]), 96.0 * 16.0 * s * h);
}

#[test]
fn parts_of_layers_with_experts() {
    let model = deepseek();
    let s = 2048.0;
    let kept = |modules: &[Module], layer| activations(&model, &selective(modules), &BARE, layer).kept;
    let whole = |layer| activations(&model, &single(2048), &BARE, layer).kept;
    // Activations of 8 experts of 2,048 elements; queries and keys of 192, twice, keys without position and values of 128.
    assert_eq!(whole(2) - kept(&[Module::MoeAct], 2), 2.0 * s * 8.0 * 2048.0);
    assert_eq!(whole(2) - kept(&[Module::MlaUpProj], 2), 2.0 * s * 128.0 * (2.0 * 192.0 + 128.0 + 128.0));
    // The gate's two halves and their product.
    assert_eq!(whole(2) - kept(&[Module::SharedExperts], 2), 2.0 * s * 3.0 * 2048.0);
    // Megatron keeps inputs of experts, and not their outputs.
    let experts = 2.0 * s * 8.0 * (7168.0 + 3.0 * 2048.0) + s * 8.0 * 64.0;
    assert_eq!(whole(2) - kept(&[Module::Moe], 2), experts + 2.0 * s * 3.0 * 2048.0);
    assert_eq!(whole(0) - kept(&[Module::Mlp], 0), 2.0 * s * 3.0 * 18_432.0);
    // Modules of the other kind of layer change nothing.
    assert_eq!(whole(0), kept(&[Module::Moe, Module::MoeAct, Module::SharedExperts], 0));
    assert_eq!(whole(2), kept(&[Module::Mlp], 2));
    let more = |modules: &[Module]| {
        step(&model, &selective(modules)).stage.products - step(&model, &single(2048)).stage.products
    };
    let near =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    near(more(&[Module::MlaUpProj]), 4.0 * 2.0 * s * 128.0 * (1536.0 * 192.0 + 512.0 * 256.0));
    near(more(&[Module::SharedExperts]), 3.0 * 2.0 * s * 3.0 * 7168.0 * 2048.0);
    near(more(&[Module::Moe]), 3.0 * 2.0 * s * 9.0 * 3.0 * 7168.0 * 2048.0);
    near(more(&[Module::Mlp]), 2.0 * s * 3.0 * 7168.0 * 18_432.0);
    assert_eq!(more(&[Module::MoeAct]), 0.0);
}

#[test]
fn a_recomputed_block_gathers_again() {
    let model = Model { layers: 2, ..gpt3() };
    let tensor = |job: Job| {
        let costs = Counting { network: 1.0, ..Counting::default() };
        estimate(&model, &job, SERVERS, &PLAIN, &costs).stage.tensor
    };
    let job = |job: Job| Job { tensor: 8, sequence_parallel: true, ..job };
    // An all-gather and a reduce-scatter of each of the two layers, beside eight of each layer and four of the ends.
    let plain = tensor(job(single(2048)));
    assert_eq!(tensor(job(selective(&[Module::Mlp]))), plain * 24.0 / 20.0);
    assert_eq!(tensor(job(selective(&[Module::Layernorm]))), plain);
}

#[test]
fn recomputation_whose_keys_do_not_fit_together_is_refused() {
    let keys = |job: Job| -> Vec<(String, String)> {
        let found = check(&gpt3(), &job);
        found.into_iter().map(|each| (each.key.unwrap_or_default(), each.help.unwrap_or_default())).collect()
    };
    let said = |key: &str, help: &str| vec![(key.to_owned(), help.to_owned())];
    let block = Some(RecomputeMethod::Block);
    assert_eq!(
        keys(Job { recompute_method: block, ..single(2048) }),
        said("recompute_method", "write recompute: full")
    );
    let full = Job { recompute: Recompute::Full, ..single(2048) };
    assert_eq!(
        keys(Job { recompute_layers: 2, ..full.clone() }),
        said("recompute_layers", "write recompute_method: block")
    );
    let many = Job { recompute_method: block, recompute_layers: 25, pipeline: 4, ..full.clone() };
    assert_eq!(keys(many), said("recompute_layers", "write recompute_layers: 24"));
    let modules = Job { recompute_modules: vec![Module::Mlp].into(), ..full };
    assert_eq!(keys(modules), said("recompute_modules", "write recompute: selective"));
    assert_eq!(
        keys(selective(&[Module::MoeAct])),
        said("recompute_modules", "leave moe_act out of recompute_modules")
    );
}
