"""Figure 7: how long a single all-reduce takes, and how far that is from the analytical model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.dlrm2020.all_reduce import (
    BYTES,
    CHOICES,
    FOLDER,
    NETWORKS,
    SCENARIOS,
    SIZES,
    Grid,
    Single,
    apart,
    cases,
    column,
    configurations,
    lost,
    near,
    over,
    ratio,
    used,
)
from experiments.dlrm2020.apart import Draws
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import percent, size, time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner

SKEWS_S = (0.0, 1e-7, 5e-7, 2e-6, 2e-5)
"""Largest differences between nodes' start times: from zero to much longer than a round trip."""

INSERTION = Claim(
    "dlrm-01",
    "IV.A.1",
    "one all-reduce of 8 MB over links of 100 Gb/s, analytically: the insertion delay 2 x 8 MB / 100 Gb/s is 1.28 ms.",
)
MILD = Claim(
    "dlrm-02",
    "Fig. 7, obs. 1",
    "A2A, 128 nodes on one switch, 64 MB of switch buffer, 8 MB: it takes 1.37 times the analytical time.",
)
COLLAPSE = Claim(
    "dlrm-05",
    "obs. 1",
    "A2A, 64 MB of switch buffer, 16 MB: it takes more than 50 times the analytical time.",
)
CROSSING = Claim(
    "dlrm-07",
    "obs. 2",
    "64 MB of switch buffer: DBT is better for smaller all-reduces, A2A for larger ones.",
)
CLOSE = Claim(
    "dlrm-09",
    "obs. 3",
    "DBT, 1 GB of switch buffer, 8 to 256 MB: within 16 % of the analytical time, links nearly 100 % used, and no "
    "retransmission.",
)


def measure(runner: Runner) -> Findings:
    """Times both algorithms with both buffers at every size."""
    grid = Grid(runner)
    tables = [
        grid.table(
            "completion",
            "From the first node's start to the last node's end; analytical: 2 D / 100 Gb/s",
            "_s",
            lambda run: run.completion_s,
            first="analytical_s",
        ),
        grid.table("deviation", "Completion over analytical", "_ratio", over),
    ]
    if runner.usual:
        tables.append(grid.spreads())
    if runner.usual and not runner.quick:
        tables.append(_skew(runner))
    verdicts = [_insertion(runner, grid), _mild(grid), _collapse(grid), _crossing(grid), _close(grid)]
    return Findings(tables, verdicts)


def simulated(runner: Runner) -> Sequence[Case]:
    """The cases of Figures 7 to 10, and those of the table ``skew``."""
    starts = [runner.case(SCENARIOS["A2A"], _start(skew), weight=SIZES[0]) for skew in SKEWS_S]
    return [*cases(runner), *(starts if runner.usual and not runner.quick else [])]


def _start(skew: float) -> Mapping[str, Any]:
    return {BYTES: f"{SIZES[0]}B", **(apart(skew) if skew else {})}


def _skew(runner: Runner) -> Table:
    """A2A of 8 MB, with nodes that start at different times."""
    table = Table(
        "skew",
        "A2A of 8 MB with 64 MB of switch buffer, by the largest difference between nodes' start times",
        ("start_skew_s", "completion_s", "over_analytical_ratio", "longest_queue_bytes", "retransmissions", "timeouts"),
    )
    for skew in SKEWS_S:
        run = Single("A2A", "64 MB", SIZES[0], runner.simulate(SCENARIOS["A2A"], _start(skew)))
        again, timeouts = run.packets.retransmissions, run.packets.timeouts
        table.add(skew, run.completion_s, run.over_analytical, run.longest_queue, again, timeouts)
    return table


def _insertion(runner: Runner, grid: Grid) -> Verdict:
    first = grid["A2A", "64 MB", grid.sizes[0]].runs[0]
    models = [
        Single(
            name, first.buffer, first.size, runner.simulate(scenario, {BYTES: f"{first.size}B"}, network="analytical")
        )
        for name, scenario in SCENARIOS.items()
    ]
    both = " and ".join(f"{time(run.completion_s)} for {run.algorithm}" for run in models)
    return INSERTION.judged(
        near(first.analytical_s, 1.28e-3) and all(near(run.completion_s, 1.28e-3) for run in models),
        f"{time(first.analytical_s)}; the network model analytical simulates {both}",
        "A node sends 2 x 127/128 of 8 MB with A2A, and at most 2 x 8 MB over both trees of DBT; latency is the rest. "
        "Headers are left out: a segment of 1448 B is 1502 B on the wire.",
    )


