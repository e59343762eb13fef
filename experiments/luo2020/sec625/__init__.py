"""Section 6.2.5: how well probes tell which hosts are near each other, and what the embedding adds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.luo2020 import probes
from experiments.luo2020.probes import MANY, ONE
from experiments.luo2020.sec625 import zones
from syncline.grouping import affinity_accuracy, find
from syncline.quantity import digits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from experiments.luo2020.probes import Floats, Layout

SEEDS = range(4)
LOADS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Mean numbers of connections of other tenants on a host's link, swept."""
ALPHAS = (1.0, 2.0)
PLANE = (2, False)
"""Dimensions of the embedding that decides the verdicts, and whether it has heights: the paper draws a plane
(Figure 4.4)."""
READINGS = (PLANE, (2, True), (5, False))
PAPER = {
    "round trips": 0.956,
    "rates": 0.774,
    "one": 0.813,
    "alpha 1": 0.050,
    "alpha 2": 0.081,
}
WITHIN = 0.03
"""How far a share may be from the paper's: three points."""
VALUES = Claim(
    "luo-11",
    "6.2.5",
    "accuracy in several data centres 95.6 % by round trips and 77.4 % by rates; in one data centre 81.3 % by round "
    "trips, to which the embedding adds 5.0 points with alpha 1 and 8.1 points with alpha 2.",
)
BETTER = Claim("luo-sec625-probes", "6.2.5", "round trips are more accurate than rates.")
GAIN = Claim(
    "luo-sec625-embedding", "6.2.5", "the embedding adds to the accuracy of round trips with alpha 1 and with alpha 2."
)
ALPHA = Claim("luo-sec625-alpha", "6.2.5", "the embedding adds more with alpha 2 than with alpha 1.")


def accuracy(layout: Layout, noise: float, seeds: range, distances: Callable[[Floats, int], Floats]) -> float:
    """Mean accuracy over seeds of distances that are made from measured round trips and a seed."""
    found = []
    for seed in seeds:
        centre = layout.centre(noise, seed)
        found.append(affinity_accuracy(distances(probes.round_trips(centre), seed), centre.locations.tolist()))
    return fmean(found)


def measure(runner: Runner) -> Findings:
    """Finds the noise that gives the paper's accuracy within one data centre, then measures the rest with it."""
    seeds = SEEDS[:2] if runner.quick else SEEDS
    noise, load = probes.noise_for(ONE, PAPER["one"]), probes.load_for(MANY, PAPER["rates"])
    bare = accuracy(ONE, noise, seeds, lambda trips, _: trips)
    embeddings = _embeddings(noise, bare, seeds, READINGS[:1] if runner.quick else READINGS)
    gains = dict(zip(ALPHAS, embeddings.column("gain_points", dimensions=PLANE[0], heights="no"), strict=False))

    def rates(load: float) -> float:
        centres = [MANY.centre(noise, seed) for seed in seeds]
        return fmean(affinity_accuracy(probes.inverse_rates(each, load), each.locations.tolist()) for each in centres)

    values = Table(
        "accuracy",
        "Accuracy and what the embedding adds to it, in per cent: the paper's, here, and by a closed form",
        ("what", "paper", "here", "closed form", "verdict"),
    )
    trips = accuracy(MANY, noise, seeds, lambda trips, _: trips)
    _row(values, "round trips, 2 data centres", "round trips", trips, probes.expected_of_round_trips(MANY, noise))
    _row(values, "rates, 2 data centres", "rates", rates(load), probes.expected_of_rates(MANY, load), fitted=True)
    _row(values, "round trips, 1 data centre", "one", bare, probes.expected_of_round_trips(ONE, noise), fitted=True)
    for alpha in ALPHAS:
        _row(values, f"the embedding adds, alpha {alpha:g}", f"alpha {alpha:g}", gains[alpha] / 100)
    loads = Table(
        "loads",
        "Accuracy of rates in 2 data centres, in per cent, by the mean number of other tenants' connections on a "
        "host's link",
        ("connections", "here", "closed form"),
    )
    for each in LOADS[::3] if runner.quick else LOADS:
        loads.add(each, 100 * rates(each), 100 * probes.expected_of_rates(MANY, each))
    tables = [values, embeddings, loads, _regions()]
    return Findings(tables, [_values(values, noise, load), _better(loads, trips), _gain(gains), _alpha(embeddings)])


def _row(values: Table, what: str, key: str, here: float, closed: float | None = None, *, fitted: bool = False) -> None:
    near = "fitted" if fitted else "agrees" if abs(here - PAPER[key]) <= WITHIN else "differs"
    values.add(what, 100 * PAPER[key], 100 * here, None if closed is None else 100 * closed, near)


def _embeddings(noise: float, bare: float, seeds: range, readings: tuple[tuple[int, bool], ...]) -> Table:
    """What embeddings add in one data centre."""
    found = Table(
        "embeddings",
        "What embeddings add in 1 data centre, in points; the paper gives neither dimensions nor heights",
        ("distances", "dimensions", "heights", "alpha", "gain_points"),
    )
    for dimensions, heights in readings:
        for alpha in ALPHAS:

            def of(trips: Floats, seed: int, how: tuple[float, int, bool] = (alpha, dimensions, heights)) -> Floats:
                return probes.embedded(trips, how[0], how[1], heights=how[2], seed=seed)

            gain = accuracy(ONE, noise, seeds, of) - bare
            found.add("round trips", dimensions, "yes" if heights else "no", alpha, 100 * gain)
    for alpha in ALPHAS:

        def of_logs(trips: Floats, seed: int, alpha: float = alpha) -> Floats:
            return probes.embedded(logarithms(trips), alpha, 16, seed=seed)

        found.add("logarithms", 16, "no", alpha, 100 * (accuracy(ONE, noise, seeds, of_logs) - bare))
    return found


