"""Decoders: parameters, operations, division and message sizes, compared with published numbers."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.models import ModelError, build, layers


def parameters(name="decoder", **params):
    return sum(layer.parameters for layer in layers(name, **params))


def named(**params):
    return {layer.name: layer for layer in layers("decoder", **params)}


@given(
    n=st.integers(1, 6),
    heads=st.integers(1, 8),
    per_head=st.integers(1, 64),
    f=st.integers(1, 4096),
    v=st.integers(1, 50_000),
    trained=st.sampled_from([0, 1024, 5000]),
    tied=st.booleans(),
    biased=st.booleans(),
)
def test_parameters_follow_the_formula(n, heads, per_head, f, v, trained, tied, biased):
    d = heads * per_head
    expected = (v + trained) * d + n * (4 * d * d + 4 * d + 2 * d * f + f + d + 4 * d) + 2 * d + v * d * (not tied)
    # The projection always has its own bias, even if it shares the table.
    expected += v * biased
    sizes = {"layers": n, "hidden": d, "heads": heads, "feed_forward": f, "vocabulary": v, "positions": trained}
    assert parameters(**sizes, tied_embeddings=tied, projection_bias=biased) == expected


@pytest.mark.parametrize(
    ("sizes", "published"),
    [
        # Counts of the checkpoints. Radford et al. 2019 Table 2 rounds other counts (its first column predates a
        # correction).
        ((12, 768, 12), 124_439_808),
        ((24, 1024, 16), 354_823_168),
        ((36, 1280, 20), 774_030_080),
        ((48, 1600, 25), 1_557_611_200),
    ],
)
def test_gpt2_has_its_published_parameters(sizes, published):
    assert parameters(**dict(zip(("layers", "hidden", "heads"), sizes, strict=True))) == published


@pytest.mark.parametrize(
    ("sizes", "millions"),
    [
        # Brown et al. 2020, Table D.1, in millions: layers, hidden, heads as in its Table 2.1.
        ((12, 768, 12), 125),
        ((24, 1024, 16), 356),
        ((24, 1536, 16), 760),
        ((32, 2560, 32), 2_651),
        ((32, 4096, 32), 6_658),
        ((96, 12_288, 96), 174_600),
    ],
)
def test_gpt3_has_its_published_parameters(sizes, millions):
    sizes = dict(zip(("layers", "hidden", "heads"), sizes, strict=True))
    assert parameters("gpt3_175b", **sizes) / 1e6 == pytest.approx(millions, rel=2e-3)


def test_parameters_of_presets_match_hier2021():
    # hier2021 Table IV: 17, 175 and 1,024 billion.
    found = [parameters(name) / 1e9 for name in ("transformer_17b", "gpt3_175b", "transformer_1t")]
    assert found == [pytest.approx(17, rel=0.011), pytest.approx(175, rel=0.003), pytest.approx(1024, rel=0.008)]


@pytest.mark.parametrize(
    ("layers_", "hidden", "heads", "billions"),
    # Narayanan et al. 2021, Table 1: parameters and sizes; equation 3 with s = 2048, V = 51,200.
    [(24, 2304, 24, 1.7), (96, 12_288, 96, 174.6), (128, 25_600, 160, 1008.0)],
)
def test_parameters_and_operations_match_narayanan_2021(layers_, hidden, heads, billions):
    s, v = 2048, 51_200
    built = layers("gpt3_175b", layers=layers_, hidden=hidden, heads=heads, vocabulary=v)
    assert sum(layer.parameters for layer in built) / 1e9 == pytest.approx(billions, abs=0.05)
    # Equation 3 without recomputation: 72 B s l h^2 (1 + s / 6h + V / 12lh) for forward and backward.
    # The equation counts all scores, including masked ones; attention needs half of them.
    needed, masked = (6 * sum(getattr(layer, each) for layer in built) for each in ("multiply_adds", "masked"))
    assert masked == 6 * s * s * layers_ * hidden
    assert needed + masked == 72 * s * layers_ * hidden**2 + 12 * s * s * layers_ * hidden + 6 * s * hidden * v


def test_a_block_without_biases_and_norms_has_twelve_squares():
    # The rule of hier2021 and of the layer files of its successor: 12 d^2 parameters per layer.
    d = 12_288
    block = [x for x in layers("gpt3_175b", layers=1, **BARE) if x.name.startswith("block1.")]
    assert sum(layer.parameters for layer in block) == 12 * d * d


BARE = {"attention_bias": False, "output_bias": False, "mlp_bias": False, "norm_parameters": False}


def test_layers_are_divided_as_in_megatron():
    assert {name: layer.sharding for name, layer in named(layers=1).items()} == {
        "embedding": "row",
        "positions": "replicated",
        "dropout": "replicated",
        "block1.norm1": "replicated",
        "block1.qkv": "column",
        "block1.attention": "divided",
        "block1.output": "row",
        "block1.norm2": "replicated",
        "block1.mlp1": "column",
        "block1.activation": "divided",
        "block1.mlp2": "row",
        "block1.sum": "replicated",
        "norm": "replicated",
        "projection": "column",
        "loss": "divided",
    }


def test_layers_have_the_attributes_for_pipelines_and_recomputation():
    built = named(layers=2, kv_heads=4, attention="unfused")
    blocks = {layer.block: name.split(".")[0] for name, layer in built.items() if layer.block}
    assert blocks == {1: "block1", 2: "block2"}
    assert [name for name, layer in built.items() if layer.selective and layer.block == 2] == [
        "block2.scores",
        "block2.softmax",
        "block2.context",
    ]
    assert {name: layer.heads for name, layer in built.items() if layer.heads and layer.block == 1} == {
        "block1.qkv": 4,
        "block1.scores": 4,
        "block1.softmax": 12,
        "block1.context": 4,
    }
    assert built["embedding"].tokens == 1024
    assert built["projection"].shares == "embedding"
    assert named(layers=1, tied_embeddings=False)["projection"].shares is None


def test_parallel_attention_and_mlp_exchange_once():
    built = named(layers=1, block="parallel", norms=1, positions=0, rotary=True)
    sharding = [built[f"block1.{name}"].sharding for name in ("qkv", "output", "mlp1", "mlp2")]
    assert sharding == ["column", "divided", "divided", "row"]
    assert "block1.norm2" not in built
    assert built["block1.norm1"].parameters == 2 * 768


SHAPES = [
    {},
    {"positions": 0, "rotary": True, "norm": "rms", "gated": True, "activation": "silu", "feed_forward": 2048},
    {"kv_heads": 4, "head_size": 96, "qk_norm": "head"},
    {"kv_heads": 4, "qk_norm": "all", "norm": "rms", "norm_at": "after"},
    {"attention": "fused_full", "norm_bias": False, "embedding_norm": True},
    {"block": "parallel", "norms": 2, "dropout": False},
    {"norms": 4, "norm": "rms"},
]
UNFUSED = [{**shape, "attention": "unfused"} for shape in SHAPES if shape.get("attention") is None]


@pytest.mark.parametrize("shape", UNFUSED)
def test_outputs_match_the_next_layers_inputs(shape):
    built = layers("decoder", batch_per_npu=3, layers=2, sequence=40, **shape)
    tokens, width = 3 * 40, 12 * shape.get("head_size", 64)
    values = tokens * width // 12 * shape.get("kv_heads", 12)
    for one, following in itertools.pairwise(built):
        # Queries, keys and values are output together; values are used again at the context.
        kind = one.name.split(".")[-1]
        difference = {"qkv": values, "softmax": -values}.get(kind, 0)
        if shape.get("block") == "parallel" and kind == "output":
            assert following.inputs == one.outputs
        if shape.get("qk_norm") and kind == "qkv":
            # The first operation is the norm of the queries.
            difference += values
        assert one.outputs - following.inputs == difference, one.name


@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_of_fused_attention_match_the_next_layers_inputs(shape):
    built = {x.name: x for x in layers("decoder", batch_per_npu=3, layers=1, sequence=40, **shape)}
    width = 12 * shape.get("head_size", 64)
    kv_width = width // 12 * shape.get("kv_heads", 12)
    assert built["block1.qkv"].outputs == 120 * (width + 2 * kv_width)
    assert built["block1.attention"].outputs == built["block1.output"].inputs == 120 * width


@pytest.mark.parametrize("sequence", [1, 2, 7, 1024])
def test_operations_of_fused_attention_match_flashattention(sequence):
    """Dao 2023, 4.1: 4 s^2 d h FLOP forward, half of that causal; 2.5 times as many backward."""
    sizes = {"layers": 1, "batch_per_npu": 3, "sequence": sequence, "dropout": False}

    def products(attention, name="attention"):
        layer = named(**sizes, attention=attention)[f"block1.{name}"]
        passes = (layer.forward, layer.input_grad)
        return [sum(2 * x.m * x.k * x.n * x.count for x in each.products) for each in passes]

    seen = (sequence + 1) // 2
    forward, backward = products("fused")
    assert forward == 4 * 3 * sequence * seen * 768
    assert backward == 2.5 * forward
    full, full_backward = products("fused_full")
    assert (full, full_backward) == (4 * 3 * sequence**2 * 768, 10 * 3 * sequence**2 * 768)
    # Unfused, the backward pass costs twice the forward pass, and every score is computed.
    parts = [products("unfused", name) for name in ("scores", "context")]
    assert [sum(part[at] for part in parts) for at in (0, 1)] == [full, 2 * full]
    # The operations that the model needs do not depend on the implementation.
    counts = {
        attention: [sum(getattr(x, each) for x in layers("decoder", **sizes, attention=attention)) for each in COUNTS]
        for attention in ("fused", "fused_full", "unfused")
    }
    assert counts["fused"] == counts["fused_full"] == counts["unfused"]


COUNTS = ("multiply_adds", "masked")


def test_fused_attention_does_not_store_scores():
    def attention(sequence, **more):
        return named(layers=1, sequence=sequence, positions=sequence, dropout=False, **more)["block1.attention"]

    for sequence in (1024, 2048):
        layer = attention(sequence)
        # Queries, keys, values and the result; twice these in the backward pass.
        assert layer.forward.moved == 4 * sequence * 768
        assert layer.input_grad.moved == 8 * sequence * 768
        # Queries, keys and values in two bytes each; one number of four bytes for each token and head.
        assert layer.kept.memory("bf16") == sequence * (3 * 768 * 2 + 12 * 4)
    assert attention(64, kv_heads=3).forward.moved == 64 * (2 * 768 + 2 * 192)


@pytest.mark.parametrize("shape", UNFUSED)
def test_backward_costs_about_twice_the_forward_pass(shape):
    built = layers("decoder", layers=2, **shape)
    forward = sum(layer.forward.flop for layer in built)
    backward = sum(layer.input_grad.flop + layer.weight_grad.flop for layer in built)
    assert 1.9 * forward < backward < 2.05 * forward


def test_a_shared_table_is_reduced_once():
    tied, free = named(layers=1), named(layers=1, tied_embeddings=False)
    assert (tied["projection"].parameters, free["projection"].parameters) == (0, 50_257 * 768)
    assert tied["projection"].weight_grad == free["projection"].weight_grad


def test_a_projection_with_a_shared_table_has_its_own_bias():
    plain, biased = named(layers=1), named(layers=1, projection_bias=True)
    own = biased.pop("projection_bias")
    assert list(biased) == list(plain)
    assert (own.parameters, own.sharding, own.vocabulary) == (50_257, "divided", 50_257)
    # The bias's work is part of the product's, as it is without a shared table.
    free = named(layers=1, tied_embeddings=False, projection_bias=True)
    assert "projection_bias" not in free
    assert biased["projection"].forward == free["projection"].forward
    assert (own.forward.flop, own.forward.memory("bf16")) == (0, 0)


def test_message_sizes_match_the_layer_files_of_hier2021():
    """Bytes of a layer's input gradients, outputs and weight gradients: GPT-3 over 16 ranks, the 1T model over 128."""
    for name, batch, ranks, gradient in (("gpt3_175b", 16, 16, 226_492_416), ("transformer_1t", 8, 128, 113_246_208)):
        block = {x.name: x for x in layers(name, batch_per_npu=batch, layers=1, **BARE)}
        block = {key[7:]: layer for key, layer in block.items() if key.startswith("block1.")}
        forward = [2 * block[key].outputs for key in ("output", "mlp2")]
        backward = [2 * block[key].inputs for key in ("qkv", "mlp1")]
        assert forward == backward == [805_306_368] * 2
        assert sum(layer.parameters for layer in block.values()) * 2 // ranks == gradient


@pytest.mark.parametrize(
    ("params", "key", "allowed"),
    [
        ({"heads": 7}, "heads", "a divisor of hidden"),
        ({"kv_heads": 5}, "kv_heads", "a divisor of heads"),
        ({"sequence": 1025}, "sequence", "at most positions, which is 1024"),
        ({"norms": 1}, "norms", "2 or 4"),
        ({"norms": 4, "block": "parallel"}, "norms", "1 or 2"),
        ({"norm_at": "after", "norms": 4}, "norm_at", "before, if a block is parallel or has norms on both sides"),
        ({"norm_at": "after", "block": "parallel"}, "norm_at", "before, if"),
        ({"attention": "flash"}, "attention", "one of fused, fused_full, unfused"),
        ({"activation": "gelo"}, "activation", "one of gelu, silu, relu"),
        ({"layers": 10_000, "hidden": 1 << 20, "heads": 1, "batch_per_npu": 1 << 20}, "model", "2^63"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(params, key, allowed):
    with pytest.raises(ModelError) as caught:
        build("decoder", **params)
    assert caught.value.key == key
    assert allowed in caught.value.allowed
