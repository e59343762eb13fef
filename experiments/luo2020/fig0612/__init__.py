"""Figure 6.12: large and small buffers, compared with Gloo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.luo2020 import beside
from experiments.luo2020.beside import CALIBRATED, COLUMNS, Pair, pair, source
from experiments.luo2020.exchange import gloo, planned
from syncline.quantity import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
EIGHT = FOLDER / "eight.yaml"
HOSTS = range(8)
SMALL, LARGE = 4, 25 << 20
SIZES = (SMALL, 64 << 10, 1 << 20, LARGE)
PLANS = {"shards (FA)": "parameter_server", "ring": "ring", "halving-doubling": "halving_doubling"}
FLAT, GLOO = "shards (FA)", "Gloo"
BEST_LARGE = Claim(
    "luo-fig0612-large", "Fig. 6.12", "a large buffer: the executor's flat aggregation (shards) is faster than Gloo."
)
BEST_SMALL = Claim("luo-fig0612-small", "Fig. 6.12", "a buffer of 4 B: flat aggregation is faster than Gloo.")
NEAR = beside.claim("fig0612")


def measure(runner: Runner) -> Findings:
    """Predicts and measures all-reduces of eight hosts at 1 Gb/s."""
    times = Table("times", "All-reduces of 8 hosts at 1 Gb/s", ("size_bytes", "arm", *COLUMNS))
    pairs: dict[tuple[int, str], Pair] = {}
    for nbytes in (SMALL, LARGE) if runner.quick else SIZES:
        arms = {name: planned(EIGHT, HOSTS, nbytes, plan) for name, plan in PLANS.items()}
        for name, exchange in {**arms, GLOO: gloo(EIGHT, HOSTS, nbytes)}.items():
            found = pairs[nbytes, name] = pair(runner, name, exchange)
            times.add(nbytes, name, *found.cells())
    verdicts = [
        _best(
            BEST_LARGE,
            pairs,
            LARGE,
            "Both send 2 (N - 1) / N vectors over every link, which is the minimum, and a ring comes closer to the "
            "link's rate: with shards, a host receives from seven others at a time, and sends sums while it receives.",
        ),
        _best(
            BEST_SMALL,
            pairs,
            SMALL,
            "Shards need two messages one after the other, a ring fourteen; and Gloo takes longer per message than the "
            "executor.",
        ),
        beside.judged(NEAR, list(pairs.values()), WHY),
    ]
    return Findings([times], verdicts)


WHY = (
    "Gloo's host costs are not calibrated, so its prediction contains only the network; its small messages take many "
    "times as long. With shards, a vector of 4 B is 14 messages between eight hosts that share two cores, whereas host "
    "costs were measured with two hosts. A vector of 1 MiB is two messages from each host to each other and back, and "
    "hosts that begin a little later delay the others."
)


def _best(claim: Claim, pairs: Mapping[tuple[int, str], Pair], nbytes: int, why: str) -> Verdict:
    own, theirs = pairs[nbytes, FLAT], pairs[nbytes, GLOO]
    ratio = theirs.best_s / own.best_s
    return claim.judged(ratio > 1, f"{ratio:.2f} times as fast, {size(nbytes)}{source([own, theirs])}", why)


def draw(findings: Findings) -> Figure:
    """Draws times by size."""
    table = findings.table("times")
    figure, axes = plot.new(height=3.2)
    sizes = sorted(set(table.column("size_bytes")))
    for index, arm in enumerate((*PLANS, GLOO)):
        for key, more in (("predicted_s", {}), ("measured_s", {"linestyle": "", "marker": "x"})):
            points = [
                (nbytes, 1e3 * seconds)
                for nbytes, seconds in zip(sizes, table.column(key, arm=arm), strict=True)
                if not isinstance(seconds, str)
            ]
            label = arm if not more else f"{arm}, measured"
            plot.line(axes, [x for x, _ in points], [y for _, y in points], label, index, **more)
    plot.sizes_below(axes, sizes)
    axes.set_yscale("log")
    plot.decimal_ticks(axes.yaxis)
    axes.set_ylabel("all-reduce [ms]")
    axes.legend(ncols=2)
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "all-reduces of large and small buffers, compared with Gloo",
    (BEST_LARGE, BEST_SMALL, NEAR),
    measure,
    draw,
    networks=("packet",),
    calibrated=CALIBRATED,
    runs=True,
)
