"""Hugging Face's ``config.json``: published counts of parameters, and errors."""

import pytest

from syncline.models import ModelError, from_config
from syncline.models.hugging_face import FAMILIES, model


def config(kind, *, d, n, heads, v, p, **more):
    """A configuration with the keys that most model types share."""
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
    """A configuration with the key names of GPT-2."""
    return {"model_type": kind, "n_embd": d, "n_layer": n, "n_head": heads, "vocab_size": v, "n_positions": p, **more}


LLAMA = config("llama", d=4096, n=32, heads=32, v=32_000, p=4096, intermediate_size=11_008, tie_word_embeddings=False)

# Each count also equals that of the class that the library `transformers` 5.23 builds from the same keys.
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
    # Counts of the checkpoints; Zhang et al. 2022, Table 1 rounds them.
    "OPT-125M": (config("opt", d=768, n=12, heads=12, v=50_272, p=2048, ffn_dim=3072), 125_239_296),
    "OPT-6.7B": (config("opt", d=4096, n=32, heads=32, v=50_272, p=2048, ffn_dim=16_384), 6_658_473_984),
    # From here on: half of total_size in model.safetensors.index.json, because elements have two bytes.
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
    # From here on: counts of the checkpoints, each of which is derived by hand in COUNTED below.
    "Gemma-3-1B": (
        config(
            "gemma3_text",
            d=1152,
            n=26,
            heads=4,
            v=262_144,
            p=32_768,
            intermediate_size=6912,
            num_key_value_heads=1,
            head_dim=256,
        ),
        999_885_952,
    ),
    # 4,300,079,472 with 416,866,032 of the vision model and 2,950,272 of the projector. The file leaves the rest out.
    "Gemma-3-4B, text": (
        {
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "intermediate_size": 10_240,
                "num_hidden_layers": 34,
                "sliding_window": 1024,
            },
            "vision_config": {"hidden_size": 1152},
        },
        4_300_079_472 - 416_866_032 - 2_950_272,
    ),
    "OLMo-1B": (
        config("olmo", d=2048, n=16, heads=16, v=50_304, p=2048, intermediate_size=8192, tie_word_embeddings=True),
        1_176_764_416,
    ),
    "OLMo-2-7B": (
        config("olmo2", d=4096, n=32, heads=32, v=100_352, p=4096, intermediate_size=11_008),
        7_298_617_344,
    ),
    "Granite-3.0-2B": (
        config(
            "granite",
            d=2048,
            n=40,
            heads=32,
            v=49_155,
            p=4096,
            intermediate_size=8192,
            num_key_value_heads=8,
            tie_word_embeddings=True,
        ),
        2_533_531_648,
    ),
    "Minitron-4B": (
        config(
            "nemotron",
            d=3072,
            n=32,
            heads=24,
            v=256_000,
            p=4096,
            intermediate_size=9216,
            num_key_value_heads=8,
            head_dim=128,
            hidden_act="relu2",
        ),
        4_190_509_056,
    ),
    "Command-R": (
        config(
            "cohere", d=8192, n=40, heads=64, v=256_000, p=131_072, intermediate_size=22_528, num_key_value_heads=64
        ),
        34_980_831_232,
    ),
    "Command-R+": (
        config(
            "cohere",
            d=12_288,
            n=64,
            heads=96,
            v=256_000,
            p=131_072,
            intermediate_size=33_792,
            num_key_value_heads=8,
            use_qk_norm=True,
        ),
        103_810_674_688,
    ),
    "Command-R7B": (
        config(
            "cohere2", d=4096, n=32, heads=32, v=256_000, p=132_096, intermediate_size=14_336, num_key_value_heads=8
        ),
        8_028_033_024,
    ),
    "StarCoder": (
        gpt("gpt_bigcode", d=6144, n=40, heads=48, v=49_152, p=8192, n_inner=24_576, multi_query=True),
        15_517_456_384,
    ),
    "StarCoder2-3B": (
        config(
            "starcoder2", d=3072, n=30, heads=24, v=49_152, p=16_384, intermediate_size=12_288, num_key_value_heads=2
        ),
        3_030_371_328,
    ),
    "StarCoder2-7B": (
        config(
            "starcoder2", d=4608, n=32, heads=36, v=49_152, p=16_384, intermediate_size=18_432, num_key_value_heads=4
        ),
        7_173_923_840,
    ),
    "Falcon-RW-1B": (
        config(
            "falcon",
            d=2048,
            n=24,
            heads=32,
            v=50_304,
            p=2048,
            alibi=True,
            bias=True,
            multi_query=False,
            parallel_attn=False,
        ),
        1_311_625_216,
    ),
    "Falcon-7B": (config("falcon", d=4544, n=32, heads=71, v=65_024, p=2048, multi_query=True), 6_921_720_704),
    "Falcon-40B": (
        config("falcon", d=8192, n=60, heads=128, v=65_024, p=2048, new_decoder_architecture=True, num_kv_heads=8),
        41_303_293_952,
    ),
    "BLOOM-560M": (
        {"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16, "vocab_size": 250_880},
        559_214_592,
    ),
    "BLOOM": (
        {"model_type": "bloom", "hidden_size": 14_336, "n_layer": 70, "n_head": 112, "vocab_size": 250_880},
        176_247_271_424,
    ),
    "MPT-7B": (
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_heads": 32,
            "n_layers": 32,
            "expansion_ratio": 4,
            "max_seq_len": 2048,
            "vocab_size": 50_432,
            "no_bias": True,
            "attn_config": {"alibi": True, "qk_ln": False, "attn_pdrop": 0},
        },
        6_649_286_656,
    ),
}


