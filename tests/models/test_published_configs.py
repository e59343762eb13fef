"""Configurations as they are published load with their number of parameters, and no key is passed over in silence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from syncline.models.errors import ModelError
from syncline.models.hugging_face.architecture import architecture


@dataclass
class Published:
    """A model, the sizes in its file, and its number of parameters."""

    kind: str
    parameters: float
    keys: dict


def sized(kind, parameters, hidden, layers, heads, kv_heads, ffn, vocab, **more):
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    sizes = dict(zip((*names, "vocab_size"), (hidden, layers, heads, kv_heads, ffn, vocab), strict=True))
    given = {name: value for name, value in {**sizes, **COMMON, **more}.items() if value != "absent"}
    return Published(kind, parameters, {"model_type": kind, **given})


COMMON = {
    "architectures": ["LlamaForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.42.3",
    "use_cache": True,
}
QWEN = {"max_window_layers": 70, "sliding_window": 131072, "use_sliding_window": False, "tie_word_embeddings": False}
LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
DEEPSEEK = {
    **LATENT,
    "aux_loss_alpha": 0.001,
    "ep_size": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "norm_topk_prob": False,
    "num_experts_per_tok": 6,
    "routed_scaling_factor": 1.0,
    "scoring_func": "softmax",
    "seq_aux": True,
    "pretraining_tp": 1,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV2Config"},
    "attention_bias": False,
    "tie_word_embeddings": False,
}
V3 = {**DEEPSEEK, "num_experts_per_tok": 8, "q_lora_rank": 1536, "moe_intermediate_size": 2048, "n_shared_experts": 1}
GLM = {
    "attention_bias": True,
    "first_k_dense_replace": 1,
    "head_dim": 128,
    "n_group": 1,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 8,
    "num_nextn_predict_layers": 1,
    "partial_rotary_factor": 0.5,
    "routed_scaling_factor": 1.0,
    "tie_word_embeddings": False,
    "topk_group": 1,
}
QUANTISED = {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3", "activation_scheme": "dynamic"}
GEMMA = {"attention_bias": False, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256}
SOFTCAP = {
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "cache_implementation": "hybrid",
    "sliding_window_size": 4096,
}
GPT_OSS = {
    "attention_bias": True,
    "experts_per_token": 4,
    "head_dim": 64,
    "initial_context_length": 4096,
    "num_experts_per_tok": 4,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.9,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
    "tie_word_embeddings": False,
}
LLAMA_4 = {
    "head_dim": 128,
    "intermediate_size_mlp": 16384,
    "num_experts_per_tok": 1,
    "attention_chunk_size": 8192,
    "attention_bias": False,
    "attn_scale": 0.1,
    "attn_temperature_tuning": 4,
    "floor_scale": 8192,
    "no_rope_layers": [],
    "for_llm_class": "absent",
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
    "router_jitter_noise": 0.0,
    "use_qk_norm": True,
    "tie_word_embeddings": False,
}


def gpt_oss_layers(layers):
    return ["sliding_attention", "full_attention"] * (layers // 2)


MODELS = {
    # Numbers of parameters: those of the checkpoints, as their pages at Hugging Face or their papers print them.
    "llama-2-7b": sized("llama", 6.738e9, 4096, 32, 32, 32, 11008, 32000, pretraining_tp=1),
    "llama-2-70b": sized("llama", 68.977e9, 8192, 80, 64, 8, 28672, 32000),
    "llama-3-8b": sized("llama", 8.030e9, 4096, 32, 32, 8, 14336, 128256, attention_bias=False, mlp_bias=False),
    "llama-3-70b": sized("llama", 70.554e9, 8192, 80, 64, 8, 28672, 128256),
    "llama-3-405b": sized("llama", 405.85e9, 16384, 126, 128, 8, 53248, 128256),
    "llama-3.2-1b": sized("llama", 1.2358e9, 2048, 16, 32, 8, 8192, 128256, head_dim=64, tie_word_embeddings=True),
    "llama-3.2-3b": sized("llama", 3.2127e9, 3072, 28, 24, 8, 8192, 128256, head_dim=128, tie_word_embeddings=True),
    "llama-4-scout": sized(
        "llama4_text",
        107.77e9,
        5120,
        48,
        40,
        8,
        8192,
        202048,
        **LLAMA_4,
        num_local_experts=16,
        interleave_moe_layer_step=1,
    ),
    "llama-4-maverick": sized(
        "llama4_text",
        400.71e9,
        5120,
        48,
        40,
        8,
        8192,
        202048,
        **LLAMA_4,
        num_local_experts=128,
        interleave_moe_layer_step=2,
    ),
    "mistral-7b": sized("mistral", 7.2417e9, 4096, 32, 32, 8, 14336, 32000, sliding_window=4096),
    "mistral-nemo": sized("mistral", 12.248e9, 5120, 40, 32, 8, 14336, 131072, head_dim=128, sliding_window=None),
    "mistral-large-2": sized("mistral", 122.61e9, 12288, 88, 96, 8, 28672, 32768, sliding_window=None),
    "mixtral-8x7b": sized("mixtral", 46.703e9, 4096, 32, 32, 8, 14336, 32000, num_local_experts=8, sliding_window=None),
    "mixtral-8x22b": sized(
        "mixtral", 140.62e9, 6144, 56, 48, 8, 16384, 32000, num_local_experts=8, num_experts_per_tok=2
    ),
    "qwen2-0.5b": sized("qwen2", 0.49403e9, 896, 24, 14, 2, 4864, 151936, **{**QWEN, "tie_word_embeddings": True}),
    "qwen2-7b": sized("qwen2", 7.6156e9, 3584, 28, 28, 4, 18944, 152064, **QWEN),
    "qwen2.5-72b": sized("qwen2", 72.706e9, 8192, 80, 64, 8, 29568, 152064, **QWEN),
    "qwen1.5-moe": sized(
        "qwen2_moe",
        14.316e9,
        *(2048, 24, 16, 16, 5632, 151936),
        **QWEN,
        moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632,
        num_experts=60,
        num_experts_per_tok=4,
        decoder_sparse_step=1,
    ),
    "qwen2-57b": sized(
        "qwen2_moe",
        57.41e9,
        *(3584, 28, 28, 4, 18944, 151936),
        **QWEN,
        moe_intermediate_size=2560,
        shared_expert_intermediate_size=20480,
        num_experts=64,
        num_experts_per_tok=8,
    ),
    "qwen3-0.6b": sized(
        "qwen3", 0.59605e9, 1024, 28, 16, 8, 3072, 151936, **{**QWEN, "tie_word_embeddings": True}, head_dim=128
    ),
    "qwen3-32b": sized("qwen3", 32.762e9, 5120, 64, 64, 8, 25600, 151936, **QWEN, head_dim=128),
    "qwen3-30b": sized(
        "qwen3_moe",
        30.532e9,
        *(2048, 48, 32, 4, 6144, 151936),
        **QWEN,
        head_dim=128,
        moe_intermediate_size=768,
        num_experts=128,
        num_experts_per_tok=8,
        mlp_only_layers=[],
        decoder_sparse_step=1,
    ),
    "qwen3-235b": sized(
        "qwen3_moe",
        235.09e9,
        *(4096, 94, 64, 4, 12288, 151936),
        **QWEN,
        head_dim=128,
        moe_intermediate_size=1536,
        num_experts=128,
        num_experts_per_tok=8,
    ),
    "deepseek-v2": sized(
        "deepseek_v2",
        235.74e9,
        *(5120, 60, 128, 128, 12288, 102400),
        **DEEPSEEK,
        q_lora_rank=1536,
        moe_intermediate_size=1536,
        n_routed_experts=160,
        n_shared_experts=2,
        topk_method="greedy",
    ),
    "deepseek-v2-lite": sized(
        "deepseek_v2",
        15.706e9,
        *(2048, 27, 16, 16, 10944, 102400),
        **DEEPSEEK,
        q_lora_rank=None,
        moe_intermediate_size=1408,
        n_routed_experts=64,
        n_shared_experts=2,
    ),
    "deepseek-v3": sized(
        "deepseek_v3",
        671.03e9,
        *(7168, 61, 128, 128, 18432, 129280),
        **{**V3, "first_k_dense_replace": 3},
        n_routed_experts=256,
        num_nextn_predict_layers=1,
        quantization_config=QUANTISED,
        topk_method="noaux_tc",
    ),
    "kimi-k2": sized(
        "kimi_k2", 1026.4e9, 7168, 61, 64, 64, 18432, 163840, **V3, n_routed_experts=384, num_nextn_predict_layers=0
    ),
    "glm-4.5": sized(
        "glm4_moe",
        355e9,
        *(5120, 92, 96, 8, 12288, 151552),
        **{**GLM, "first_k_dense_replace": 3, "routed_scaling_factor": 2.5},
        moe_intermediate_size=1536,
        n_routed_experts=160,
        use_qk_norm=True,
    ),
    "glm-4.5-air": sized(
        "glm4_moe",
        106.85e9,
        *(4096, 46, 96, 8, 10944, 151552),
        **GLM,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        use_qk_norm=False,
    ),
    "minimax-m2": sized(
        "minimax_m2",
        228.7e9,
        *(3072, 62, 48, 8, 1536, 200064),
        head_dim=128,
        attn_type_list=[1] * 62,
        num_local_experts=256,
        num_experts_per_tok=8,
        shared_intermediate_size=0,
        mlp_intermediate_size=8192,
        use_qk_norm=True,
        qk_norm_type="per_layer",
        scoring_func="sigmoid",
        use_routing_bias=True,
        use_mtp=True,
        num_mtp_modules=3,
        mtp_transformer_layers=1,
        tie_word_embeddings=False,
    ),
    "smollm3-3b": sized("smollm3", 3.075e9, 2048, 36, 16, 4, 11008, 128256, no_rope_layer_interval=4),
    "seed-oss-36b": sized("seed_oss", 36.151e9, 5120, 64, 80, 8, 27648, 155136, tie_word_embeddings=False),
    "olmo-3-7b": sized("olmo3", 7.298e9, 4096, 32, 32, "absent", 11008, 100278, sliding_window=4096),
    "gemma-7b": sized("gemma", 8.5377e9, 3072, 28, 16, 16, 24576, 256000, head_dim=256),
    "gemma-2-9b": sized("gemma2", 9.2417e9, 3584, 42, 16, 8, 14336, 256000, **GEMMA, **SOFTCAP, head_dim=256),
    "gemma-2-27b": sized(
        "gemma2",
        27.227e9,
        4608,
        46,
        32,
        16,
        36864,
        256000,
        **GEMMA,
        head_dim=128,
        sliding_window_size=4096,
        sliding_window=4096,
    ),
    "gemma-3-1b": sized(
        "gemma3_text",
        0.99989e9,
        1152,
        26,
        4,
        1,
        6912,
        262144,
        **GEMMA,
        head_dim=256,
        sliding_window=512,
        sliding_window_pattern=6,
    ),
    "gpt-oss-20b": sized(
        "gpt_oss",
        20.91e9,
        2880,
        24,
        64,
        8,
        2880,
        201088,
        **GPT_OSS,
        num_local_experts=32,
        layer_types=gpt_oss_layers(24),
    ),
    "gpt-oss-120b": sized(
        "gpt_oss",
        116.83e9,
        2880,
        36,
        64,
        8,
        2880,
        201088,
        **GPT_OSS,
        num_local_experts=128,
        layer_types=gpt_oss_layers(36),
    ),
    "nemotron-4-340b": sized(
        "nemotron", 341e9, 18432, 96, 96, 8, 73728, 256000, hidden_act="relu2", partial_rotary_factor=0.5
    ),
    "nemotron-4-15b": sized("nemotron", 15.6e9, 6144, 32, 48, 8, 24576, 256000, hidden_act="relu2", norm_eps=1e-5),
    "phi-3-mini": sized("phi3", 3.8211e9, 3072, 32, 32, 32, 8192, 32064, sliding_window=2047),
    "olmo-2-7b": sized("olmo2", 7.2986e9, 4096, 32, 32, 32, 11008, 100352),
}
EXPECTED_NOTES = {
    "llama-4-scout": "Attention in chunks counts as a window of their size.",
    "llama-4-maverick": "Attention in chunks counts as a window of their size.",
    "minimax-m2": "Layers for multi-token prediction do not count.",
}
CAPPED_NOTE = "Kernels that cap scores (`attn_logit_softcapping`) were not measured: attention counts without."
QUANTISED_NOTE = "`quantization_config` describes the checkpoint: training computes in the precision that is asked for."


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_has_its_parameters(name):
    model = MODELS[name]
    assert architecture(model.keys, name).weights() == pytest.approx(model.parameters, rel=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_each_key_of_a_published_file_is_used_or_known(name):
    expected = EXPECTED_NOTES.get(name)
    if "attn_logit_softcapping" in MODELS[name].keys:
        expected = CAPPED_NOTE
    if "quantization_config" in MODELS[name].keys:
        expected = QUANTISED_NOTE
    assert architecture(MODELS[name].keys, name).note == expected


def test_gemma_3_leaves_out_sizes_that_its_class_has():
    """The text parts of gemma-3-4b (3.88 billion parameters) and gemma-3-27b (27.0 billion)."""
    small = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34}
    found = architecture(
        {
            "model_type": "gemma3",
            "mm_tokens_per_image": 256,
            "text_config": {**small, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
            "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
        },
        "gemma-3-4b",
    )
    assert found.weights() == pytest.approx(3.88e9, rel=0.01)
    assert found.window.model_dump() == {"tokens": 1024, "full_every": 6}
    assert found.note == "Only the language model counts, without `vision_config`."
    large = {**small, "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62}
    heads = {"head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 16}
    assert architecture({**large, **heads}, "gemma-3-27b").weights() == pytest.approx(27.0e9, rel=0.01)


def llama(**changes):
    return architecture({**MODELS["llama-3-8b"].keys, **changes}, "m")


def test_a_misspelt_key_is_named_with_the_nearest():
    found = llama(num_key_value_head=8, num_key_value_heads=None)
    assert found.note == "Unknown keys do not count: `num_key_value_head` (nearest: `num_key_value_heads`)."


def test_unknown_keys_are_counted_where_there_are_many():
    found = llama(**{f"zzqq{number}": "x" for number in range(1000)}, **{"y" * 5000: 1})
    assert found.note.endswith(" and 993 more.") and len(found.note) < 400


def test_switched_off_keys_are_not_named():
    assert llama(mtp_head=False, other=None, lists=[], count=0).note is None


def test_dropout_is_named():
    assert llama(attention_dropout=0.1).note == "Dropout does not count."
    gpt = {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "vocab_size": 50257}
    assert architecture({**gpt, "resid_pdrop": 0.1}, "gpt2-xl").note is None
    assert "although its rates are 0" in architecture(gpt, "gpt2-xl").note


def test_groups_of_experts_are_read():
    found = architecture({**MODELS["deepseek-v3"].keys, "n_group": 8, "topk_group": 4}, "m")
    assert (found.experts.groups, found.experts.top_groups) == (8, 4)
    with pytest.raises(ModelError, match="n_group"):
        architecture({**MODELS["deepseek-v3"].keys, "n_group": 7, "topk_group": 4}, "m")


@pytest.mark.parametrize(
    ("name", "changes", "window"),
    [
        ("mistral-7b", {}, {"tokens": 4096, "full_every": 0}),
        ("mistral-7b", {"sliding_window": "absent"}, {"tokens": 4096, "full_every": 0}),
        ("mistral-7b", {"sliding_window": None}, None),
        ("qwen2-7b", {"use_sliding_window": True, "max_window_layers": 0}, {"tokens": 131072, "full_every": 0}),
        ("qwen2-7b", {"use_sliding_window": True, "max_window_layers": 28}, None),
        ("gpt-oss-20b", {"layer_types": ["full_attention"] * 24}, None),
        ("gpt-oss-20b", {"layer_types": ["sliding_attention"] * 24}, {"tokens": 128, "full_every": 0}),
        ("llama-4-scout", {}, {"tokens": 8192, "full_every": 4}),
        ("gemma-3-1b", {"sliding_window_pattern": 2}, {"tokens": 512, "full_every": 2}),
    ],
)
def test_windows_are_those_of_the_library(name, changes, window):
    keys = {key: value for key, value in {**MODELS[name].keys, **changes}.items() if value != "absent"}
    found = architecture(keys, name).window
    assert (found and found.model_dump()) == window


@pytest.mark.parametrize(
    ("name", "changes", "key"),
    [
        ("qwen2-7b", {"use_sliding_window": True, "max_window_layers": 14}, "max_window_layers"),
        ("gpt-oss-20b", {"layer_types": ["full_attention"] * 23}, "layer_types"),
        ("gpt-oss-20b", {"layer_types": [["x"]] * 24}, "layer_types"),
        ("gpt-oss-20b", {"layer_types": ["full_attention", *["sliding_attention"] * 23]}, "layer_types"),
        ("qwen3-30b", {"mlp_only_layers": [3]}, "mlp_only_layers"),
        ("qwen3-30b", {"mlp_only_layers": "0"}, "mlp_only_layers"),
        ("deepseek-v3", {"moe_layer_freq": 2}, "moe_layer_freq"),
        ("llama-4-scout", {"moe_layers": [1, 3]}, "moe_layers"),
        ("deepseek-v2", {"num_experts_per_tok": None}, "num_experts_per_tok"),
        ("llama-3-8b", {"head_dim": 0}, "head_dim"),
        ("llama-3-8b", {"head_dim": "128"}, "head_dim"),
        ("llama-3-8b", {"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ("qwen2-7b", {"num_key_value_heads": "absent"}, "num_key_value_heads"),
        ("llama-3-8b", {"model_type": "nemotron_h"}, "model_type"),
        ("llama-3-8b", {"model_type": ["llama"]}, "model_type"),
    ],
)
def test_what_is_not_modelled_is_refused_by_its_key(name, changes, key):
    keys = {each: value for each, value in {**MODELS[name].keys, **changes}.items() if value != "absent"}
    with pytest.raises(ModelError) as found:
        architecture(keys, name)
    assert found.value.key == key


def test_dense_layers_at_the_beginning_are_counted():
    found = architecture({**MODELS["qwen3-30b"].keys, "mlp_only_layers": [0, 1]}, "m")
    assert found.experts.dense_layers == 2


def test_layers_of_olmo_3_attend_within_a_window_but_each_fourth():
    found = architecture(MODELS["olmo-3-7b"].keys, "olmo-3-7b")
    assert found.window is not None
    assert (found.window.tokens, found.window.full_every) == (4096, 4)


@pytest.mark.parametrize(
    ("key", "value"), [("attn_type_list", [0] + 61 * [1]), ("attn_type_list", 1), ("shared_intermediate_size", 512)]
)
def test_what_minimax_m2_lacks_is_refused(key, value):
    with pytest.raises(ModelError) as raised:
        architecture({**MODELS["minimax-m2"].keys, key: value}, "minimax-m2")
    assert raised.value.key == key


@pytest.mark.parametrize(
    ("kind", "why"), [("deepseek_v32", "an index selects"), ("glm_moe_dsa", "an index selects"), ("qwen3_5", "linear")]
)
def test_attention_that_is_not_modelled_is_named(kind, why):
    with pytest.raises(ModelError, match=why):
        architecture({"model_type": kind}, kind)
