"""Figure 11: raw communication of DLRM, layer by layer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from experiments.dlrm2020.apart import Draws, judged, medians
from experiments.dlrm2020.training import CHOICES, FOLDER, NETWORKS, SYSTEMS, WAYS, Runs, Training, cases, lost
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import counted, size, time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FIRST = Claim(
    "dlrm-fig11-first",
    "Fig. 11, IV.B obs. 1",
    "the all-reduce of the last top layer takes very little time: it is small, is issued first, and finishes before "
    "the next ones arrive.",
)
LIFO = Claim(
    "dlrm-fig11-lifo",
    "Fig. 11, IV.B obs. 1",
    "top layers 10 to 1, of equal size: the later an all-reduce is issued, the faster it finishes, because of LIFO.",
)
LARGEST = Claim(
    "dlrm-fig11-largest",
    "Fig. 11, IV.B obs. 2",
    "top layer 0 has the largest compute time and communication size.",
)
EXCHANGE = Claim(
    "dlrm-fig11-exchange",
    "Fig. 11, IV.B obs. 3",
    "all-to-all: flat800 is the best system, and flat is better than hierarchical, which needs two steps.",
)
BACKWARD = Claim(
    "dlrm-fig11-backward",
    "Fig. 11, IV.B obs. 3",
    "the all-to-all of back-propagation takes longer than that of the forward pass.",
)
REDUCE = Claim(
    "dlrm-fig11-reduce", "Fig. 11, IV.B obs. 4", "hierOpt is the best system for the latency of all-reduces."
)


def measure(runner: Runner) -> Findings:
    """Measures the raw communication of each layer on each system."""
    runs = Runs(runner).all()
    return Findings([_raw(runs)], judged(runs, _verdicts))


def _verdicts(runs: Mapping[str, Draws[Training]]) -> list[Verdict]:
    raw = _raw(runs)
    largest = _largest(runs["hier"].runs[0])
    return [_first(runs, raw), _lifo(raw), largest, _exchange(raw), _backward(runs, raw), _reduce(runs, raw)]


def _raw(runs: Mapping[str, Draws[Training]]) -> Table:
    draws = list(runs.values())
    first, count = draws[0].runs[0], len(draws[0].runs)
    spread = "; most over least: ratio over the seeds, on the system with the largest" if count > 1 else ""
    table = Table(
        "raw",
        "Raw communication in two iterations, from issue to result, mean over nodes: all-to-alls of the embedding, "
        f"all-reduces of the others{medians(count)}{spread}",
        (
            *("collective", "size_bytes", *(f"{system}_s" for system in runs)),
            *(["most_over_least_ratio"] if count > 1 else []),
        ),
    )

    def add(collective: str, size_bytes: int, layer: int, column: str) -> None:
        def value(run: Training) -> float:
            return float(run.layers[layer][column])

        ratios = [max(each.most(value) / each.least(value) for each in draws)] if count > 1 else []
        table.add(collective, size_bytes, *(each.median(value) for each in draws), *ratios)

    for way, column in zip(WAYS, ("forward_communication_s", "input_grad_communication_s"), strict=True):
        # The table of layers adds up the bytes of both all-to-alls.
        add(f"embedding {way}", first.layers[0]["collective_bytes"] // 2, 0, column)
    for index, layer in enumerate(first.layers[1:], 1):
        add(layer["layer"], layer["collective_bytes"], index, "weight_grad_communication_s")
    return table


def _tops(raw: Table) -> list[str]:
    return [name for name in raw.column("collective") if name.startswith("top")]


def _times(raw: Table, system: str, names: Sequence[str]) -> list[float]:
    by = dict(zip(raw.column("collective"), raw.column(f"{system}_s"), strict=True))
    return [by[name] for name in names]


def _first(runs: Mapping[str, Draws[Training]], raw: Table) -> Verdict:
    names = _tops(raw)
    last = {system: _times(raw, system, names)[-1] for system in SYSTEMS}
    others = {system: min(_times(raw, system, names[:-1])) for system in SYSTEMS}
    late = ", ".join(f"{time(draws.median(_lateness(names[-1])))} on {system}" for system, draws in runs.items())
    return FIRST.judged(
        all(10 * last[system] < others[system] for system in SYSTEMS),
        f"{names[-1]}: {', '.join(f'{system} {time(value)}' for system, value in last.items())}",
        f"It has {size(raw.column('size_bytes', collective=names[-1])[0])}, and nothing else is under way yet. Very "
        "little is read as less than a tenth of the shortest of the other top layers, which takes "
        f"{', '.join(f'{time(value)} on {system}' for system, value in others.items())}. No node has the result before "
        f"the last node issues {names[-1]}, which is up to {late} after the first.",
    )


def _lateness(layer: str) -> Callable[[Training], float]:
    """A function that returns how long after the first node the last one issues a layer's reduction, at most."""

    def latest(run: Training) -> float:
        sets = run.result.table("collectives")
        times = zip(sets["layer"], sets["part"], sets["issue_s"], sets["last_issue_s"], strict=True)
        return max(float(last - first) for name, part, first, last in times if (name, part) == (layer, "weight grad"))

    return latest


