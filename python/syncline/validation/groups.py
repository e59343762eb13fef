"""The groups of rows, and the bars that predictions of each must keep.

A row belongs to the first group that holds it. Whether it does depends on its inputs, and for nanotron also on the
predicted memory; never on what was measured. ``docs/explanation/validation.md`` explains the groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from syncline.validation.outcome import Fits, Outcome, Spread

NVIDIA = ("nemo", "bridge", "dgxc")
"""Data sets of NVIDIA's published tables."""
EXPERT_FAMILIES = ("deepseek-v3", "qwen3", "mixtral", "gpt-oss", "kimi")
"""How names of the models with experts begin that have a bar."""
SOURCES = {
    "automodel": "NeMo Automodel",
    "bloom": "BigScience, BLOOM",
    "bridge": "NeMo, Megatron-Bridge",
    "dgxc": "DGX Cloud recipes",
    "internevo": "InternEvo",
    "korthikanti": "Korthikanti et al. 2022",
    "long-sequence": "NeMo, long sequences",
    "maxtext": "MaxText",
    "megatron-core": "Megatron Core",
    "mlperf": "MLPerf Training",
    "model-zoo": "Megatron MoE model zoo",
    "mosaic": "MosaicML LLM Foundry",
    "nanotron": "nanotron",
    "nemo": "NeMo, older releases",
    "own": "own rows",
    "sc21": "Narayanan et al. 2021",
    "simumax": "SimuMax",
    "torchtitan": "torchtitan",
    "vtrain": "vTrain",
}
"""Titles of data sets, by the column ``dataset``."""
SETS = {
    "a100": "A100",
    "experts": "experts",
    "fsdp": "FSDP",
    "gb300": "GB300",
    "h100": "H100",
    "nanotron": "nanotron",
}
"""Titles of what constants are fitted to, by the column ``calibrates``."""
ROOM = 68 * 2**30
"""Predicted memory from which nanotron's rows are not compared: near the limit its allocator slows runs down."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a group's errors may be at most, as fractions; None: no bar."""

    mean: float | None = None
    median: float | None = None
    p90: float | None = None
    largest: float | None = None

    def missed(self, spread: Spread | None) -> list[str]:
        """The names of the bars that errors miss."""
        if spread is None:
            return []
        return [
            name
            for name in ("median", "mean", "p90", "largest")
            if (most := getattr(self, name)) is not None and getattr(spread, name) > most
        ]

    @property
    def outlier(self) -> float | None:
        """The error beyond which a row is an outlier: twice the bar of the 90th percentile.

        Without such a bar, the bar of the largest error, or four times that of the mean.
        """
        if self.p90 is not None:
            return 2 * self.p90
        return self.largest if self.largest is not None else None if self.mean is None else 4 * self.mean


@dataclass(frozen=True, slots=True)
class Group:
    """Some rows that are judged together."""

    name: str
    title: str
    holds: Callable[[Outcome], bool]
    bar: Bar | None = None
    held_out: bool = False
    """Whether each model's rows must be predicted without having been fitted: a model is left out at a time."""


def _dense(of: Outcome) -> bool:
    return of.model.experts is None


def _nvidia_dense(*clusters: str) -> Callable[[Outcome], bool]:
    def holds(of: Outcome) -> bool:
        run = of.run
        return run.dataset in NVIDIA and run.task == "pretrain" and _dense(of) and run.cluster in clusters

    return holds


def _set(*names: str) -> Callable[[Outcome], bool]:
    return lambda of: of.run.dataset in names


def _nanotron(of: Outcome) -> bool:
    if of.run.dataset != "nanotron" or of.run.step_s is None or not of.run.passes("inputs"):
        return False
    memory = None if of.prediction is None else of.prediction.memory_bytes
    return memory is None or memory < ROOM


def _experts(of: Outcome) -> bool:
    return not _dense(of) and of.run.task == "pretrain" and of.run.model.startswith(EXPERT_FAMILIES)


