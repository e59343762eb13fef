"""Error bars come from measured steps that are alike, say what they are, and say when nothing alike was measured."""

from __future__ import annotations

import json
import os
from importlib.resources import files

import pytest

from syncline.estimate import ErrorBar, error_bar, kind_of
from syncline.estimate.error_bars import FILE, name_of, sentences
from syncline.validation.alike_rows import alike
from tests.validation.rows import FOLDER, MODELS, outcome

BAR = ErrorBar(rows=20, median=0.04, mean=0.05, p90=0.1, largest=0.3, gpus=1024, sequence=8192)


def test_the_package_has_the_error_bars_of_the_repository():
    """``UPDATE=1`` copies them, after ``syncline validate runs --figures validation/figures.json --update``."""
    figures = json.loads((FOLDER / "figures.json").read_text("utf-8"))
    bars = {name: numbers for name, numbers in figures.items() if "gpus" in numbers}
    kept = files("syncline") / "data" / FILE
    if os.environ.get("UPDATE"):
        kept.write_text(json.dumps(bars, indent=1) + "\n", "utf-8")
    assert json.loads(kept.read_text("utf-8")) == bars, "run again with UPDATE=1"


def test_dense_models_and_models_with_experts_have_bars_of_their_own():
    dense = error_bar("megatron", "H100-SXM5-80GB", kind_of(MODELS["llama3-8b"]))
    experts = error_bar("megatron", "H100-SXM5-80GB", kind_of(MODELS["deepseek-v3"]))
    adapters = error_bar("megatron", "H100-SXM5-80GB", kind_of(MODELS["llama3-8b"], adapters=True))
    assert dense is not None and experts is not None and adapters is not None
    assert dense.p90 < experts.p90 and dense.p90 < adapters.p90


def test_nothing_alike_means_no_bar():
    assert error_bar("megatron-a100", "A100-SXM4-80GB", "experts") is None
    (said,) = sentences(None, "A100-SXM4-80GB", "experts", gpus=8, sequence=2048)
    assert said == (
        "Error bar: none. No step of models with experts on A100-SXM4-80GB was measured with this software, so this is"
        " an extrapolation."
    )


def test_rows_are_alike_by_constants_accelerator_and_kind():
    of_nemo = {"framework": "megatron", "cluster": "dgx-h100", "gpus": 64}
    rows = [
        outcome(5.0 * 1.1, **of_nemo, sequence=4096),
        outcome(5.0 * 0.8, **{**of_nemo, "gpus": 128}),
        outcome(5.0 * 1.3, **of_nemo, model="mixtral-8x7b"),
        outcome(5.0 * 1.4, **of_nemo, task="lora"),
        outcome(5.0 * 9.0, **of_nemo, task="sft"),
        outcome(5.0 * 1.2, framework="megatron", cluster="dgx-b200"),
        outcome(5.0 * 1.5, framework="unheard-of"),
        outcome(None, **of_nemo),
    ]
    found = alike(rows)
    assert list(found) == [
        "megatron B200-SXM-180GB dense",
        "megatron H100-SXM5-80GB adapters",
        "megatron H100-SXM5-80GB dense",
        "megatron H100-SXM5-80GB experts",
    ]
    both = found[name_of("megatron", "H100-SXM5-80GB", "dense")]
    assert (both.step.rows, both.gpus, both.sequence) == (2, 128, 8192)
    assert both.step.largest == pytest.approx(0.2)


def test_a_bar_holds_the_steps_whose_estimate_has_its_error():
    low, high = BAR.around(11.0)
    # |11 / measured - 1| is 0.1 at both ends.
    assert abs(11.0 / low - 1) == pytest.approx(0.1)
    assert abs(11.0 / high - 1) == pytest.approx(0.1)
    assert BAR.model_copy(update={"p90": 1.2}).around(1.0) == (pytest.approx(1 / 2.2), None)


def test_few_rows_count_by_the_largest_error():
    few = BAR.model_copy(update={"rows": 3})
    assert (BAR.likely, few.likely) == (0.1, 0.3)
    assert "all 3 estimates" in sentences(few, "H100", "dense", gpus=8, sequence=2048)[0]
    one = BAR.model_copy(update={"rows": 1})
    assert "the only estimate" in sentences(one, "H100", "dense", gpus=8, sequence=2048)[0]


def test_what_is_beyond_the_measured_steps_is_said():
    assert len(sentences(BAR, "H100", "dense", gpus=1024, sequence=8192)) == 1
    said = sentences(BAR, "H100", "dense", gpus=2048, sequence=16384)[1]
    assert "more than 1,024 accelerators or sequences of 8,192 tokens" in said
