"""Error bars of estimates: how far estimates were from measured steps of jobs that are alike.

The numbers are those of ``validation/figures.json``, which ``make validate`` keeps; the package has a copy of them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from syncline.estimate.software import shipped
from syncline.input.arguments import Arguments
from syncline.input.base import Strict
from syncline.models import ModelError, accelerators
from syncline.quantity import counted, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.estimate.software import ConstantSet
    from syncline.models.architecture import Decoder

FILE = "estimate-errors.json"
FEW = 10
"""Rows from which on nine of ten are counted."""
Kind = Literal["dense", "experts", "adapters"]
"""Kinds of jobs: models without experts, models with experts, and fine-tuning of adapters alone (LoRA)."""
_JOBS: Mapping[Kind, str] = {
    "dense": "dense models",
    "experts": "models with experts",
    "adapters": "fine-tuning of adapters",
}
_Fraction = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]


class ErrorBar(Strict):
    """How far estimates are from measured steps that are alike: ``|estimated / measured - 1|``."""

    rows: _Count
    """Measured steps."""
    median: _Fraction
    """Median error."""
    mean: _Fraction
    """Mean error."""
    p90: _Fraction
    """90th percentile of the errors."""
    largest: _Fraction
    """Largest error."""
    gpus: _Count
    """The most accelerators of a measured step."""
    sequence: _Count
    """The longest sequence of a measured step, in tokens."""

    @property
    def likely(self) -> float:
        """The error that the bar shows: the 90th percentile, or the largest error of few rows."""
        return self.p90 if self.rows >= FEW else self.largest

    def around(self, step_s: float) -> tuple[float, float | None]:
        """The shortest and longest step, in seconds, that is within :attr:`likely` of an estimate; None: no longest."""
        error = self.likely
        return step_s / (1 + error), step_s / (1 - error) if error < 1 else None


def kind_of(architecture: Decoder, *, adapters: bool = False) -> Kind:
    """The kind of a job that trains a model, or only adapters of it."""
    if adapters:
        return "adapters"
    return "dense" if architecture.experts is None else "experts"


def name_of(constants: str, accelerator: str, kind: Kind) -> str:
    """The name of jobs that are alike: set of constants, accelerator and kind of job."""
    return f"{constants} {accelerator} {kind}"


def error_bar(constants: str, accelerator: str, kind: Kind) -> ErrorBar | None:
    """The error bar of jobs that are alike; None if no such job was measured, so that an estimate extrapolates.

    :param constants: the name of a set of :func:`~syncline.estimate.shipped`.
    :param accelerator: its name in ``data/accelerators.yaml``, one of its other names, or one of a user's own.
    :raises SynclineError: there is no such set or kind.
    """
    with Arguments() as check:
        check.word("constants", constants, shipped())
        check.word("kind", kind, _JOBS)
        check.instance("accelerator", accelerator, str, "a name such as H100")
    try:
        accelerator = accelerators.find(accelerator).name
    except ModelError:
        return None
    return _bars().get(name_of(constants, accelerator, kind))


def sentences(
    bar: ErrorBar | None, accelerator: str, kind: Kind, *, gpus: int, sequence: int, kernels: str | None = None
) -> list[str]:
    """Explains the error bar of an estimate with this number of accelerators and this sequence length.

    :param kernels: a user's own file of kernel models, if the estimate has its times from one.
    """
    jobs = f"{_JOBS[kind]} on {accelerator}"
    if kernels is not None:
        return [f"Error bar: none. No measured step of {jobs} was compared with times of kernels of {kernels}."]
    if bar is None:
        return [f"Error bar: none. No step of {jobs} was measured with this software, so this is an extrapolation."]
    if bar.rows >= FEW:
        within = f"half of {bar.rows} estimates of {jobs} were within {percent(bar.median)} of the measured step"
        within += f", and nine of ten within {percent(bar.p90)}"
    elif bar.rows > 1:
        within = f"all {bar.rows} estimates of {jobs} were within {percent(bar.largest)} of the measured step"
    else:
        within = f"the only estimate of {jobs} was within {percent(bar.largest)} of the measured step"
    found = [f"Error bar: {within}."]
    beyond = [f"{bar.gpus:,} accelerators"] if gpus > bar.gpus else []
    beyond += [f"sequences of {bar.sequence:,} tokens"] if sequence > bar.sequence else []
    if beyond:
        found.append(f"None of these had more than {' or '.join(beyond)}: beyond that, the estimate extrapolates.")
    return found


def own_sentences(file: str, used: ConstantSet, kind: Kind) -> list[str]:
    """Says to what a user's own constants were fitted, and how near that is, in place of an error bar."""
    experts = kind == "experts"
    rows, errors = (used.expert_rows, used.expert_errors) if experts else (used.rows, used.errors)
    fitted = f"fitted to {counted(rows, 'run')} of models {'with' if experts else 'without'} experts"
    said = f"Error bar: none. Constants are those of {file}, {fitted}."
    if errors is None:
        return [said]
    near = f"half of {errors.rows} were within {percent(errors.median)}, and nine of ten within {percent(errors.p90)}"
    return [said, f"Predicted by a fit without their model, {near}."]


@cache
def _bars() -> Mapping[str, ErrorBar]:
    text = (files("syncline") / "data" / FILE).read_text("utf-8")
    return {name: ErrorBar(**numbers) for name, numbers in json.loads(text).items()}
