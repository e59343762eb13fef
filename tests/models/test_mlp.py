"""The multi-layer perceptron."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from syncline.models import layers


def test_the_default_is_lenet_300_100():
    built = layers("mlp")
    assert [layer.name for layer in built] == ["fc1", "fc2", "fc3"]
    assert sum(layer.parameters for layer in built) == 266_610


@given(sizes=st.lists(st.integers(1, 5000), min_size=2, max_size=10), bias=st.booleans())
def test_layers_have_any_given_sizes(sizes, bias):
    built = layers("mlp", sizes=sizes, bias=bias, batch_per_npu=1)
    pairs = list(itertools.pairwise(sizes))
    assert [(layer.inputs, layer.outputs) for layer in built] == pairs
    assert [layer.parameters for layer in built] == [i * o + o * bias for i, o in pairs]
    assert [layer.multiply_adds for layer in built] == [i * o for i, o in pairs]


def test_only_the_last_layer_has_no_activation():
    assert [len(layer.ops) for layer in layers("mlp", sizes=[4, 3, 2, 1])] == [2, 2, 1]