def _mild(grid: Grid) -> Verdict:
    draws = grid["A2A", "64 MB", SIZES[0]]
    return MILD.judged(near(draws.median(over), 1.37), _times(draws), lost(draws))


def _collapse(grid: Grid) -> Verdict:
    draws = grid["A2A", "64 MB", SIZES[1]]
    return COLLAPSE.judged(draws.median(over) > 50, _times(draws), lost(draws))


def _times(draws: Draws[Single]) -> str:
    return f"ratio {draws.said(over, ratio)}, {time(draws.median(_completion))}"


def _completion(run: Single) -> float:
    return run.completion_s


def _crossing(grid: Grid) -> Verdict:
    pairs = list(zip(grid.sizes, grid.line("DBT", "64 MB"), grid.line("A2A", "64 MB"), strict=True))
    trees = [size for size, tree, direct in pairs if tree.median(over) < direct.median(over)]
    holds = 0 < len(trees) < len(pairs) and trees == list(grid.sizes[: len(trees)])
    ratios = ", ".join(
        f"{tree.said(over, ratio)} and {direct.said(over, ratio)} at {size(bytes_)}" for bytes_, tree, direct in pairs
    )
    if not trees:
        faster = "A2A is faster at every size"
    else:
        faster = f"DBT is faster at {'every size' if len(trees) == len(pairs) else _listed(trees)}"
    largest, tree, direct = pairs[-1]
    return CROSSING.judged(
        holds,
        f"{faster}; DBT and A2A over analytical: {ratios}",
        f"At {size(largest)}, DBT: {lost(tree)} A2A: {lost(direct)}",
    )


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(size(each) for each in sizes)


def _close(grid: Grid) -> Verdict:
    runs = [run for draws in grid.line("DBT", "1 GB") for run in draws.runs]
    worst, least = max(map(over, runs)), min(map(used, runs))
    again = sum(run.packets.retransmissions for run in runs)
    longest = max(runs, key=lambda run: run.longest_queue)
    return CLOSE.judged(
        worst <= 1.16 and least >= 0.95 and again == 0,
        f"at most {worst:.3g}, at least {percent(least)} used, {again} retransmissions, over {_listed(grid.sizes)}",
        f"{lost(Draws([longest]))} Headers and acknowledgements occupy links in addition to the data (1502 + 54 B for "
        "1448 B, or 7.5 %); the rest is the way up and down the trees, during which some links are idle.",
    )


def draw(findings: Findings) -> Figure:
    """Draws completion times on the left, their ratio to the analytical time on the right."""
    times, ratios = findings.table("completion"), findings.table("deviation")
    figure, (left, right) = plot.new(2, height=3.2)
    x = times.column("size_bytes")
    for index, (algorithm, buffer) in enumerate(configurations()):
        label = f"{algorithm}, {buffer}"
        plot.line(left, x, [1e3 * value for value in times.column(column(algorithm, buffer, "_s"))], label, index)
        plot.line(right, x, ratios.column(column(algorithm, buffer, "_ratio")), label, index)
    analytical = [1e3 * value for value in times.column("analytical_s")]
    left.plot(x, analytical, color=plot.BLACK, linestyle="--", label="analytical", linewidth=1)
    right.axhline(1, color=plot.BLACK, linestyle="--", linewidth=1)
    left.set_ylabel("completion [ms]")
    right.set_ylabel("completion over analytical")
    for axes in (left, right):
        axes.set_yscale("log")
        plot.decimal_ticks(axes.yaxis)
        plot.sizes_below(axes, x)
    left.legend()
    figure.supxlabel("size of the all-reduce", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "a single all-reduce on 128 nodes around one switch: completion, and deviation from the analytical model",
    (INSERTION, MILD, COLLAPSE, CROSSING, CLOSE),
    measure,
    draw,
    CHOICES,
    NETWORKS,
    simulated,
)