def _swiglu(d, ff):
    return 3 * d * ff


COUNTED = {
    # Derived from the architectures by hand: tables, attention, MLP, norms of each block, the rest.
    "Gemma-3-1B": 262_144 * 1152
    + 26 * (1152 * 256 * (4 + 1 + 1 + 4) + _swiglu(1152, 6912) + 4 * 1152 + 2 * 256)
    + 1152,
    "Gemma-3-4B, text": 262_208 * 2560
    + 34 * (2560 * 256 * (8 + 4 + 4 + 8) + _swiglu(2560, 10_240) + 4 * 2560 + 2 * 256)
    + 2560,
    "OLMo-1B": 50_304 * 2048 + 16 * (4 * 2048**2 + _swiglu(2048, 8192)),
    "OLMo-2-7B": 2 * 100_352 * 4096 + 32 * (4 * 4096**2 + _swiglu(4096, 11_008) + 2 * 4096 + 2 * 4096) + 4096,
    "Granite-3.0-2B": 49_155 * 2048 + 40 * (2 * 2048**2 + 2 * 2048 * 512 + _swiglu(2048, 8192) + 2 * 2048) + 2048,
    "Minitron-4B": 2 * 256_000 * 3072
    + 32 * (2 * 3072**2 + 2 * 3072 * 1024 + 2 * 3072 * 9216 + 2 * 2 * 3072)
    + 2 * 3072,
    "Command-R": 256_000 * 8192 + 40 * (4 * 8192**2 + _swiglu(8192, 22_528) + 8192) + 8192,
    # Norms of queries and keys have weights for each head: 96 + 8 heads of 128.
    "Command-R+": 256_000 * 12_288
    + 64 * (2 * 12_288**2 + 2 * 12_288 * 1024 + _swiglu(12_288, 33_792) + 12_288 + (96 + 8) * 128)
    + 12_288,
    "Command-R7B": 256_000 * 4096 + 32 * (2 * 4096**2 + 2 * 4096 * 1024 + _swiglu(4096, 14_336) + 4096) + 4096,
    "StarCoder": (49_152 + 8192) * 6144
    + 40 * (6144 * (6144 + 256) + 6400 + 6144**2 + 6144 + 2 * 6144 * 24_576 + 24_576 + 6144 + 4 * 6144)
    + 2 * 6144,
    "StarCoder2-3B": 49_152 * 3072
    + 30 * (2 * (3072**2 + 3072) + 2 * (3072 * 256 + 256) + 2 * 3072 * 12_288 + 12_288 + 3072 + 4 * 3072)
    + 2 * 3072,
    "StarCoder2-7B": 49_152 * 4608
    + 32 * (2 * (4608**2 + 4608) + 2 * (4608 * 512 + 512) + 2 * 4608 * 18_432 + 18_432 + 4608 + 4 * 4608)
    + 2 * 4608,
    "Falcon-RW-1B": 50_304 * 2048 + 24 * (12 * 2048**2 + 13 * 2048) + 2 * 2048,
    "Falcon-7B": 65_024 * 4544 + 32 * (4544 * (4544 + 2 * 64) + 4544**2 + 8 * 4544**2 + 2 * 4544) + 2 * 4544,
    "Falcon-40B": 65_024 * 8192 + 60 * (8192 * (8192 + 2 * 8 * 64) + 8192**2 + 8 * 8192**2 + 4 * 8192) + 2 * 8192,
    "BLOOM-560M": 250_880 * 1024 + 2 * 1024 + 24 * (12 * 1024**2 + 13 * 1024) + 2 * 1024,
    "BLOOM": 250_880 * 14_336 + 2 * 14_336 + 70 * (12 * 14_336**2 + 13 * 14_336) + 2 * 14_336,
    "MPT-7B": 50_432 * 4096 + 32 * (12 * 4096**2 + 2 * 4096) + 4096,
}


