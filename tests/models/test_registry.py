"""Properties of every model, and errors of invalid requests."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.config.load import load
from syncline.models import DATA_TYPES, MODELS, ModelError, build, check, layers, mlp, registry
from syncline.models.types import Types

names = st.sampled_from(sorted(MODELS))

LARGE = {"transformer_17b": {"layers": 2}, "gpt3_175b": {"layers": 2}, "transformer_1t": {"layers": 2}}
"""Fewer layers for models whose work for thousands of samples is too large to count."""


@given(name=names, batch=st.integers(1, 64), factor=st.integers(1, 64))
def test_activations_and_operations_grow_with_the_batch(name, batch, factor):
    fewer = LARGE.get(name, {})
    small = layers(name, batch_per_npu=batch, **fewer)
    large = layers(name, batch_per_npu=batch * factor, **fewer)
    for one, many in zip(small, large, strict=True):
        assert (many.inputs, many.outputs) == (factor * one.inputs, factor * one.outputs)
        for work in ("forward", "input_grad", "weight_grad"):
            assert getattr(many, work).flop == factor * getattr(one, work).flop
            # Weights are moved once, independent of the batch.
            assert getattr(one, work).moved <= getattr(many, work).moved <= factor * getattr(one, work).moved


@given(name=names, batch=st.integers(1, 4096))
def test_parameters_do_not_depend_on_the_batch(name, batch):
    built = [build(name, batch_per_npu=b, **LARGE.get(name, {})) for b in (1, batch)]
    counts = [[layer["parameters"] for layer in each] for each in built]
    assert counts[0] == counts[1]
    # Only the looked-up rows of a table are updated.
    dense = [layer.name for layer in layers(name) if layer.updated is None]
    updates = [[layer["update"] for layer in each if layer["name"] in dense] for each in built]
    assert updates[0] == updates[1]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_bytes_depend_on_the_data_type_and_counts_do_not(name, data_type):
    built = [
        build(name, types=Types.uniform(each).as_dict(), precision="fp32", optimizer="sgd")
        for each in ("int8", data_type)
    ]
    for eight, other in zip(*built, strict=True):
        for key, value in eight.items():
            if isinstance(value, dict):
                assert other[key]["ops"]["flop"] == value["ops"]["flop"]
                assert _memory(other[key]) == DATA_TYPES[data_type] * _memory(value)
            elif key.startswith("kept"):
                # Masks of dropout have one byte and logits four, with any data type.
                assert int(value[:-1]) <= int(other[key][:-1]) <= DATA_TYPES[data_type] * int(value[:-1])
            else:
                assert other[key] == value


def _memory(work):
    return int(work["ops"]["memory"].removesuffix("B"))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_written_in_the_form_of_a_scenario(name):
    built = json.loads(json.dumps(build(name)))
    assert len({layer["name"] for layer in built}) == len(built)
    works = {"forward", "input_grad", "weight_grad", "update"}
    counts = {"parameters", "inputs", "outputs"}
    marks = {"needed_by", "block", "heads", "vocabulary", "tokens", "selective", "shares", "kept", "kept_selective"}
    for layer in built:
        assert set(layer) - marks == {"name", "sharding", *works, *counts}
        assert layer["sharding"] in {"gather", "column", "row", "divided", "replicated", "exchange"}
        assert all(isinstance(layer[count], int) and layer[count] >= 0 for count in counts)
        for work in works:
            if layer[work] != "none":
                assert set(layer[work]) == {"ops"}
                assert {"flop", "memory"} <= set(layer[work]["ops"]) <= {"flop", "memory", "products"}
        assert layer["forward"] != "none"
        assert (layer["update"] == "none") == (layer["parameters"] == 0)


@pytest.mark.parametrize("name", MODELS)
def test_matrix_products_account_for_all_multiply_adds(name):
    built = layers(name)
    products = [product for layer in built for product in layer.forward.products]
    assert sum(p.m * p.k * p.n * p.count for p in products) == sum(layer.multiply_adds for layer in built)


@pytest.mark.parametrize("name", MODELS)
def test_backward_costs_about_twice_the_forward_pass(name):
    built = layers(name)
    first = built[0].forward.flop  # reads data: it has no input gradient
    forward = sum(layer.forward.flop for layer in built)
    backward = sum(layer.input_grad.flop + layer.weight_grad.flop for layer in built)
    # Fused attention recomputes its scores.
    again = sum(layer.forward.flop for layer in built if layer.name.endswith("attention")) / 2
    assert 0.97 * (2 * forward - first) < backward < 2.01 * forward + again


@pytest.mark.parametrize("name", MODELS)
def test_the_registry_matches_the_built_layers(name):
    info = MODELS[name]
    assert info.description
    assert info.source
    defaults = {key: parameter.default for key, parameter in info.parameters.items()}
    assert {"batch_per_npu", "precision"} <= set(defaults)
    assert build(name, **defaults) == build(name)
    assert all(parameter.meaning for parameter in info.parameters.values())


@pytest.mark.parametrize(
    ("name", "params", "key", "nearest"),
    [
        ("resnet5", {}, "model", "resnet50"),
        ("ResNet50", {}, "model", "resnet50"),
        ("transformer_large", {}, "model", "transformer_big"),
        ("", {}, "model", None),
        (None, {}, "model", None),
        ("zzz", {}, "model", None),
        ("resnet50", {"batch": 32}, "batch", "batch_per_npu"),
        ("resnet50", {"qqq": 1}, "qqq", None),
        ("resnet50", {"batch_per_npu": 0}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": -3}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": 10**30}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": 31.6}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": 32.0}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": float("nan")}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": float("inf")}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": "32"}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": True}, "batch_per_npu", None),
        ("resnet50", {"batch_per_npu": None}, "batch_per_npu", None),
        ("resnet50", {"precision": "float32"}, "precision", "fp32"),
        ("resnet50", {"precision": "FP16"}, "precision", "fp16"),
        ("resnet50", {"precision": 16}, "precision", None),
        ("resnet50", {"image_size": 31}, "image_size", None),
        ("resnet50", {"norm_parameters": "no"}, "norm_parameters", None),
        ("resnet50", {"norm_parameters": 1}, "norm_parameters", None),
        ("resnet50", {"stride_in": "conv3"}, "stride_in", "conv1"),
        ("mlp", {"sizes": [5]}, "sizes", None),
        ("mlp", {"sizes": 5}, "sizes", None),
        ("mlp", {"sizes": "784,10"}, "sizes", None),
        ("mlp", {"sizes": [784, 0]}, "sizes", None),
        ("transformer", {"heads": 7}, "heads", None),
        ("transformer", {"hidden": 513}, "heads", None),
        ("transformer", {"layers": 10_000, "hidden": 1 << 20, "batch_per_npu": 1 << 20}, "model", None),
    ],
)
def test_a_wrong_request_is_refused_by_name(name, params, key, nearest):
    with pytest.raises(ModelError) as caught:
        build(name, **params)
    error = caught.value
    assert (error.key, error.nearest) == (key, nearest)
    assert error.allowed
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("name", "params", "text"),
    [
        (
            "resnet",
            {},
            (
                "model: found 'resnet', allowed is one of resnet50, vgg16, transformer, transformer_big, decoder, "
                "transformer_17b, gpt3_175b, transformer_1t, dlrm, mlp; did you mean resnet50?"
            ),
        ),
        (
            "vgg16",
            {"batch_per_npu": 0},
            "batch_per_npu: found 0, allowed is a whole number from 1 to 1048576",
        ),
        (
            "vgg16",
            {"clases": 10},
            (
                "clases: not a parameter of vgg16, allowed is one of batch_per_npu, precision, optimizer, image_size, "
                "classes; "
                "did you mean classes?"
            ),
        ),
        ("mlp", {"sizes": [784, 0]}, "sizes[1]: found 0, allowed is a whole number from 1 to 16777216"),
        ("transformer", {"heads": 7}, "heads: found 7, allowed is a divisor of hidden, which is 512"),
    ],
)
def test_each_error_has_its_exact_text(name, params, text):
    with pytest.raises(ModelError) as caught:
        build(name, **params)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "params", "kind", "path"),
    [
        ("resnet", {}, "model", ("model",)),
        ("vgg16", {"clases": 10}, "unknown_key", ("clases",)),
        ("mlp", {"sizes": [784, 0]}, "value", ("sizes", 1)),
    ],
)
def test_an_error_has_its_kind_and_its_path(name, params, kind, path):
    with pytest.raises(ModelError) as caught:
        build(name, **params)
    assert (caught.value.kind, caught.value.path) == (kind, path)


def test_several_errors_are_reported_together():
    errors = check("resnet50", {"batch_per_npu": 0, "precision": "fp31", "clases": 10})
    assert {error.key for error in errors} == {"batch_per_npu", "precision", "clases"}
    assert check("resnet50", {"batch_per_npu": 8}) == []


def test_long_values_are_shortened_in_errors():
    with pytest.raises(ModelError) as caught:
        build("x" * 10_000)
    assert len(str(caught.value)) < 300
    with pytest.raises(ModelError, match="a very large int"):
        build("resnet50", batch_per_npu=10**5000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=5
)


@given(name=names, key=st.data(), value=json_values)
def test_any_value_is_built_or_refused(name, key, value):
    parameter = key.draw(st.sampled_from(sorted(MODELS[name].parameters)))
    if parameter == "layers" and isinstance(value, int):
        value = min(value, 50)
    try:
        build(name, **{parameter: value})
    except ModelError as error:
        assert error.allowed


def test_a_model_is_built_once(monkeypatch):
    built = []

    def counting(**chosen):
        built.append(chosen)
        return mlp.INFO.layers(**chosen)

    monkeypatch.setattr(registry, "MODELS", {**MODELS, "mlp": replace(MODELS["mlp"], layers=counting)})
    load(
        {
            "workload": {"model": "mlp"},
            "compute": {"model": "roofline", "accelerator": "H100"},
            "fabric": {"shape": "Ring(4)", "rate": "1GB/s"},
        }
    )
    assert len(built) == 1
