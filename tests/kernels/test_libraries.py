"""Rates of attention by libraries of training, against NVIDIA's measurements of cuDNN."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from statistics import geometric_mean, median

import pytest

from syncline import kernels
from syncline.estimate.measured import MEASURED
from syncline.kernels.fitting.libraries import ATTENTION, LIBRARIES, PRODUCTS

TABLE = Path(__file__).parents[2] / "validation" / "kernels" / "cudnn-attention.csv"
PRODUCTS_TABLE = TABLE.with_name("transformer-engine-products.csv")
FILES = {
    "H200-SXM-141GB": "H100-SXM5-80GB",
    "GB200-NVL72": "B200-SXM-180GB",
    "GB300-NVL72": "GB300-NVL72",
}
"""The file of models with the rates of each measured accelerator."""


def rows() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def predicted(row: dict[str, str], *, library: str, data_type: str, causal: bool, window: int, backward: bool) -> float:
    return (
        kernels.load(row["accelerator"])
        .attention(
            batch=int(row["batch"]),
            sequence=int(row["sequence"]),
            heads=int(row["heads"]),
            kv_heads=int(row["kv_heads"]),
            head_dim=(int(row["key_dim"]) + int(row["value_dim"])) // 2,
            data_type=data_type,
            causal=causal,
            window=window,
            backward=backward,
            library=library,  # type: ignore[arg-type]
        )
        .seconds
    )


def time_of(row: dict[str, str]) -> float:
    eight_bits = row["data_type"] != "bf16"
    return predicted(
        row,
        library="cudnn-mxfp8" if row["data_type"] == "mxfp8" else "cudnn",
        data_type="fp8" if eight_bits else "bf16",
        causal=row["causal"] == "yes",
        window=int(row["window"]),
        backward=row["direction"] == "backward",
    )


def test_shipped_models_have_the_rates_of_libraries() -> None:
    for operation, accelerators in LIBRARIES.items():
        for name, types in accelerators.items():
            document = json.loads((files("syncline") / "data" / "kernels" / f"{name}.json").read_text("utf-8"))
            sections = document.get("libraries", document)[operation]
            found = {each: section.get("libraries", section) for each, section in sections.items()}
            assert {each: rates for each, rates in found.items() if each in types} == types, (operation, name)


def over_measured(data_type: str, of: str, board: str = "B300-SXM-270GB", models: str = "B300") -> float:
    """Predicted over measured time of cuBLAS in the table, geometric mean of three passes."""
    with PRODUCTS_TABLE.open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if (row["accelerator"], row["data_type"]) == (board, data_type)]
    multiply = kernels.load(models).gemm
    times = []
    for row in found:
        tokens, hidden, between = (int(row[each]) for each in ("tokens", "hidden", "intermediate"))
        layers = [(hidden, 3 * hidden), (hidden, hidden), (hidden, between), (between, hidden)]
        shapes = {
            "forward": [(tokens, n, k) for k, n in layers],
            "input": [(tokens, k, n) for k, n in layers],
            "weights": [(k, n, tokens) for k, n in layers],
        }[row["gradient"] or "forward"]
        seconds = sum(multiply(m, n, k, data_type=of, library="cublas").seconds for m, n, k in shapes)
        times.append(seconds / float(row["seconds"]))
    assert len(times) == 3
    return geometric_mean(times)


def test_rates_of_cublas_are_those_of_the_table() -> None:
    """The clock under load cancels over products in FP8 with one scale for each tensor."""
    eight_bits = over_measured("fp8", "fp8")
    assert over_measured("mxfp8", "fp8") / eight_bits == pytest.approx(
        PRODUCTS["B300-SXM-270GB"]["fp8"]["cublas-mxfp8"]["rate"], rel=0.002
    )
    rate = PRODUCTS["B300-SXM-270GB"]["nvfp4"]["cublas"]["rate"]
    # The shipped file has the rate in it already.
    assert over_measured("nvfp4", "nvfp4") / eight_bits == pytest.approx(1.0, rel=0.002), rate
    # Products of 16 bits: the sustained load.
    assert over_measured("bf16", "bf16") == pytest.approx(MEASURED["B300-SXM-270GB"].sustained, rel=0.002)


def test_fp8_gains_on_hopper_what_was_measured() -> None:
    """An H200 NVL of 600 W has a lower clock than the measured H100 of 700 W, which cancels."""
    times = [over_measured(each, each, "H200-NVL", "H100") for each in ("bf16", "fp8")]
    assert times[1] / times[0] == pytest.approx(1.0, abs=0.03)


def test_rates_of_cudnn_are_those_of_the_table() -> None:
    rates: dict[tuple[str, str, str, str, int, str], list[float]] = defaultdict(list)
    for row in rows():
        if row["causal"] == "no" or int(row["sequence"]) > 16384:
            continue
        eight_bits, backward = row["data_type"] != "bf16", row["direction"] == "backward"
        # In 8 bits, the backward pass skips no window, and on Hopper nothing at all.
        hopper = row["accelerator"] == "H200-SXM-141GB"
        causal = not (eight_bits and backward and hopper)
        window = 0 if eight_bits and backward else int(row["window"])
        # The measured forward pass, whose rate is 1.
        shape = {
            "library": "measured",
            "data_type": "fp8" if eight_bits else "bf16",
            "causal": causal,
            "window": window,
        }
        once = predicted(row, **shape, backward=False)  # type: ignore[arg-type]
        head = (int(row["key_dim"]) + int(row["value_dim"])) // 2
        library = "cudnn-mxfp8" if row["data_type"] == "mxfp8" else "cudnn"
        # In 16 bits, kernels with a window have rates of their own.
        heads = "windowed" if int(row["window"]) and not eight_bits else "heads"
        key = (FILES[row["accelerator"]], "fp8" if eight_bits else "bf16", library, heads, head, row["direction"])
        rates[key].append((2.5 if backward else 1.0) * once / float(row["seconds"]))
    compared = 0
    for (name, data_type, library, heads, head, direction), found in rates.items():
        stated = {size: each for size, *each in ATTENTION[name][data_type][library][heads]}
        if head not in stated:
            assert head == 256, "Qwen 3.5, of which only the forward pass was measured"
            continue
        # Those of 128 in 16 bits on Hopper were measured apart, on an H100.
        tolerance = 0.03 if (name, data_type, head) == ("H100-SXM5-80GB", "bf16", 128) else 0.004
        expected = stated[head][direction == "backward"]
        assert geometric_mean(found) == pytest.approx(expected, rel=tolerance), (name, data_type, library, head)
        compared += 1
    assert compared == 44


def test_predictions_are_near_the_measured_kernels() -> None:
    errors: dict[str, list[float]] = defaultdict(list)
    for row in rows():
        error = abs(time_of(row) / float(row["seconds"]) - 1)
        # Sequences of 32,768 tokens and kernels without a mask made no rate.
        apart = row["causal"] == "no" or int(row["sequence"]) > 16384
        errors["apart" if apart else "causal"].append(error)
    assert len(errors["causal"]) > 200 and len(errors["apart"]) > 200
    assert median(errors["causal"]) < 0.045
    assert sorted(errors["causal"])[int(0.9 * len(errors["causal"]))] < 0.125
    assert median(errors["apart"]) < 0.08


def test_windows_do_not_shorten_the_backward_pass_in_8_bits() -> None:
    shape = {"batch": 4, "sequence": 4096, "heads": 64, "kv_heads": 64, "head_dim": 64, "library": "cudnn-mxfp8"}
    models = kernels.load("GB200")

    def seconds(window: int, *, backward: bool) -> float:
        return models.attention(**shape, data_type="fp8", window=window, backward=backward).seconds  # type: ignore[arg-type]

    assert seconds(128, backward=True) == seconds(0, backward=True)
    assert seconds(128, backward=False) < 0.5 * seconds(0, backward=False)


@pytest.mark.parametrize(("name", "fp8_over_bf16"), [("GB200", 1454 / 1332), ("GB300", 1781 / 1435)])
def test_heads_of_64_without_a_window_are_as_fast_as_measured_kernels_suggest(name, fp8_over_bf16):
    """Nobody measured them in 16 bits. In 8 bits, the backward pass with a window of 128 computes all that is without
    one: its rate, over what 8 bits gain with heads of 128 and 8,192 tokens, is that of 16 bits."""
    row = next(
        row
        for row in rows()
        if row["accelerator"].startswith(name)
        and (row["data_type"], row["direction"], row["sequence"], row["key_dim"]) == ("fp8", "backward", "8192", "64")
    )
    suggested = float(row["seconds"]) * fp8_over_bf16
    found = predicted(row, library="cudnn", data_type="bf16", causal=True, window=0, backward=True)
    assert found == pytest.approx(suggested, rel=0.15)