def logarithms(trips: Floats) -> Floats:
    """Logarithms of round trips above the nearest hundredth, as ``syncline group`` embeds them."""
    between = trips[np.triu_indices(len(trips), 1)]
    found: Floats = np.zeros_like(trips)
    np.log(trips / np.quantile(between, 0.01), out=found, where=trips > 0)
    return np.maximum(found, 0.0)


def _regions() -> Table:
    """Regions of IBM Cloud that are found from measured latencies between zones."""
    table = Table(
        "regions",
        f"Zones of IBM Cloud, {zones.PERIOD}: regions that are groups of syncline group, and accuracy of latencies",
        ("zones", "regions", "found", "accuracy_fraction", "not found"),
    )
    if not zones.FILE.exists():
        table.missing = f"not measured: {zones.FILE.name} is not here"
        return table
    measured = zones.read()
    of = [zones.region(zone) for zone in measured.hosts]
    groups = find(measured).groups
    sizes, members = Counter(of), Counter(zip(of, groups, strict=True))
    whole = Counter(groups)
    right = [name for (name, group), many in members.items() if many == sizes[name] == whole[group]]
    known = affinity_accuracy(measured.matrix(measured.round_trips), [(each,) for each in of])
    missed = sorted(set(of) - set(right))
    table.add(len(of), len(sizes), len(right), known, ", ".join(zones.CITIES[each] for each in missed))
    return table


def _values(values: Table, noise: float, load: float) -> Verdict:
    differ = values.column("what", verdict="differs")
    shown = zip(values.column("what"), values.column("here"), values.column("verdict"), strict=True)
    said = ", ".join(f"{what} {here:.1f}" for what, here, verdict in shown if verdict != "fitted")
    return VALUES.judged(
        not differ,
        f"{said}; different by more than {100 * WITHIN:.0f} points: {', '.join(differ) if differ else 'none'}",
        f"The paper's data centres are not known, so two numbers are fitted: a noise of {digits(noise)} to 81.3 %, and "
        f"{digits(load)} connections of other tenants on a host's link to 77.4 %. Between two data centres the same "
        "noise matters less, because two thirds of the triplets compare round trips of one data centre with those to "
        "the other, which are many times as long. How much an embedding adds depends on how many hosts are at the same "
        "place: here 8 in a row and 32 in a cluster, whose errors average out.",
    )


def _better(loads: Table, trips: float) -> Verdict:
    more = [
        each for each, here in zip(loads.column("connections"), loads.column("here"), strict=True) if here < 100 * trips
    ]
    less = [each for each in loads.column("connections") if each not in more]
    said = f"round trips {100 * trips:.1f} %; rates are below that at {' '.join(f'{each:g}' for each in more)}"
    said += f" and above at {' '.join(f'{each:g}' for each in less)} connections" if less else " connections"
    return BETTER.judged(
        not less,
        said,
        "The busiest link sets the rate of a path. If links are mostly idle, near and far paths have the same rate, "
        "and the probe learns nothing. If every link is busy, those near the core, where more tenants meet, are always "
        "the busiest, and rates tell levels apart. The paper's 77.4 % is that of mostly idle links.",
    )


def _gain(gains: Mapping[float, float]) -> Verdict:
    return GAIN.judged(
        min(gains.values()) > 0,
        ", ".join(f"alpha {alpha:g}: {gain:+.1f} points" for alpha, gain in gains.items()),
        "A host's place follows from all its round trips, so that noise of single ones averages out.",
    )


def _alpha(embeddings: Table) -> Verdict:
    columns = ("distances", "dimensions", "heights", "alpha", "gain_points")
    found = {row[:4]: row[4] for row in zip(*(embeddings.column(each) for each in columns), strict=True)}
    pairs = [(*key[:3], gain, found[(*key[:3], ALPHAS[1])]) for key, gain in found.items() if key[3] == ALPHAS[0]]
    more = [pair for pair in pairs if pair[4] > pair[3]]
    dimensions, one, two = pairs[0][1], pairs[0][3], pairs[0][4]
    return ALPHA.judged(
        two > one,
        f"{one:+.1f} and {two:+.1f} points in {dimensions} dimensions; more with alpha 2 in {len(more)} of "
        f"{len(pairs)} embeddings",
        "With alpha 2 an embedded round trip is the square of a distance, so an error in the place of a host changes "
        "it twice as much, relative to its length.",
    )


def draw(findings: Findings) -> Figure:
    """Draws accuracy, the paper's and here, and the accuracy of rates by load."""
    values, loads = findings.table("accuracy"), findings.table("loads")
    figure, (left, right) = plot.new(2, height=3.2, width=8.0)
    plot.grouped(left, {each: values.column(each) for each in ("paper", "here")})
    names = ("round trips,\n2 centres", "rates,\n2 centres", "round trips,\n1 centre", "+ alpha 1", "+ alpha 2")
    left.set_xticks(range(len(names)), labels=names, rotation=30)
    left.set_ylabel("accuracy, or gain [%]")
    left.legend()
    plot.line(right, loads.column("connections"), loads.column("here"), "rates", 0)
    right.axhline(values.column("here")[0], color=plot.ORANGE, label="round trips")
    right.set_xscale("log")
    plot.decimal_ticks(right.xaxis)
    right.set_xlabel("connections of other tenants on a host's link")
    right.set_ylabel("accuracy, 2 centres [%]")
    right.legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "how well probes tell which hosts are near each other, and what the embedding adds",
    (VALUES, BETTER, GAIN, ALPHA),
    measure,
    draw,
    networks=("none",),
    calibrated="noise of round trips, load of links, to two of the paper's numbers",
)
