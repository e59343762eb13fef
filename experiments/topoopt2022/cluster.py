"""Clusters of servers with four A100 each: searches for strategy and topology, beside other networks."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import syncline
from experiments.harness import plot
from experiments.harness.table import Table
from syncline.design import joint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.experiment import Findings
    from experiments.harness.runner import Runner

MODELS = ("candle", "bert", "dlrm")
"""The models of Figures 12 and 13, with the sizes of Table 2 (top row), which are the defaults."""
TITLES = {"candle": "CANDLE", "bert": "BERT", "dlrm": "DLRM"}
RATES = (10, 25, 40, 100, 200)
"""Gb/s of an interface."""
SERVERS = 128
ONESHOT = "oneshot"
COMPARED = {
    "ideal": "Ideal Fat-tree",
    "same_price": "Cost-equiv. Fat-tree",
    "expander": "Expander",
    "reconfigured": "TopoOpt-reconfig",
    "sip_ml": "SiP-ML",
}
"""Networks, by the search's names, with the paper's."""
ALIKE = 1.25
"""Step times within this factor count as alike: curves on the paper's logarithmic axes overlap."""
SMALL = {
    "candle": {"feature_width": 1024, "width": 1024, "batch": 16},
    "bert": {"blocks": 2, "batch": 4},
    "dlrm": {"tables": 8, "entries": 100_000, "bottom": 512, "top": 1024, "batch": 32},
}
"""Sizes of quick runs."""


@dataclass(frozen=True)
class Setting:
    """One search."""

    model: str
    degree: int
    gbps: float
    servers: int = SERVERS
    compare: Sequence[str] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the spec."""

    def spec(self, *, quick: bool) -> dict[str, Any]:
        """The spec of the search. Quick ones are small."""
        spec = {
            "model": self.model,
            "servers": 16 if quick else self.servers,
            "degree": self.degree,
            "link": f"{self.gbps}Gb/s",
            "latency": "1us",
            "compare": list(self.compare),
            **self.changes,
        }
        if quick:
            spec |= {"parameters": SMALL[self.model], "search": {"proposals": 100, "chains": 1}}
        return spec


@dataclass(frozen=True)
class Outcome:
    """What a search found, on direct links and on each network that they are compared with."""

    step_s: Mapping[str, float]
    """Seconds of a step, by network; ``oneshot`` are the direct links."""
    data_parallel_s: Mapping[str, float]
    """The same for data parallelism, on the networks that were searched."""
    diameter: int
    """Links of the longest route."""


def outcome(runner: Runner, setting: Setting) -> Outcome:
    """The outcome of a search."""
    spec = setting.spec(quick=runner.quick)
    return Outcome(**kept(runner, f"search-{setting.model}", spec, lambda: _search(spec)))


def kept(runner: Runner, what: str, said: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What ``make`` returns, as JSON, for the input ``said``; it is stored, so that later commands can reuse it."""
    text = json.dumps([syncline.__version__, syncline.__build__, said], sort_keys=True)
    path = runner.store.place / f"topoopt-{what}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if not path.exists() or runner.store.fresh:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make()), "utf-8")
    return json.loads(path.read_text("utf-8"))


def _search(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = joint.search(joint.read(spec))
    return {
        "step_s": {ONESHOT: found.answer.step_s, **{each.baseline.name: each.answer.step_s for each in found.others}},
        "data_parallel_s": {
            ONESHOT: found.data_parallel_s,
            **{each.baseline.name: each.answer.start_s for each in found.others if each.answer.start_s is not None},
        },
        "diameter": found.topology.diameter,
    }


def rates(runner: Runner) -> tuple[int, ...]:
    """Gb/s of an interface, swept in Figures 12 and 13."""
    return (10, 100) if runner.quick else RATES


def sweep(runner: Runner, degree: int) -> Table:
    """Step times by model, rate and network: Figures 12 and 13."""
    times = Table(
        "times",
        f"Time of a training step on {SERVERS} servers with {degree} interfaces each",
        ("model", "gbps", "oneshot_s", *(f"{name}_s" for name in COMPARED)),
    )
    for model in MODELS:
        for gbps in rates(runner):
            found = outcome(runner, Setting(model, degree, gbps, compare=tuple(COMPARED)))
            times.add(TITLES[model], gbps, found.step_s[ONESHOT], *(found.step_s[name] for name in COMPARED))
    return times


def plain(runner: Runner, degree: int) -> Table:
    """Step times of data parallelism by model and rate."""
    networks = (ONESHOT, "ideal", "same_price", "expander")
    times = Table(
        "data_parallel",
        "The same for data parallelism: all operators on all servers, except embedding tables",
        ("model", "gbps", *(f"{name}_s" for name in networks)),
    )
    for model in MODELS:
        for gbps in rates(runner):
            found = outcome(runner, Setting(model, degree, gbps, compare=tuple(COMPARED)))
            times.add(TITLES[model], gbps, *(found.data_parallel_s[name] for name in networks))
    return times


def over(times: Table, network: str, model: str | None = None) -> list[float]:
    """Step times of a network over those of the direct links."""
    wanted: dict[str, Any] = {} if model is None else {"model": model}
    pairs = zip(times.column(f"{network}_s", **wanted), times.column("oneshot_s", **wanted), strict=True)
    return [theirs / ours for theirs, ours in pairs]


def alike(times: Table, networks: Iterable[str], model: str) -> bool:
    """Whether the networks' steps are alike in each row of a model."""
    columns = zip(*(times.column(f"{name}_s", model=model) for name in networks), strict=True)
    return all(max(row) <= ALIKE * min(row) for row in columns)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def between(values: Sequence[float]) -> str:
    """The least and the greatest of some ratios."""
    low, high = min(values), max(values)
    return f"{low:.3g}x" if low == high else f"{low:.3g}x to {high:.3g}x"


def draw_sweep(findings: Findings) -> Figure:
    """Draws step time by rate, a panel for each model."""
    times = findings.table("times")
    figure, axes = plot.new(len(MODELS), width=8.5, height=3.0)
    for at, model in zip(axes, MODELS, strict=True):
        swept = times.column("gbps", model=TITLES[model])
        for index, (name, title) in enumerate({ONESHOT: "TopoOpt-oneshot", **COMPARED}.items()):
            plot.line(at, swept, times.column(f"{name}_s", model=TITLES[model]), title, index)
        at.set_xscale("log")
        at.set_yscale("log")
        at.set_xticks(swept, labels=[str(each) for each in swept], minor=False)
        at.tick_params(axis="x", which="minor", bottom=False)
        plot.decimal_ticks(at.yaxis)
        at.set_title(TITLES[model])
        at.set_xlabel("Gb/s of an interface")
    axes[0].set_ylabel("time of a step [s]")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
