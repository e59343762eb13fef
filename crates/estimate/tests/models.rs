//! Parameters of models that were published.

use crate::{gpt3, routed};
use syncline_estimate::{Attention, Experts, Latent, Model};

/// A Llama 3.
fn llama(hidden: u64, layers: u32, heads: u64, ffn: u64) -> Model {
    crate::llama(hidden, layers, heads, 8, ffn, 128_256)
}

fn mixtral() -> Model {
    let experts = routed(8, 2, 14_336);
    Model { vocab: 32_000, experts: Some(experts), ..llama(4096, 32, 32, 14_336) }
}

fn deepseek_v3() -> Model {
    let latent = Latent { query_rank: 1536, kv_rank: 512, nope_dim: 128, rope_dim: 64, value_dim: 128 };
    let experts = Experts { shared_ffn: 2048, dense_layers: 3, ..routed(256, 8, 2048) };
    Model {
        hidden: 7168,
        layers: 61,
        heads: 128,
        kv_heads: 128,
        head_dim: 192,
        ffn: 18_432,
        vocab: 129_280,
        attention: Attention::Latent(latent),
        experts: Some(experts),
        ..llama(7168, 61, 128, 18_432)
    }
}

#[test]
fn models_have_the_published_number_of_parameters() {
    for (name, model, published) in [
        ("GPT-3", gpt3(), 174.6e9),
        ("Llama 3 8B", llama(4096, 32, 32, 14_336), 8.03e9),
        ("Llama 3 70B", llama(8192, 80, 64, 28_672), 70.6e9),
        ("Llama 3.1 405B", llama(16_384, 126, 128, 53_248), 405.9e9),
        ("Mixtral 8x7B", mixtral(), 46.7e9),
        ("DeepSeek-V3", deepseek_v3(), 671e9),
    ] {
        let found = model.parameters() as f64;
        assert!((found / published - 1.0).abs() < 0.003, "{name}: {found:e} for {published:e}");
    }
}

#[test]
fn experts_begin_after_the_dense_layers() {
    let model = deepseek_v3();
    assert_eq!((0..61).filter(|&layer| model.has_experts(layer)).count(), 58);
    assert!(!model.has_experts(2) && model.has_experts(3));
    let alternating = Experts { every: 2, dense_layers: 0, ..model.experts.unwrap() };
    let model = Model { experts: Some(alternating), ..model };
    assert_eq!((0..4).map(|layer| model.has_experts(layer)).collect::<Vec<_>>(), [false, true, false, true]);
}

#[test]
fn every_second_layer_attends_to_all_tokens() {
    let window = Attention::Window { tokens: 128, full_every: 2 };
    let model = Model { attention: window, ..gpt3() };
    assert_eq!(
        (0..4).map(|layer| model.window(layer)).collect::<Vec<_>>(),
        [Some(128), None, Some(128), None]
    );
}
