"""ResNet-50, compared with published numbers and the layer file of astra2020."""

import itertools

import pytest

from syncline.models import build, layers
from syncline.models.calculus import Image


def parameters(built):
    return sum(layer["parameters"] for layer in built)


def test_parameters_equal_the_published_count():
    assert parameters(build("resnet50")) == 25_557_032
    assert parameters(build("resnet50", norm_parameters=False)) * 4 == 102_011_648


def test_batch_norm_and_bias_are_the_difference():
    with_norm, without = (layers("resnet50", norm_parameters=norm) for norm in (True, False))
    extra = {a.name: a.parameters - b.parameters for a, b in zip(with_norm, without, strict=True)}
    assert extra.pop("fc") == 1000
    assert sum(extra.values()) == 53_120
    assert extra["conv1"] == 2 * 64


def test_multiply_adds_equal_the_published_count():
    # 4.09 G with the stride in the 3 x 3 convolution; He et al. Table 1 says 3.8 G with it in the first 1 x 1.
    assert sum(layer.multiply_adds for layer in layers("resnet50", batch_per_npu=1)) == 4_089_184_256
    assert sum(layer.multiply_adds for layer in layers("resnet50", batch_per_npu=1, stride_in="conv1")) == 3_857_973_248


def test_operations_other_than_matrix_products_are_few():
    built = layers("resnet50", batch_per_npu=1)
    matrix = sum(2 * layer.multiply_adds for layer in built)
    assert 1 < sum(layer.forward.flop for layer in built) / matrix < 1.02


def test_layers_are_named_after_stages():
    names = [layer["name"] for layer in build("resnet50")]
    assert len(names) == len(set(names)) == 54
    assert names[:6] == [
        "conv1",
        "conv2_1.shortcut",
        "conv2_1.conv1",
        "conv2_1.conv2",
        "conv2_1.conv3",
        "conv2_2.conv1",
    ]
    assert names[-2:] == ["conv5_3.conv3", "fc"]
    assert sum("shortcut" in name for name in names) == 4


def test_gradients_equal_the_published_layer_file(published):
    file = published("Resnet50_DataParallel.txt")
    built = build("resnet50", norm_parameters=False)
    for (name, _, _, gradient), layer in zip(file, built, strict=True):
        assert layer["parameters"] * 4 == gradient, (name, layer["name"])
    assert sum(gradient for *_, gradient in file) == parameters(built) * 4


@pytest.mark.parametrize("stride_in", ["conv1", "conv2"])
@pytest.mark.parametrize("image_size", [32, 33, 160, 224, 225])
def test_outputs_match_the_next_layers_inputs(image_size, stride_in):
    built = layers("resnet50", batch_per_npu=3, image_size=image_size, stride_in=stride_in)
    main = [layer for layer in built if "shortcut" not in layer.name]
    assert all(a.outputs == b.inputs for a, b in itertools.pairwise(main))
    # A shortcut starts where its block starts and ends where it ends.
    by_name = {layer.name: layer for layer in built}
    for layer in built:
        if layer.name.endswith(".shortcut"):
            block = layer.name.removesuffix(".shortcut")
            assert layer.inputs == by_name[f"{block}.conv1"].inputs
            assert layer.outputs == by_name[f"{block}.conv3"].outputs


def test_images_shrink_as_in_table_1():
    by_name = {layer.name: layer for layer in layers("resnet50", batch_per_npu=1)}
    assert by_name["conv1"].outputs == Image(64, 56, 56).elements
    for stage, size in ((2, 56), (3, 28), (4, 14), (5, 7)):
        channels = 256 << (stage - 2)
        assert by_name[f"conv{stage}_2.conv1"].inputs == Image(channels, size, size).elements
    assert (by_name["fc"].inputs, by_name["fc"].outputs) == (2048, 1000)


def test_parameters_do_not_depend_on_the_image():
    assert parameters(build("resnet50", image_size=96)) == 25_557_032
