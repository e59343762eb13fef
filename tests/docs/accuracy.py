"""Figures of predictions in the documentation, from ``validation/figures.json`` and the package's constants."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from syncline.estimate.software import Software, shipped
from syncline.validation import load
from syncline.validation.groups import GROUPS, MEMORY
from tests.docs import public
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from syncline.nccl.machine import Errors

FIGURES = ROOT / "validation" / "figures.json"
RUNS = ROOT / "validation" / "runs.csv"
ROWS: Mapping[str, str] = {
    "h100-dense": "NVIDIA's recipes on H100, dense models; a model left out at a time",
    "blackwell-dense": "the same on B200 and GB200, by constants of H100",
    "blackwell-ultra-dense": "the same on B300 and GB300, of which three runs calibrate the clock of GB300",
    "mlperf-405b": "Llama 3.1 405B of MLPerf Training, nothing fitted",
    "korthikanti": "Megatron on A100 (Korthikanti et al.), nothing fitted",
    "vtrain": "Megatron-DeepSpeed on A100 (vTrain), in sample",
    "fsdp": "FSDP (torchtitan, MosaicML, InternEvo), in sample",
    "nanotron": "nanotron on H100, filtered on inputs, in sample",
    "simumax-dense": "Megatron on one server of B200 (SimuMax), dense models, nothing fitted",
    "experts": "models with experts; a model left out at a time",
    "experts-others": "Grok-1 and Llama 4; a model left out at a time",
}
"""The groups of the page, and what it calls them."""
_DEFAULTS = {"True": "yes", "False": "no", "None": ""}
NUMBERS = ("median", "mean", "p90", "largest")
HEAD = ("median", "mean", "90th percentile", "largest")


def groups() -> Iterator[list[str]]:
    """A row for each group; errors that miss their bar are bold."""
    figures = json.loads(FIGURES.read_text("utf-8"))
    by_name = {group.name: group for group in GROUPS}
    yield ["rows", "number", *HEAD, "bar"]
    for name, title in ROWS.items():
        found, bar = figures[name], by_name[name].bar
        bars = {each: None if bar is None else getattr(bar, each) for each in NUMBERS}
        cells = [_against(found[each], bars[each]) for each in NUMBERS]
        limits = [f"{head} {100 * bars[each]:g}" for each, head in zip(NUMBERS, HEAD, strict=True) if bars[each]]
        yield [title, str(found["rows"]), *cells, ", ".join(limits) or "none"]


def nanotron() -> str:
    """Memory of nanotron's rows, and its fastest configurations."""
    figures = json.loads(FIGURES.read_text("utf-8"))
    memory, fastest = figures["memory"], figures["fastest"]
    median, mean = (_against(memory[name], getattr(MEMORY, name)) for name in ("median", "mean"))
    return (
        f"The memory of nanotron's rows has a median error of {median} % (bar {100 * MEMORY.median:g} %) and a mean of"
        f" {mean} % (bar {100 * MEMORY.mean:g} %). For {_percent(memory['fits'])} % of the runs (bar"
        f" {100 * MEMORY.accuracy:g} %), the estimate is right about whether they fit. Of {fastest['cells']}"
        " combinations of model and number of servers, the configuration that is predicted to be fastest is within 5 %"
        f" of the fastest measured one in {fastest['near']}; in {fastest['among_first']}, the fastest measured one is"
        " among the first three predicted."
    )


def measured_steps() -> int:
    """How many measured steps predictions are compared with."""
    return sum(row.run.step_s is not None for row in load(str(RUNS)).rows)


def held_out() -> Iterator[list[str]]:
    """Errors of each set of constants with a model left out of its fit at a time."""
    yield ["set of constants", "rows", "median", "90th percentile", "largest"]
    for name, each in shipped().items():
        for errors, kind in ((each.errors, ""), (each.expert_errors, ", constants of experts")):
            if errors is not None:
                yield [f"`{name}`{kind}", str(errors.rows), *_errors(errors)]


def constants() -> Iterator[list[str]]:
    """Each constant, its meaning, and its value in each set that has values of its own; empty: the default."""
    sets = {name: each.constants for name, each in shipped().items() if name != "automodel"}
    yield ["constant", "meaning", "default", *(f"`{name}`" for name in sets)]
    for name, default, meaning in public.fields(public.definition(Software.__module__, "Software")):
        values = [_value(getattr(each, name)) if name in each.model_fields_set else "" for each in sets.values()]
        yield [f"`{name}`", meaning, _DEFAULTS.get(default, default.strip("'")), *values]


def _errors(errors: Errors) -> list[str]:
    return [_percent(part) for part in (errors.median, errors.p90, errors.largest)]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:.4g}"


def _against(part: float, most: float | None) -> str:
    text = _percent(part)
    return f"**{text}**" if most is not None and part > most else text


def _percent(part: float) -> str:
    return f"{100 * part:.1f}"