@pytest.mark.parametrize("name", COUNTED)
def test_published_counts_match_the_architecture(name):
    assert PUBLISHED[name][1] == COUNTED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_equal_the_published_counts(name):
    description, published = PUBLISHED[name]
    assert sum(layer.parameters for layer in from_config(description, sequence=128)) == published


def test_every_family_is_compared_with_a_published_count():
    assert {description["model_type"] for description, _ in PUBLISHED.values()} == set(FAMILIES)


@pytest.mark.parametrize("kind", ["phi", "gptj"])
def test_tied_heads_keep_their_bias(kind):
    description = next(each for each, _ in PUBLISHED.values() if each["model_type"] == kind)
    width = description.get("hidden_size") or description["n_embd"]

    def count(*, tied):
        layers = from_config({**description, "tie_word_embeddings": tied}, sequence=128)
        return sum(layer.parameters for layer in layers)

    # Tying removes the head's table but not its bias: the library's tie_weights() shares only `weight`.
    assert count(tied=False) - count(tied=True) == description["vocab_size"] * width


def test_the_file_gives_defaults_that_a_scenario_may_change():
    built = from_config(LLAMA, layers=2, sequence=64, batch_per_npu=3)
    assert [x.name for x in built if x.name.endswith("qkv")] == ["block1.qkv", "block2.qkv"]
    assert built[0].outputs == 3 * 64 * 4096
    assert from_config(LLAMA, layers=1)[0].outputs == 4096 * 4096


@pytest.mark.parametrize("said", [{}, {"torch_dtype": "float16"}, {"dtype": "float32"}, {"torch_dtype": "int4"}])
def test_the_type_of_a_checkpoint_does_not_set_the_training_precision(said):
    assert model({**LLAMA, **said}, "llama").parameters["precision"].default == "bf16"


def test_ignored_keys_are_noted():
    assert not model(LLAMA, "llama").notes
    (quantised,) = model({**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}}, "llama").notes
    assert "quantization_config` (gptq) is left out" in quantised
    assert (
        sum(x.parameters for x in from_config({**LLAMA, "quantization_config": {}}, sequence=8))
        == PUBLISHED["Llama-2-7B"][1]
    )
    vision, window = model(PUBLISHED["Gemma-3-4B, text"][0], "gemma").notes
    assert "vision_config" in vision
    assert "window of attention of 1024 tokens" in window
    assert not model({**LLAMA, "sliding_window": 1024, "use_sliding_window": False}, "llama").notes
    assert not model({**LLAMA, "sliding_window": 4096}, "llama").notes


def test_olmo2_normalises_outputs_and_not_inputs():
    names = [layer.name for layer in from_config(PUBLISHED["OLMo-2-7B"][0], layers=1, sequence=8)]
    assert names[1:-3] == [
        f"block1.{part}" for part in ("qkv", "attention", "output", "sum1", "mlp1", "activation", "mlp2", "sum")
    ]


@pytest.mark.parametrize(
    "kind", ["gemma4", "gemma3n", "olmo3", "mistral3", "qwen2_vl", "phi4", "llama4_text", "cohere3"]
)
def test_unknown_model_types_suggest_no_other_family(kind):
    with pytest.raises(ModelError) as caught:
        model({**LLAMA, "model_type": kind}, "it")
    assert caught.value.nearest is None
    assert "did you mean" not in str(caught.value)
    assert "model: decoder" in caught.value.allowed


def test_a_single_expert_is_accepted():
    assert from_config({**LLAMA, "num_local_experts": 1, "num_experts_per_tok": None}, layers=1)


def test_dropout_depends_on_the_file():
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
        ({**PUBLISHED["MPT-7B"][0], "attn_config": {"qk_ln": True}}, "qk_ln", "not modelled"),
        ({**PUBLISHED["MPT-7B"][0], "attn_config": 3}, "attn_config", "a mapping"),
        ({**PUBLISHED["Falcon-7B"][0], "num_ln_in_parallel_attn": 3}, "num_ln_in_parallel_attn", "from 1 to 2"),
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
            "differs from the hidden size",
        ),
        (
            config("opt", d=1024, n=24, heads=16, v=50_272, p=2048, ffn_dim=4096, do_layer_norm_before=False),
            "do_layer_norm_before",
            "after the residual sum",
        ),
        (
            config("phi", d=64, n=2, heads=2, v=100, p=64, intermediate_size=256, qk_layernorm=True),
            "qk_layernorm",
            "false",
        ),
    ],
)
def test_unknown_kinds_of_models_are_refused(description, key, said):
    with pytest.raises(ModelError) as caught:
        from_config(description)
    assert caught.value.key == key
    assert said in str(caught.value)


def test_learned_positions_limit_the_sequence_and_rotary_ones_do_not():
    with pytest.raises(ModelError, match="at most positions"):
        from_config(gpt("gpt2", d=64, n=1, heads=2, v=100, p=64), sequence=65)
    assert from_config(LLAMA, layers=1, sequence=8192)
