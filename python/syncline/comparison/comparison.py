"""The comparison of two runs: all differences, and the answer in words."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.comparison import facts, inputs, pairs, verdict
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.report import subject
from syncline.result import Result

if TYPE_CHECKING:
    from syncline.comparison.facts import Fact
    from syncline.comparison.inputs import Change
    from syncline.comparison.pairs import CollectivePair, CostPair, DimensionPair, LayerPair, Pair, PathPair, PhasePair


class Comparison:
    """The comparison of two runs. Differences are B minus A, ratios B over A; times are per step, means over ranks."""

    def __init__(self, a: Result, b: Result) -> None:
        self.a = a
        """The first run."""
        self.b = b
        """The second run."""
        self.parts: tuple[Pair, ...] = pairs.parts(a.summary, b.summary)
        """The step, and its parts."""
        self.per_work: tuple[Pair, ...] = pairs.per_work(a.summary, b.summary)
        """Time per sample and per token, if both runs know how many of them a step has."""
        self.critical_path: tuple[PathPair, ...] = pairs.critical_path(a.summary, b.summary)
        """Parts of the critical paths."""
        self.cost_and_performance: tuple[CostPair, ...] = pairs.cost_and_performance(a.summary, b.summary)
        """Cost of the fabrics, and training performance per dollar."""
        self.changes: tuple[Change, ...] | None = None
        """Differences between the scenarios, in their order; None if one of them is unknown."""
        if a.scenario and b.scenario:
            self.changes = tuple(inputs.changes(a.scenario, b.scenario))
        self.dimensions: tuple[DimensionPair, ...] = pairs.dimensions(a.summary, b.summary)
        """Utilisation of each dimension."""
        self.model: tuple[LayerPair, ...] = pairs.layers(a, b, self.step.difference_s)
        """Layers, in the order of A and then of B."""
        self.layers: tuple[LayerPair, ...] = tuple(sorted(self.model, key=lambda each: -abs(each.difference_s)))
        """Layers, largest difference first."""
        self.collectives: tuple[CollectivePair, ...] = pairs.collectives(a, b)
        """Collectives by layer, part and kind, largest difference first."""
        self.phases: tuple[PhasePair, ...] = pairs.phases(a, b)
        """Phases of collectives, largest difference of delays first."""
        self.facts: tuple[Fact, ...] = tuple(facts.facts(a, b))
        """Other facts about the runs that differ, such as models and assumptions."""
        self.identical: bool = _identical(a, b)
        """Whether every number of both runs is the same."""
        self.warnings: tuple[str, ...] = tuple(verdict.warnings(self))
        """Reasons to be careful when comparing the two, one sentence or more each."""
        self.sentences: tuple[str, ...] = tuple(verdict.sentences(self))
        """What differs and why; the first sentence is the short answer."""

    @property
    def answer(self) -> str:
        """What differs and why, in a few sentences."""
        return " ".join(self.sentences)

    @property
    def step(self) -> Pair:
        """Time of a step; without a step, of the whole run."""
        return self.parts[0]

    @property
    def labels(self) -> tuple[str, str]:
        """Labels of the two runs: their folders, or else their names."""
        a, b = (each.folder.as_posix() if each.folder else subject.name(each) for each in (self.a, self.b))
        return a, b

    def json(self) -> dict[str, Any]:
        """The comparison as plain data, as ``syncline compare --json`` prints it."""

        def pair(each: Pair) -> dict[str, float | None]:
            return {"a_s": each.a_s, "b_s": each.b_s, "difference_s": each.difference_s, "ratio": each.ratio}

        def side(result: Result, label: str) -> dict[str, Any]:
            folder = result.folder.as_posix() if result.folder else None
            return {"label": label, "folder": folder, "version": result.version, "summary": result.summary.as_dict()}

        def shares(each: tuple[float | None, float | None]) -> dict[str, float | None]:
            return {"a": each[0], "b": each[1]}

        return {
            "answer": self.answer,
            "identical": self.identical,
            "warnings": list(self.warnings),
            "a": side(self.a, self.labels[0]),
            "b": side(self.b, self.labels[1]),
            "parts": [{"name": each.name, **pair(each)} for each in self.parts],
            "per_work": [{"name": each.name, **pair(each)} for each in self.per_work],
            "critical_path": [
                {"name": each.name, "a_per_mille": each.a, "b_per_mille": each.b} for each in self.critical_path
            ],
            "cost_and_performance": [
                {
                    "key": each.key,
                    "name": each.name,
                    "a": each.a,
                    "b": each.b,
                    "difference": each.difference,
                    "ratio": each.ratio,
                }
                for each in self.cost_and_performance
            ],
            "inputs": None if self.changes is None else [asdict(each) for each in self.changes],
            "dimensions": [
                {
                    "name": each.name,
                    "utilization": shares(each.utilization),
                    "utilization_while_busy": shares(each.utilization_while_busy),
                    "busiest_link_busy": shares(each.busiest_link_busy),
                }
                for each in self.dimensions
            ],
            "layers": [
                {
                    "name": each.name,
                    "only": each.only,
                    "compute": pair(each.compute),
                    "exposed_communication": pair(each.exposed),
                    "difference_s": each.difference_s,
                    "share": each.share,
                }
                for each in self.layers
            ],
            "collectives": [
                {"name": each.name, "only": each.only, "duration": pair(each.duration), "bound": pair(each.bound)}
                for each in self.collectives
            ],
            "phases": [
                {
                    "name": each.name,
                    "only": each.only,
                    "queue_delay": pair(each.queue),
                    "network_delay": pair(each.network),
                    "reduction": pair(each.reduction),
                }
                for each in self.phases
            ],
            "facts": [asdict(each) for each in self.facts],
        }

    def save(self, path: str | Path) -> None:
        """Writes the comparison as a self-contained HTML file."""
        from syncline.comparison.page import page
        from syncline.files import write_whole

        write_whole(path, page(self))

    def __repr__(self) -> str:
        return f"<Comparison: {self.answer}>"

    def __str__(self) -> str:
        from syncline.comparison.screen import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from syncline.comparison.page import overview

        return overview(self)


def compare(a: Result | str | Path, b: Result | str | Path) -> Comparison:
    """Compares two runs, given as results or as folders.

    Raises :class:`SynclineError` if a folder holds no results or damaged ones, or if both are the same run.
    """
    if a is b or (_folder(a) is not None and _folder(a) == _folder(b)):
        name = str(_folder(a) or "the same result")
        mark = Mark(Text(name if isinstance(a, Result) else str(a), ()), 0, 0, 0)
        raise_errors(error(Code.BAD_VALUE, "a run is compared with itself", mark=mark, help="name two different runs"))
    return Comparison(*(each if isinstance(each, Result) else Result.load(each, verify=True) for each in (a, b)))


def _folder(given: Result | str | Path) -> Path | None:
    folder = given.folder if isinstance(given, Result) else Path(given)
    if folder is None:
        return None
    return (folder.parent if folder.is_file() else folder).resolve()


def _identical(a: Result, b: Result) -> bool:
    if a.summary != b.summary or a.tables != b.tables:
        return False
    # Compare tables as text: missing values are NaN, which does not equal itself.
    return all(json.dumps(a.table(name)) == json.dumps(b.table(name)) for name in a.tables)
