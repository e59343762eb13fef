"""Wrong arguments of the Python API of estimates are errors that name them: never a traceback, never a wrong number."""

from __future__ import annotations

import itertools

import pytest

from syncline import kernels
from syncline.design.parallel import Request, read_model, search
from syncline.errors import SynclineError
from syncline.estimate import Machine, Software, error_bar, machine, model_text
from syncline.models.hugging_face.architecture import architecture
from tests.conftest import ROOT
from tests.design.test_parallel import LLAMA_70B

MODEL = architecture(LLAMA_70B, "a model")
H100 = machine("H100")
WRONG = ("8", "x", "", None, float("nan"), float("inf"), -1, 0, 1e300, 10**40, True, [], {}, b"8", 1.5)
"""Values that are no count."""
NO_NUMBERS = tuple(each for each in WRONG if each != 1.5 and not (isinstance(each, float) and each == 1e300))
"""Values that are no rate and no size of a memory."""


def request(**changes):
    return Request(
        **{"architecture": MODEL, "machine": H100, "gpus": 64, "sequence": 8192, "global_batch": 64, **changes}
    )


def refused(key, call):
    with pytest.raises(SynclineError) as found:
        call()
    (problem,) = found.value.diagnostics
    assert problem["key"].split(".")[-1] == key
    assert problem["found"] is not None and problem["allowed"]


COUNTS = ("gpus", "sequence", "global_batch", "micro_batch", "virtual_stages", "context", "keep")


@pytest.mark.parametrize(("key", "value"), [*itertools.product(COUNTS, WRONG)], ids=str)
def test_counts_of_a_request_are_checked(key, value):
    refused(key, lambda: request(**{key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("architecture", LLAMA_70B),
        ("architecture", None),
        ("machine", "H100"),
        ("precision", "fp32"),
        ("precision", 8),
        ("precision", ["fp8"]),
        ("reserve", 1.0),
        ("reserve", -0.1),
        ("reserve", "0"),
        ("reserve", float("nan")),
        ("recompute", "no"),
        ("recompute", 1),
        ("shard_parameters", None),
        ("variants", 0),
    ],
    ids=str,
)
def test_other_values_of_a_request_are_checked(key, value):
    refused(key, lambda: request(**{key: value}))


def test_all_wrong_values_are_named_at_once():
    with pytest.raises(SynclineError) as found:
        request(gpus="512", sequence=-1, precision="int3")
    assert [each["key"] for each in found.value.diagnostics] == ["gpus", "sequence", "precision"]
    assert found.value.diagnostics[0]["found"] == '"512" (str)'


@pytest.mark.parametrize("value", NO_NUMBERS, ids=str)
def test_rates_and_sizes_of_a_machine_are_checked(value):
    for key in ("nic_bytes_per_s", "memory_bytes"):
        if value is not None:
            refused(key, lambda key=key: machine("H100", **{key: value}))
    refused("memory_bytes_per_s", lambda: Machine("H100-SXM5-80GB", 8, 5e10, 8e10, value))


@pytest.mark.parametrize("value", [each for each in WRONG if each is not None], ids=str)
def test_the_domain_of_a_machine_is_checked(value):
    refused("domain", lambda: machine("H100", domain=value))


@pytest.mark.parametrize("value", [None, 100, ["H100"], b"H100"], ids=str)
def test_names_of_accelerators_are_text(value):
    refused("accelerator", lambda: machine(value))
    refused("name", lambda: kernels.load(value))


def test_unknown_names_have_a_nearest_one():
    with pytest.raises(SynclineError) as found:
        machine("H1000")
    assert found.value.diagnostics[0]["nearest"] == "H100"
    with pytest.raises(SynclineError):
        machine("H100", nccl="h100-sxx")


@pytest.mark.parametrize(
    "values",
    [{"products": "1"}, {"products": float("nan")}, {"products": 0}, {"attention": -1.0}, {"products": None}],
    ids=str,
)
def test_constants_of_software_are_checked(values):
    with pytest.raises(SynclineError) as found:
        Software(**values)
    assert found.value.diagnostics[0]["key"] in values


def test_a_misspelt_constant_has_a_nearest_one():
    with pytest.raises(SynclineError) as found:
        Software(product=1.0)
    assert found.value.diagnostics[0]["nearest"] == "products"


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("megatrn", "H100", "dense"), "constants"),
        (("megatron", "H100", "sparse"), "kind"),
        (("megatron", 100, "dense"), "accelerator"),
    ],
)
def test_error_bars_are_of_known_jobs(arguments, key):
    refused(key, lambda: error_bar(*arguments))


def test_an_error_bar_is_found_by_any_name_of_an_accelerator():
    assert error_bar("megatron", "h100", "dense") == error_bar("megatron", "H100-SXM5-80GB", "dense") is not None


def test_models_and_searches_take_their_classes():
    refused("architecture", lambda: model_text(LLAMA_70B))
    refused("layers", lambda: model_text(MODEL, 0))
    refused("path", lambda: read_model(3))
    refused("request", lambda: search({"gpus": 8}))
    refused("software", lambda: search(request(), {"products": 1.0}))
    assert read_model(ROOT / "examples" / "llama-3-70b" / "config.json").layers == 80


SIZES = {"m": 128, "n": 128, "k": 128, "groups": 1}
HEADS = {"batch": 1, "sequence": 128, "heads": 8, "head_dim": 128}


@pytest.mark.parametrize(("key", "value"), [*itertools.product(SIZES, WRONG)], ids=str)
def test_sizes_of_products_are_checked(key, value):
    refused(key, lambda: kernels.load("H100").gemm(**{**SIZES, key: value}))


@pytest.mark.parametrize(("key", "value"), [*itertools.product(HEADS, WRONG)], ids=str)
def test_sizes_of_attention_are_checked(key, value):
    refused(key, lambda: kernels.load("H100").attention(**{**HEADS, key: value}))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"kv_heads": 3}, "kv_heads"),
        ({"kv_heads": 0}, "kv_heads"),
        ({"window": -1}, "window"),
        ({"causal": "yes"}, "causal"),
        ({"data_type": "fp64"}, "data_type"),
    ],
)
def test_other_arguments_of_attention_are_checked(changes, key):
    refused(key, lambda: kernels.load("H100").attention(**{**HEADS, **changes}))


def test_data_types_layouts_and_bytes_are_checked():
    h100 = kernels.load("H100")
    refused("data_type", lambda: h100.gemm(1, 1, 1, data_type="fp64"))
    refused("layout", lambda: h100.gemm(1, 1, 1, layout="tt"))
    refused("nbytes", lambda: h100.memory_bound(-1))
    refused("nbytes", lambda: h100.memory_bound(1e6))


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    assert kernels.load("H100").gemm(*map(numpy.int64, (128, 128, 128))) == kernels.load("H100").gemm(128, 128, 128)
    assert machine("H100", nic_bytes_per_s=numpy.float32(5e10)).domain == 8
