"""Hugging Face's ``config.json``: published counts of parameters, and what is refused."""

import pytest

from syncline.models import ModelError, from_config
from syncline.models.hugging_face import FAMILIES, model


def config(kind, *, d, n, heads, v, p, **more):
    """A configuration with the keys that most kinds share."""
    return {
        "model_type": kind,
        "hidden_size": d,
        "num_hidden_layers": n,
        "num_attention_heads": heads,
        "vocab_size": v,
        "max_position_embeddings": p,
        **more,
    }


def gpt(kind, *, d, n, heads, v, p, **more):
    """The same with the names of GPT-2."""
    return {"model_type": kind, "n_embd": d, "n_layer": n, "n_head": heads, "vocab_size": v, "n_positions": p, **more}


LLAMA = config("llama", d=4096, n=32, heads=32, v=32_000, p=4096, intermediate_size=11_008, tie_word_embeddings=False)

PUBLISHED = {
    # Radford et al. 2019; the checkpoint's count.
    "GPT-2": (gpt("gpt2", d=768, n=12, heads=12, v=50_257, p=1024), 124_439_808),
    "GPT-2 XL": (gpt("gpt2", d=1600, n=48, heads=25, v=50_257, p=1024, n_inner=None), 1_557_611_200),
    # Model card of EleutherAI/gpt-neox-20b.
    "GPT-NeoX-20B": (
        config("gpt_neox", d=6144, n=44, heads=64, v=50_432, p=2048, intermediate_size=24_576),
        20_554_567_680,
    ),
    # Model card of EleutherAI/pythia-6.9b: 6,444,163,072 without the two tables.
    "Pythia-6.9B": (
        config("gpt_neox", d=4096, n=32, heads=32, v=50_432, p=2048, intermediate_size=16_384),
        6_444_163_072 + 2 * 50_432 * 4096,
    ),
    # The checkpoint's count.
    "GPT-J-6B": (gpt("gptj", d=4096, n=28, heads=16, v=50_400, p=2048, tie_word_embeddings=False), 6_050_882_784),
    # Zhang et al. 2022, Table 1 rounds; counts of the checkpoints.
    "OPT-125M": (config("opt", d=768, n=12, heads=12, v=50_272, p=2048, ffn_dim=3072), 125_239_296),
    "OPT-6.7B": (config("opt", d=4096, n=32, heads=32, v=50_272, p=2048, ffn_dim=16_384), 6_658_473_984),
    # Half of total_size in model.safetensors.index.json, whose elements have two bytes, from here on.
    "Llama-2-7B": (LLAMA, 6_738_415_616),
    "Llama-2-13B": (
        config("llama", d=5120, n=40, heads=40, v=32_000, p=4096, intermediate_size=13_824),
        13_015_864_320,
    ),
    "Llama-2-70B": (
        config("llama", d=8192, n=80, heads=64, v=32_000, p=4096, intermediate_size=28_672, num_key_value_heads=8),
        68_976_648_192,
    ),
    "Llama-3-8B": (
        config("llama", d=4096, n=32, heads=32, v=128_256, p=8192, intermediate_size=14_336, num_key_value_heads=8),
        8_030_261_248,
    ),
    "Mistral-7B": (
        config("mistral", d=4096, n=32, heads=32, v=32_000, p=32_768, intermediate_size=14_336, num_key_value_heads=8),
        7_241_732_096,
    ),
    "Qwen2-0.5B": (
        config(
            "qwen2",
            d=896,
            n=24,
            heads=14,
            v=151_936,
            p=131_072,
            intermediate_size=4864,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        ),
        494_032_768,
    ),
    "Qwen2-7B": (
        config("qwen2", d=3584, n=28, heads=28, v=152_064, p=131_072, intermediate_size=18_944, num_key_value_heads=4),
        7_615_616_512,
    ),
    "Qwen3-8B": (
        config(
            "qwen3",
            d=4096,
            n=36,
            heads=32,
            v=151_936,
            p=40_960,
            intermediate_size=12_288,
            num_key_value_heads=8,
            head_dim=128,
        ),
        8_190_735_360,
    ),
    "Phi-2": (
        config("phi", d=2560, n=32, heads=32, v=51_200, p=2048, intermediate_size=10_240, resid_pdrop=0.1),
        2_779_683_840,
    ),
    "Phi-3-mini": (config("phi3", d=3072, n=32, heads=32, v=32_064, p=4096, intermediate_size=8192), 3_821_079_552),
    "Gemma-2B": (
        config(
            "gemma",
            d=2048,
            n=18,
            heads=8,
            v=256_000,
            p=8192,
            intermediate_size=16_384,
            num_key_value_heads=1,
            head_dim=256,
        ),
        2_506_172_416,
    ),
    "Gemma-7B": (
        config("gemma", d=3072, n=28, heads=16, v=256_000, p=8192, intermediate_size=24_576, head_dim=256),
        8_537_680_896,
    ),
    "Gemma-2-2B": (
        config(
            "gemma2",
            d=2304,
            n=26,
            heads=8,
            v=256_000,
            p=8192,
            intermediate_size=9216,
            num_key_value_heads=4,
            head_dim=256,
        ),
        2_614_341_888,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts_of_parameters(name):
    description, published = PUBLISHED[name]
    assert sum(layer.parameters for layer in from_config(description, sequence=128)) == published


def test_every_family_is_compared_with_a_published_count():
    assert {description["model_type"] for description, _ in PUBLISHED.values()} == set(FAMILIES)


def test_the_file_gives_defaults_that_a_scenario_may_change():
    built = from_config(LLAMA, layers=2, sequence=64, batch_per_npu=3)
    assert [x.name for x in built if x.name.endswith("qkv")] == ["block1.qkv", "block2.qkv"]
    assert built[0].outputs == 3 * 64 * 4096
    assert from_config(LLAMA, layers=1)[0].outputs == 4096 * 4096


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, "bf16"),
        ({"torch_dtype": None}, "bf16"),
        ({"torch_dtype": "auto"}, "bf16"),
        ({"torch_dtype": "float16"}, "fp16"),
        ({"torch_dtype": "torch.float32"}, "fp32"),
        ({"dtype": "float32", "torch_dtype": "float16"}, "fp32"),
    ],
)
def test_the_type_of_elements_is_that_of_the_file(said, expected):
    assert model({**LLAMA, **said}, "llama").parameters["data_type"].default == expected