def _lifo(raw: Table) -> Verdict:
    equal = _tops(raw)[1:-1]
    faster = {system: sum(early < late for early, late in pairwise(_times(raw, system, equal))) for system in SYSTEMS}
    pairs = len(equal) - 1
    ends = ", ".join(
        f"{system} {time(values[-1])} to {time(values[0])}"
        for system in SYSTEMS
        for values in [_times(raw, system, equal)]
    )
    return LIFO.judged(
        all(count == pairs for count in faster.values()),
        f"the later one of two neighbours is faster in {', '.join(f'{s} {count}' for s, count in faster.items())} of "
        f"{pairs} pairs; {equal[-1]} to {equal[0]}: {ends}",
        f"{equal[-1]} is issued when the network is idle, and has it to itself until {equal[-2]} is issued; if that is "
        "long enough, it finishes before the order matters. The others wait for all that are issued after them.",
    )


def _largest(run: Training) -> Verdict:
    mlps = run.layers[1:]
    most = {column: max(mlps, key=lambda layer: layer[column])["layer"] for column in ("compute_s", "collective_bytes")}
    (top,) = (layer for layer in mlps if layer["layer"] == "top0")
    return LARGEST.judged(
        set(most.values()) == {"top0"},
        f"top0: compute {time(top['compute_s'])} in two iterations, {size(top['collective_bytes'])}; largest are "
        f"{most['compute_s']} and {most['collective_bytes']}",
        "Its inputs are the vectors of all tables and of the bottom MLP, concatenated.",
    )


def _exchange(raw: Table) -> Verdict:
    names = [f"embedding {way}" for way in WAYS]
    times = {system: sum(_times(raw, system, names)) for system in SYSTEMS}
    flat, hierarchical = (
        {system: times[system] for system in SYSTEMS if system.startswith(start)} for start in ("flat", "hier")
    )
    return EXCHANGE.judged(
        min(times, key=lambda system: times[system]) == "flat800" and max(flat.values()) < min(hierarchical.values()),
        f"four all-to-alls: {', '.join(f'{system} {time(value)}' for system, value in times.items())}",
        "A hierarchical all-to-all first moves data to the node with the receiver's number, and then sends as much "
        "between super-nodes as a flat one. Its time depends on which chunks of all-reduces have begun before it.",
    )


def _backward(runs: Mapping[str, Draws[Training]], raw: Table) -> Verdict:
    ways = {system: _times(raw, system, [f"embedding {way}" for way in WAYS]) for system in SYSTEMS}
    return BACKWARD.judged(
        all(backward > forward for forward, backward in ways.values()),
        ", ".join(f"{system} {time(back)} against {time(forth)}" for system, (forth, back) in ways.items()),
        "Both have priority over all-reduces, but wait for chunks that have begun. Nothing is under way at the first "
        f"forward all-to-all; all-reduces of the top layers are under way at the backward ones. {lost(runs)}",
    )


def _reduce(runs: Mapping[str, Draws[Training]], raw: Table) -> Verdict:
    names = [name for name in raw.column("collective") if not name.startswith("embedding")]
    sums = {system: sum(_times(raw, system, names)) for system in SYSTEMS}
    shortest = dict.fromkeys(SYSTEMS, 0)
    for name in names:
        shortest[min(SYSTEMS, key=lambda system: _times(raw, system, [name])[0])] += 1
    layers = [f"{counted(count, 'layer')} on {system}" for system, count in shortest.items() if count]
    links = ", ".join(f"{system} {size(round(draws.median(_scale_out)))}" for system, draws in runs.items())
    return REDUCE.judged(
        min(sums, key=lambda system: sums[system]) == "hierOpt",
        f"summed over layers: {', '.join(f'{system} {time(value)}' for system, value in sums.items())}; shortest in "
        f"{', '.join(layers)}",
        f"Bytes on scale-out links: {links}. hierOpt sends an eighth of what flat100 sends, over links of the same "
        "rate; flat800 sends all of it over links of eight times the rate, and has no steps in super-nodes.",
    )


def _scale_out(run: Training) -> int:
    return sum(dim.carried_bytes for dim in run.result.summary.dims if dim.name == "scale_out")


def draw(findings: Findings) -> Figure:
    """Draws a bar for each system and layer, all-to-alls on the left."""
    raw = findings.table("raw")
    figure, axes = plot.new(height=3.4)
    plot.grouped(axes, {system: [1e3 * value for value in raw.column(f"{system}_s")] for system in SYSTEMS})
    names = [name.replace("embedding ", "a2a ").replace("backward", "back") for name in raw.column("collective")]
    axes.set_xticks(range(len(names)), labels=names)
    axes.tick_params(axis="x", labelrotation=60)
    axes.set_yscale("log")
    plot.decimal_ticks(axes.yaxis)
    axes.set_ylabel("raw communication [ms]")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "raw communication of two iterations of DLRM, layer by layer, on four systems of 128 nodes",
    (FIRST, LIFO, LARGEST, EXCHANGE, BACKWARD, REDUCE),
    measure,
    draw,
    CHOICES,
    NETWORKS,
    cases,
)
