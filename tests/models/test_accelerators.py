"""Accelerators: the file is complete, says where it is from, and is found by name."""

import pytest

from syncline.models import DATA_TYPES, ModelError
from syncline.models.accelerators import _amount, find, load

NAMES = ["V100-SXM2-16GB", "V100-SXM2-32GB", "A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM5-80GB"]


def test_what_there_is():
    assert list(load()) == NAMES


@pytest.mark.parametrize("accelerator", load().values(), ids=lambda a: a.name)
def test_every_number_has_a_source_and_a_plausible_size(accelerator):
    assert set(accelerator.sources) == {"peak", "memory", "scale_up"}
    assert all("NVIDIA" in source and "20" in source for source in accelerator.sources.values())
    peak = accelerator.peak_flop_per_s
    assert {"fp64", "fp32", "fp16"} <= set(peak) <= set(DATA_TYPES)
    assert peak["fp64"] <= peak["fp32"] <= peak["fp16"]
    assert all(10**12 < rate < 10**16 for rate in peak.values())
    assert 10**10 < accelerator.memory_bytes < 10**12
    assert 10**11 < accelerator.memory_bytes_per_s < 10**13


@pytest.mark.parametrize(
    ("name", "both_directions"), [("V100", 300), ("A100", 600), ("H100", 900)], ids=["V100", "A100", "H100"]
)
def test_links_add_up_to_what_data_sheets_quote(name, both_directions):
    assert 2 * find(name).scale_up.bytes_per_s == both_directions * 10**9


def test_data_sheet_rates():
    assert find("V100").peak_flop_per_s["fp16"] == 125 * 10**12
    assert find("A100").peak_flop_per_s["tf32"] == 156 * 10**12
    assert find("A100-40GB").memory_bytes_per_s == 1555 * 10**9
    assert find("H100").peak_flop_per_s["fp8"] == 1_978_900 * 10**9


def test_as_a_compute_model():
    assert find("A100").roofline("bf16") == {
        "model": "roofline",
        "accelerator": "A100-SXM4-80GB",
        "peak": "312TFLOP/s",
        "memory": "2.039TB/s",
    }


@pytest.mark.parametrize("name", ["a100", "A100-80gb", "A100-SXM4-80GB"])
def test_names_in_any_case(name):
    assert find(name).name == "A100-SXM4-80GB"


def test_no_two_accelerators_share_a_name():
    names = [name.lower() for each in load().values() for name in (each.name, *each.aliases)]
    assert len(names) == len(set(names))


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(ModelError) as caught:
        find("H1000")
    assert (caught.value.key, caught.value.nearest) == ("accelerator", "H100")


def test_a_missing_data_type_is_refused():
    with pytest.raises(ModelError) as caught:
        find("V100").roofline("bf16")
    assert (caught.value.key, caught.value.allowed) == ("data_type", "one of fp32, fp16, fp64")


def test_what_is_loaded_is_the_callers_own():
    load().clear()
    assert list(load()) == NAMES


@pytest.mark.parametrize("text", ["12", "12GB", "1.5B/s", "-1GB/s", "1 GB/s", "GB/s"])
def test_amounts_have_their_unit(text):
    with pytest.raises(ValueError, match="is not a"):
        _amount(text, "B/s")
