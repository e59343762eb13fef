//! Adapters of low rank, by hand.

use crate::{Counting, PLAIN, SERVERS, gpt3, routed, single};
use syncline_estimate::activations::activations;
use syncline_estimate::{
    Adapted, Collective, ExpertAdapters, Job, MemorySoftware, Model, Precision, Step, estimate, memory,
};

fn job(adapters: Option<u32>, adapted: Adapted) -> Job {
    Job { adapters, adapted, ..single(2048) }
}

fn step(job: &Job) -> Step {
    // No vocabulary to speak of, so that layers are all.
    estimate(&Model { vocab: 1, ..gpt3() }, job, SERVERS, &PLAIN, &Counting::default())
}

#[test]
fn adapters_multiply_three_times_as_training_does() {
    // A layer's products have 3 h and h outputs of h inputs in attention, 4 h of h and h of 4 h in the block: adapters of rank r
    // have r (inputs + outputs) weights, 11 h r of which are outside the block: 4 h r + 2 h r; the block's are 5 h r twice.
    let (s, h, l, r) = (2048.0, 12_288.0, 96.0, 16.0);
    let frozen = 4.0 * s * 12.0 * h * h * l;
    let all = [(Adapted::Qkv, 4.0), (Adapted::Attention, 6.0), (Adapted::All, 16.0)];
    for (adapted, weights) in all.map(|(adapted, times)| (adapted, times * h * r)) {
        let found = step(&job(Some(16), adapted)).stage.products;
        // Frozen products have no gradients of weights; adapters have all three passes.
        let expected = frozen + 3.0 * 2.0 * s * weights * l;
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} is not {expected}");
    }
}

#[test]
fn what_adapters_add_is_read_and_written() {
    let costs = Counting { memory: 1.0, ..Counting::default() };
    let model = Model { vocab: 1, ..gpt3() };
    let moved = |job: &Job| estimate(&model, job, SERVERS, &PLAIN, &costs).stage.element_wise;
    // Outputs forward and inputs backward, 6 bytes each: 4 h and 2 h in attention, 5 h and 5 h in the block.
    let (s, h, l) = (2048.0, 12_288.0, 96.0);
    let block = moved(&job(Some(16), Adapted::All)) - moved(&job(Some(16), Adapted::Attention));
    assert!((block / (6.0 * s * 10.0 * h * l) - 1.0).abs() < 1e-9);
    // More rank moves no more.
    assert_eq!(moved(&job(Some(16), Adapted::All)), moved(&job(Some(64), Adapted::All)));
}

#[test]
fn adapters_of_attention_alone_have_fewer_states() {
    let software = MemorySoftware::MEGATRON;
    let states = |adapted| memory(&gpt3(), &job(Some(16), adapted), &software).optimizer as f64;
    let (h, l) = (12_288.0, 96.0);
    assert_eq!(states(Adapted::Attention), 12.0 * 16.0 * 6.0 * h * l);
    assert_eq!(states(Adapted::All), 12.0 * 16.0 * 16.0 * h * l);
}

/// Four layers of eight experts, two of which a token goes to.
fn experts() -> Model {
    let experts = routed(8, 2, 1024);
    Model { hidden: 512, layers: 4, gated: true, vocab: 1, experts: Some(experts), ..gpt3() }
}

/// Weights of adapters of rank 16 beside both products of an expert: inputs and outputs of each.
const OF_EXPERT: f64 = 16.0 * ((512.0 + 2048.0) + (1024.0 + 512.0));

fn beside_experts(expert_adapters: ExpertAdapters) -> Job {
    Job { expert_adapters, ..job(Some(16), Adapted::All) }
}

#[test]
fn adapters_of_experts_multiply_each_copy_of_a_token() {
    let costs = Counting { memory: 1.0, ..Counting::default() };
    let stage = |adapters| estimate(&experts(), &beside_experts(adapters), SERVERS, &PLAIN, &costs).stage;
    let none = stage(ExpertAdapters::None);
    for adapters in [ExpertAdapters::Shared, ExpertAdapters::Each] {
        let found = stage(adapters);
        let copies = 2.0 * 2048.0 * 4.0;
        let products = 3.0 * 2.0 * copies * OF_EXPERT;
        assert!(((found.products - none.products) / products - 1.0).abs() < 1e-9, "{adapters:?}");
        // Outputs forward and inputs backward.
        let moved = 6.0 * copies * (2048.0 + 512.0 + 512.0 + 1024.0);
        assert!(((found.element_wise - none.element_wise) / moved - 1.0).abs() < 1e-9, "{adapters:?}");
    }
}

