"""Architectures from Hugging Face's configurations have the parameters that were published."""

from __future__ import annotations

import pytest

from syncline.models.errors import ModelError
from syncline.models.hugging_face.architecture import architecture

DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "num_nextn_predict_layers": 1,
}
QWEN3_30B = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "sliding_window": None,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "vocab_size": 201088,
}


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        (DEEPSEEK_V3, 671e9, 37e9),
        (QWEN3_30B, 30.5e9, 3.3e9),
        (MIXTRAL, 46.7e9, 12.9e9),
        (GPT_OSS, 116.8e9, 5.1e9),
    ],
    ids=["deepseek-v3", "qwen3-30b", "mixtral", "gpt-oss"],
)
def test_models_have_the_published_parameters(config, total, active):
    found = architecture(config, "a model")
    assert found.weights() == pytest.approx(total, rel=0.01)
    # Those of a token: some publications count the embedding, and some do not.
    table = found.vocab * found.hidden
    assert found.multiplied() * 0.97 < active < (found.multiplied() + table) * 1.03


def test_windows_are_read_only_where_they_are_used():
    assert architecture(GPT_OSS, "m").window.model_dump() == {"tokens": 128, "full_every": 2}
    assert architecture(MIXTRAL, "m").window is None
    assert architecture({**QWEN3_30B, "sliding_window": 4096, "use_sliding_window": False}, "m").window is None


def test_only_experts_of_gpt_oss_have_biases():
    assert architecture(GPT_OSS, "m").biased_experts
    assert not any(architecture(config, "m").biased_experts for config in (MIXTRAL, QWEN3_30B, DEEPSEEK_V3))


def test_yarn_is_read_in_both_forms():
    scaled = {"rope_type": "yarn", "factor": 4.0}
    assert architecture(GPT_OSS, "m").rope_scaling == "yarn"
    assert architecture({**GPT_OSS, "rope_scaling": None}, "m").rope_scaling == "none"
    assert architecture(QWEN3_30B, "m").rope_scaling == "none"
    for key, value in (
        ("rope_scaling", scaled),
        ("rope_parameters", scaled),
        ("rope_scaling", {"type": "yarn", "factor": 40}),
        ("rope_parameters", {"sliding_attention": {"rope_type": "default"}, "full_attention": scaled}),
    ):
        assert architecture({**QWEN3_30B, key: value}, "m").rope_scaling == "yarn"
    # Angles of another length take no time.
    assert architecture({**QWEN3_30B, "rope_scaling": {"rope_type": "llama3"}}, "m").rope_scaling == "none"
    with pytest.raises(ModelError, match="rope_scaling"):
        architecture({**QWEN3_30B, "rope_scaling": "yarn"}, "m")


def test_the_text_part_of_a_model_counts():
    assert architecture({"model_type": "gemma3", "text_config": QWEN3_30B}, "m").layers == 48


def test_a_missing_key_is_named():
    with pytest.raises(ModelError) as found:
        architecture({name: value for name, value in MIXTRAL.items() if name != "vocab_size"}, "m")
    assert found.value.key == "vocab_size"


def test_sizes_that_do_not_fit_together_are_named():
    with pytest.raises(ModelError, match="num_key_value_heads") as found:
        architecture({**QWEN3_30B, "num_key_value_heads": 5}, "m")
    assert found.value.key == "num_key_value_heads"


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("first_k_dense_replace", "x", "from 0 to 1000"),
        ("first_k_dense_replace", float("inf"), "from 0 to 1000"),
        ("num_nextn_predict_layers", 99_999_999_999, "from 0 to 1000"),
        ("num_nextn_predict_layers", True, "from 0 to 1000"),
        ("n_shared_experts", -1, "from 0 to 65536"),
        ("num_experts_per_tok", 257, "from 1 to 256"),
        ("q_lora_rank", "x", "from 0 to"),
    ],
)
def test_a_size_that_no_model_has_is_named_with_what_is_allowed(key, value, allowed):
    with pytest.raises(ModelError) as found:
        architecture({**DEEPSEEK_V3, key: value}, "m")
    assert found.value.key == key and allowed in found.value.allowed


def test_layers_with_experts_are_those_whose_number_is_a_multiple():
    """As the core counts them: of layers 1 to 6, the first of which is dense, numbers 2, 4 and 6 have experts."""
    model = architecture({**QWEN3_30B, "num_hidden_layers": 6, "decoder_sparse_step": 2}, "m")
    assert model.with_experts() == 3
    first_dense = model.model_copy(update={"experts": model.experts.model_copy(update={"dense_layers": 1})})
    assert first_dense.with_experts() == 3
    assert first_dense.with_experts(3) == 1
