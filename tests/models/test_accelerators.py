"""Accelerators: the file is complete and has sources, and accelerators are found by name."""

import pytest

from syncline.models import DATA_TYPES, ModelError
from syncline.models.accelerators import _amount, find, load
from syncline.models.types import PRECISIONS

NAMES = [
    "V100-SXM2-16GB",
    "V100-SXM2-32GB",
    "A100-SXM4-40GB",
    "A100-SXM4-80GB",
    "H100-SXM5-80GB",
    "H200-SXM-141GB",
    "B200-SXM-180GB",
    "GB200-NVL72",
    "B300-SXM-270GB",
    "GB300-NVL72",
    "H800-SXM5-80GB",
    "H20-SXM5-96GB",
]


def test_the_list_contains_every_accelerator():
    assert list(load()) == NAMES


@pytest.mark.parametrize("accelerator", load().values(), ids=lambda a: a.name)
def test_every_number_has_a_source_and_a_plausible_size(accelerator):
    assert set(accelerator.sources) == {"peak", "memory", "scale_up", "power"}
    assert all("NVIDIA" in source and "20" in source for source in accelerator.sources.values())
    peak = accelerator.peak_flop_per_s
    assert {"fp64", "fp32", "fp16"} <= set(peak) <= set(DATA_TYPES)
    assert peak["fp64"] <= peak["fp32"] <= peak["fp16"]
    assert all(10**12 <= rate < 10**16 for rate in peak.values())
    assert 10**10 < accelerator.memory_bytes < 10**12
    assert 10**11 < accelerator.memory_bytes_per_s < 10**13


@pytest.mark.parametrize(
    ("name", "both_directions"), [("V100", 300), ("A100", 600), ("H100", 900), ("H200", 900), ("B200", 1800)]
)
def test_links_add_up_to_the_rates_of_data_sheets(name, both_directions):
    assert 2 * find(name).scale_up.bytes_per_s == both_directions * 10**9


def test_boards_draw_what_the_data_sheets_say():
    watts = {"V100": 300, "A100": 400, "H100": 700, "H200": 700, "B200": 1000, "GB200": 1200}
    assert {name: find(name).board_w for name in watts} == watts


def test_rates_are_those_of_the_data_sheets():
    assert find("V100").peak_flop_per_s["fp16"] == 125 * 10**12
    assert find("A100").peak_flop_per_s["tf32"] == 156 * 10**12
    assert find("A100-40GB").memory_bytes_per_s == 1555 * 10**9
    assert find("H100").peak_flop_per_s["fp8"] == 1_978_900 * 10**9


def test_an_accelerator_becomes_a_roofline():
    assert find("A100").roofline(PRECISIONS["bf16"]) == {
        "model": "roofline",
        "accelerator": "A100-SXM4-80GB",
        "peak": "312TFLOP/s",
        "memory": "2.039TB/s",
    }


@pytest.mark.parametrize("name", ["a100", "A100-80gb", "A100-SXM4-80GB"])
def test_an_accelerator_is_found_in_any_case(name):
    assert find(name).name == "A100-SXM4-80GB"


def test_no_two_accelerators_share_a_name():
    names = [name.lower() for each in load().values() for name in (each.name, *each.aliases)]
    assert len(names) == len(set(names))


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ModelError) as caught:
        find("H1000")
    assert (caught.value.key, caught.value.nearest) == ("accelerator", "H100")


@pytest.mark.parametrize("name", ["MI300X", "TPU v5e", "L40S"])
def test_another_product_gets_no_suggestion(name):
    with pytest.raises(ModelError) as caught:
        find(name)
    assert caught.value.nearest is None


def test_capacities_match_nvidia_smi():
    """Capacities match the MiB shown by nvidia-smi, within the half per cent that ECC and the driver use."""
    found = {"A100": 81_920, "A100-40GB": 40_960, "H100": 81_559, "H200": 143_771, "B200": 183_359}
    found |= {"B300": 275_040, "GB300": 284_208}
    for name, mebibytes in found.items():
        assert 0.994 < mebibytes * 2**20 / find(name).memory_bytes <= 1


def test_with_fp8_other_operations_run_in_bf16():
    fp8 = find("H100").roofline(PRECISIONS["fp8"])
    assert (fp8["peak"], fp8["peaks"]) == ("1.9789PFLOP/s", {"bf16": "989.4TFLOP/s"})
    assert "peaks" not in find("H100").roofline(PRECISIONS["tf32"])


def test_a_missing_data_type_is_refused():
    with pytest.raises(ModelError) as caught:
        find("V100").roofline(PRECISIONS["bf16"])
    assert (caught.value.key, caught.value.allowed) == ("precision", "one of fp32, fp16, fp64")


def test_changing_the_loaded_list_has_no_side_effect():
    load().clear()
    assert list(load()) == NAMES


@pytest.mark.parametrize("text", ["12", "12GB", "1.5B/s", "-1GB/s", "1 GB/s", "GB/s"])
def test_amounts_without_a_valid_unit_are_refused(text):
    with pytest.raises(ValueError, match="is not a"):
        _amount(text, "B/s")