/// A frozen product keeps no input: what only those of the feed-forward block read are the output of the norm before it, `2 h`
/// bytes, and the outputs of the activation, `2 x 4 h`. Attention keeps its outputs for itself.
#[test]
fn inputs_of_frozen_products_without_an_adapter_are_not_kept() {
    let kept = |job: &Job| activations(&gpt3(), job, &MemorySoftware::MEGATRON, 0).kept;
    let (s, h) = (2048.0, 12_288.0);
    let of = |adapted| kept(&job(Some(16), adapted));
    assert_eq!(of(Adapted::All), kept(&job(None, Adapted::All)));
    assert_eq!(of(Adapted::All) - of(Adapted::Attention), 10.0 * s * h);
    assert_eq!(of(Adapted::Attention), of(Adapted::Qkv));
    // Adapters multiply in 16 bits, and keep their inputs so, whatever the type of frozen products.
    for adapted in [Adapted::All, Adapted::Attention, Adapted::Qkv] {
        assert_eq!(kept(&Job { precision: Precision::Fp8, ..job(Some(16), adapted) }), of(adapted));
    }
    // Experts read copies of tokens, and outputs of their activations.
    let of = |adapters| activations(&experts(), &beside_experts(adapters), &MemorySoftware::MEGATRON, 0).kept;
    let Some(sizes) = experts().experts else { panic!("a model with experts") };
    let (copies, h) = ((sizes.top_k * 2048) as f64, experts().hidden as f64);
    let inputs = copies * 2.0 * (h + sizes.ffn as f64);
    assert_eq!(of(ExpertAdapters::Shared) - of(ExpertAdapters::None), inputs);
}

/// Shared ones are the same on all ranks; others belong to the experts of a rank, whose copies alone divide their states.
#[test]
fn experts_share_adapters_or_have_their_own() {
    let states = |expert, adapters| {
        let job = Job { expert, data: 16, shard_group: 16, zero: 1, ..beside_experts(adapters) };
        let found = memory(&experts(), &job, &MemorySoftware::MEGATRON);
        (found.gradients as f64 / 4.0, found.optimizer as f64 / 12.0)
    };
    let (gradients, optimizer) = states(1, ExpertAdapters::None);
    let more = |expert, adapters| {
        let found = states(expert, adapters);
        (found.0 - gradients, found.1 - optimizer)
    };
    let layers = 4.0 * OF_EXPERT;
    assert_eq!(more(1, ExpertAdapters::Shared), (layers, layers / 16.0));
    assert_eq!(more(8, ExpertAdapters::Shared), (layers, layers / 16.0));
    assert_eq!(more(1, ExpertAdapters::Each), (8.0 * layers, 8.0 * layers / 16.0));
    assert_eq!(more(8, ExpertAdapters::Each), (layers, layers / 2.0));
    // Gradients of two copies, or of all ranks.
    let reduced = |adapters| {
        let job = Job { expert: 8, data: 16, shard_group: 16, zero: 1, ..beside_experts(adapters) };
        let costs = Counting { network: 1.0, ..Counting::default() };
        estimate(&experts(), &job, SERVERS, &PLAIN, &costs);
        let calls = costs.calls.borrow();
        let chosen = calls.iter().filter(|call| call.0 == Collective::ReduceScatter);
        chosen.map(|call| (call.1 / 4.0, call.2.ranks())).collect::<Vec<_>>()
    };
    assert_eq!(reduced(ExpertAdapters::Shared), [(gradients + layers, 16)]);
    assert_eq!(reduced(ExpertAdapters::Each), [(gradients, 16), (layers, 2)]);
}

#[test]
fn adapters_of_experts_need_experts() {
    let refused = |model: &Model, job: &Job| {
        let found = syncline_estimate::check::check(model, job);
        found.first().and_then(|each| each.help.clone()).unwrap_or_default()
    };
    let shared = beside_experts(ExpertAdapters::Shared);
    assert_eq!(refused(&experts(), &shared), "");
    assert_eq!(refused(&experts(), &Job { adapters: None, ..shared.clone() }), "write lora: 16");
    assert_eq!(refused(&gpt3(), &shared), "leave out lora_experts");
    let attention = Job { adapted: Adapted::Attention, ..shared };
    assert_eq!(refused(&experts(), &attention), "write lora_targets: all");
}
