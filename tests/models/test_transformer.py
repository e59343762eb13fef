"""The Transformer encoder: its parameter formula, its division, and the sizes behind the file of astra2020."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncline
from syncline.errors import SynclineError
from syncline.models import layers


def parameters(**params):
    return sum(layer.parameters for layer in layers("transformer", **params))


@given(
    n=st.integers(1, 8),
    heads=st.integers(1, 16),
    per_head=st.integers(1, 64),
    f=st.integers(1, 4096),
    v=st.integers(1, 50_000),
    bias=st.booleans(),
    tied=st.booleans(),
)
def test_parameters_follow_the_formula(n, heads, per_head, f, v, bias, tied):
    d = heads * per_head
    expected = v * d + n * (4 * d * d + 2 * d * f + f + d + 4 * d) + 4 * n * d * bias + v * d * (not tied)
    found = parameters(
        layers=n, hidden=d, heads=heads, feed_forward=f, vocabulary=v, attention_bias=bias, tied_embeddings=tied
    )
    assert found == expected


def test_base_and_big_have_their_known_parameters():
    assert parameters() == 37_846_016
    big = layers("transformer_big")
    assert sum(layer.parameters for layer in big) == 37_000 * 1024 + 6 * (
        4 * 1024**2 + 2 * 1024 * 4096 + 4096 + 5 * 1024
    )


def test_an_encoder_block_with_biases_has_the_well_known_size():
    # An encoder layer with 512 hidden and 2048 feed-forward, biases everywhere: 3,152,384 parameters.
    block = [x for x in layers("transformer", attention_bias=True) if x.name.startswith("block1.")]
    assert sum(layer.parameters for layer in block) == 3_152_384


def test_the_blocks_of_bert_base_have_their_known_parameters():
    # Devlin et al. 2019: 12 blocks of 768; 85,054,464 of its 110 M parameters are in the blocks.
    built = layers("transformer", layers=12, hidden=768, heads=12, feed_forward=3072, attention_bias=True)
    assert sum(layer.parameters for layer in built if layer.name.startswith("block")) == 85_054_464


def test_a_block_of_gpt3_follows_the_rule_of_thumb():
    # hier2021 counts 12 d^2 parameters for each layer, and 2 b s d^2 FLOP for each of the four d x d products.
    d, s, b = 12_288, 2048, 16
    built = layers("transformer", batch_per_npu=b, layers=1, hidden=d, heads=96, feed_forward=4 * d, sequence=s)
    block = [layer for layer in built if layer.name.startswith("block1.")]
    weights = sum(layer.parameters for layer in block)
    assert weights == pytest.approx(12 * d * d, rel=1e-4)
    by_name = {layer.name: layer for layer in block}
    assert by_name["block1.qkv"].forward.flop == 3 * 2 * b * s * d * d
    assert by_name["block1.scores"].forward.flop == 2 * b * s * s * d


def test_layers_are_divided_as_in_megatron():
    by_name = {layer.name: layer.sharding for layer in layers("transformer", layers=1)}
    assert by_name == {
        "embedding": "row",
        "block1.qkv": "column",
        "block1.scores": "divided",
        "block1.softmax": "divided",
        "block1.context": "divided",
        "block1.output": "row",
        "block1.norm1": "replicated",
        "block1.mlp1": "column",
        "block1.relu": "divided",
        "block1.mlp2": "row",
        "block1.norm2": "replicated",
        "projection": "column",
        "loss": "divided",
    }


def test_outputs_match_the_next_layers_inputs():
    built = layers("transformer", batch_per_npu=3, layers=2, sequence=40)
    tokens, hidden = 3 * 40, 512
    for one, following in itertools.pairwise(built):
        difference = {
            # Queries, keys and values are output together; values are used again at the context.
            "qkv": tokens * hidden,
            "softmax": -tokens * hidden,
        }.get(one.name.split(".")[-1], 0)
        assert one.outputs - following.inputs == difference, one.name


def test_the_shared_table_is_reduced_once():
    tied = {layer.name: layer for layer in layers("transformer")}
    free = {layer.name: layer for layer in layers("transformer", tied_embeddings=False)}
    assert (tied["projection"].parameters, free["projection"].parameters) == (0, 37_000 * 512)
    assert tied["projection"].weight_grad == free["projection"].weight_grad
    assert tied["embedding"].parameters == free["embedding"].parameters == 37_000 * 512


def test_sizes_match_the_published_layer_file(published):
    """The file's activations match the defaults; its weight gradients are 128 (the sequence length) times too large."""
    file = {name: sizes for name, *sizes in published("Transformer_HybridParallel.txt")}
    by_name = {layer.name: layer for layer in layers("transformer")}
    ranks = 4
    assert by_name["block1.output"].outputs * 4 == file["Concat1"][0]
    assert by_name["block1.qkv"].inputs * 4 == file["Q1"][1]
    assert by_name["block1.mlp1"].inputs * 4 == file["Relu1"][1]
    assert by_name["block1.mlp2"].outputs * 4 == file["X1W2b2"][0]
    assert 512 * 512 * 4 // ranks * 128 == file["Q1"][2] == file["Concat1"][2]
    assert 512 * 2048 * 4 // ranks * 128 == file["Relu1"][2] == file["X1W2b2"][2]
    assert 512 * 36_000 * 4 // ranks == file["fc"][2]


@pytest.mark.parametrize(("name", "heads"), [("transformer", 8), ("transformer_big", 16)])
def test_attention_is_not_divided_below_heads(name, heads):
    def scenario(model):
        return {
            "workload": {"model": name, "parallel": {"tensor": model, "data": "rest"}},
            "compute": {"model": "roofline", "accelerator": "A100"},
            "fabric": {"switch": {"hosts": 96, "rate": "100Gb/s"}},
        }

    assert syncline.simulate(**scenario(heads)).summary.total_time_s > 0
    for too_many in (3, 2 * heads):
        with pytest.raises(SynclineError) as refused:
            syncline.simulate(**scenario(too_many))
        assert f"the {heads} heads of layer `block1.qkv`" in str(refused.value)
