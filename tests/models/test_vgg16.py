"""VGG-16, compared with published numbers."""

import itertools

import pytest

from syncline.models import layers


def test_parameters_and_multiply_adds_equal_the_published_counts():
    built = layers("vgg16", batch_per_npu=1)
    assert sum(layer.parameters for layer in built) == 138_357_544
    assert sum(layer.multiply_adds for layer in built) == 15_470_264_320


def test_vgg16_has_sixteen_layers_with_weights():
    names = [layer.name for layer in layers("vgg16")]
    assert names == [
        *("conv1_1", "conv1_2", "conv2_1", "conv2_2", "conv3_1", "conv3_2", "conv3_3"),
        *("conv4_1", "conv4_2", "conv4_3", "conv5_1", "conv5_2", "conv5_3"),
        *("fc6", "fc7", "fc8"),
    ]


@pytest.mark.parametrize("image_size", [32, 95, 224])
def test_outputs_match_the_next_layers_inputs(image_size):
    built = layers("vgg16", batch_per_npu=2, image_size=image_size)
    assert all(a.outputs == b.inputs for a, b in itertools.pairwise(built))


def test_the_first_linear_layer_has_most_parameters():
    by_name = {layer.name: layer.parameters for layer in layers("vgg16")}
    assert by_name["fc6"] == (512 * 7 * 7 + 1) * 4096