GROUPS = (
    Group("korthikanti", "Megatron on A100 (Korthikanti)", _set("korthikanti"), Bar(mean=0.03, largest=0.08)),
    Group("sc21", "Megatron on A100 (SC21, Table 1)", _set("sc21")),
    Group(
        "vtrain",
        "Megatron and DeepSpeed on A100 (vTrain)",
        _set("vtrain"),
        Bar(median=0.03, mean=0.055, p90=0.14),
    ),
    Group(
        "h100-dense",
        "NVIDIA's recipes on H100, dense",
        _nvidia_dense("dgx-h100"),
        Bar(mean=0.035, p90=0.07, largest=0.12),
        held_out=True,
    ),
    Group(
        "blackwell-dense",
        "NVIDIA's recipes on Blackwell, dense",
        _nvidia_dense("dgx-b200", "gb200-nvl72"),
        Bar(mean=0.06, p90=0.12, largest=0.20),
    ),
    Group(
        "blackwell-ultra-dense",
        "NVIDIA's recipes on Blackwell Ultra, dense",
        _nvidia_dense("dgx-b300", "gb300-nvl72"),
        Bar(mean=0.06, p90=0.12, largest=0.20),
    ),
    Group(
        "mlperf-405b",
        "MLPerf Training, Llama 3.1 405B",
        lambda of: of.run.dataset == "mlperf" and of.run.model == "llama3-405b",
        Bar(mean=0.025, p90=0.05, largest=0.08),
    ),
    Group(
        "mlperf-lora", "MLPerf Training, LoRA of Llama 2 70B", lambda of: _set("mlperf")(of) and of.run.task == "lora"
    ),
    Group("mlperf-others", "MLPerf Training, GPT-3 and Llama 3.1 8B", _set("mlperf")),
    Group(
        "simumax-dense",
        "One server of B200, dense (SimuMax)",
        lambda of: of.run.dataset == "simumax" and _dense(of),
        Bar(mean=0.04),
    ),
    Group("simumax-experts", "One server of B200, experts (SimuMax)", _set("simumax")),
    Group(
        "experts",
        "Models with experts",
        _experts,
        Bar(mean=0.08, p90=0.16),
        held_out=True,
    ),
    Group("experts-others", "Other models with experts", lambda of: not _dense(of)),
    Group(
        "fsdp",
        "FSDP (torchtitan, MosaicML, InternEvo)",
        _set("torchtitan", "mosaic", "internevo"),
        Bar(mean=0.06, p90=0.12),
    ),
    Group("nanotron", "nanotron on H100, filtered on inputs", _nanotron, Bar(median=0.04, mean=0.09, p90=0.16)),
    Group("nanotron-others", "nanotron on H100, other rows", _set("nanotron")),
    Group("finetuning", "NVIDIA's recipes, fine-tuning", lambda of: of.run.task != "pretrain"),
    Group("long-sequences", "NeMo, long sequences", _set("long-sequence")),
    Group("bloom", "BigScience's trial runs of BLOOM", _set("bloom")),
    Group("others", "Other rows", lambda _: True),
)
"""All groups, in the order in which they are tried and shown."""


@dataclass(frozen=True, slots=True)
class MemoryBar:
    """What the memory of some rows must keep."""

    median: float
    mean: float
    accuracy: float
    """Fraction of rows for which it is predicted right whether they fit."""

    def missed(self, spread: Spread | None, fits: Fits | None) -> list[str]:
        """The names of the bars that are missed."""
        found = (
            []
            if spread is None
            else [name for name in ("median", "mean") if getattr(spread, name) > getattr(self, name)]
        )
        return found + (["fits"] if fits is not None and fits.accuracy < self.accuracy else [])


MEMORY = MemoryBar(median=0.05, mean=0.11, accuracy=0.94)
"""The bar of nanotron's rows with tensor parallelism up to 8."""


def in_memory_bar(of: Outcome) -> bool:
    """Whether a row counts for :data:`MEMORY`."""
    return of.run.dataset == "nanotron" and of.run.tp <= 8


def grouped(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each group by its name, in the order of :data:`GROUPS`; groups without rows are left out."""
    found: dict[str, list[Outcome]] = {group.name: [] for group in GROUPS}
    for each in outcomes:
        found[next(group.name for group in GROUPS if group.holds(each))].append(each)
    return {name: rows for name, rows in found.items() if rows}


def group(name: str) -> Group:
    """The group of a name."""
    return next(each for each in GROUPS if each.name == name)