def test_one_expert_is_none():
    assert from_config({**LLAMA, "num_local_experts": 1, "num_experts_per_tok": None}, layers=1)


def test_dropout_is_there_where_the_file_says_so():
    def has(**rates):
        built = from_config(gpt("gpt2", d=64, n=1, heads=2, v=100, p=64, **rates))
        return any(op.name == "dropout" for layer in built for op in layer.ops)

    assert (has(), has(attn_pdrop=0.0), has(resid_pdrop=0.1)) == (False, False, True)


def without(key):
    return {name: value for name, value in LLAMA.items() if name != key}


@pytest.mark.parametrize(
    ("description", "key", "said"),
    [
        ({}, "model_type", "missing"),
        (without("model_type"), "model_type", "missing"),
        ({**LLAMA, "model_type": "lama"}, "model_type", "did you mean llama?"),
        ({**LLAMA, "model_type": "mixtral"}, "model_type", "mixture of experts"),
        ({**LLAMA, "num_local_experts": 8}, "num_local_experts", "makes this a mixture of experts"),
        ({**LLAMA, "model_type": "newmoe", "n_routed_experts": 64}, "n_routed_experts", "mixture of experts"),
        ({**LLAMA, "num_experts_per_tok": 2}, "num_experts_per_tok", "mixture of experts"),
        ({**LLAMA, "torch_dtype": "bfloat61"}, "torch_dtype", "did you mean bfloat16?"),
        ({**LLAMA, "torch_dtype": "int4"}, "torch_dtype", "one of float32"),
        ({**LLAMA, "dtype": 16}, "dtype", "one of float32"),
        ({**LLAMA, "model_type": "bert"}, "model_type", "only decoders"),
        ({**LLAMA, "model_type": "mamba"}, "model_type", "without attention"),
        ({**LLAMA, "model_type": 3}, "model_type", "found 3"),
        ({**LLAMA, "model_type": ["llama"]}, "model_type", "found ['llama']"),
        (without("hidden_size"), "hidden_size", "missing"),
        (without("vocab_size"), "vocab_size", "missing"),
        ({**LLAMA, "hidden_size": "4096"}, "hidden_size", "found '4096'"),
        ({**LLAMA, "hidden_size": None}, "hidden_size", "found None"),
        ({**LLAMA, "hidden_size": True}, "hidden_size", "found True"),
        ({**LLAMA, "hidden_size": 4096.0}, "hidden_size", "whole number"),
        ({**LLAMA, "num_hidden_layers": 0}, "num_hidden_layers", "from 1 to 10000"),
        ({**LLAMA, "num_hidden_layers": 10_001}, "num_hidden_layers", "from 1 to 10000"),
        ({**LLAMA, "intermediate_size": 10**30}, "intermediate_size", "whole number"),
        ({**LLAMA, "num_attention_heads": 31}, "heads", "a divisor of hidden"),
        ({**LLAMA, "num_key_value_heads": 5}, "kv_heads", "a divisor of heads"),
        ({**LLAMA, "hidden_act": "silou"}, "hidden_act", "did you mean silu?"),
        ({**LLAMA, "hidden_act": ["silu"]}, "hidden_act", "one of"),
        ({**LLAMA, "tie_word_embeddings": "no"}, "tie_word_embeddings", "true or false"),
        ({**LLAMA, "attention_dropout": 2}, "attention_dropout", "from 0 to 1"),
        ({**LLAMA, "is_encoder_decoder": True}, "is_encoder_decoder", "only decoders"),
        (
            config("opt", d=1024, n=24, heads=16, v=50_272, p=2048, ffn_dim=4096, word_embed_proj_dim=512),
            "word_embed_proj_dim",
            "another width",
        ),
        (
            config("opt", d=1024, n=24, heads=16, v=50_272, p=2048, ffn_dim=4096, do_layer_norm_before=False),
            "do_layer_norm_before",
            "behind the sum",
        ),
        (
            config("phi", d=64, n=2, heads=2, v=100, p=64, intermediate_size=256, qk_layernorm=True),
            "qk_layernorm",
            "false",
        ),
    ],
)
def test_what_is_no_decoder_of_a_known_kind_is_refused(description, key, said):
    with pytest.raises(ModelError) as caught:
        from_config(description)
    assert caught.value.key == key
    assert said in str(caught.value)


def test_positions_that_are_trained_limit_the_sequence_and_rotated_ones_do_not():
    with pytest.raises(ModelError, match="at most positions"):
        from_config(gpt("gpt2", d=64, n=1, heads=2, v=100, p=64), sequence=65)
    assert from_config(LLAMA, layers=1, sequence=8192)
