"""Figures 4.1 and 4.2: rates between pairs of hosts of a cloud, and latency over time."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.cluster import cluster
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.harness.testbed import Measured, Session
from experiments.luo2020.beside import CALIBRATED
from experiments.luo2020.cloud import CLOUD, HOSTS, IN_GROUPS, RACKS, RATE, TENANTS, percentile, predicted_s, rack
from experiments.luo2020.orders import shuffled
from syncline.quantity import digits
from syncline.testbed import PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from syncline.distances import Pair

FOLDER = Path(__file__).parent
PULSE = FOLDER / "pulse.py"
PULSE_S, INTERVAL_S, WINDOW_S = 60.0, 0.02, 2.0
"""How long round trips are timed, with the traffic of other tenants and then without; the pause between two; and the
time over which their mean is taken. The dissertation has 8 hours, and means of a minute."""
ENDS = (0, 4)
"""The two hosts, in different racks."""
NBYTES, ROUNDS, SEED = 1 << 20, 60, 7
"""All-reduces by a ring in a random order: size, number, and seed of the order."""
QUEUE = 1e6
"""Bytes of the queue at each port of a switch: the testbed's default."""
FASTER, STEEP = 2.0, 2.0
PARTS = (0.0, 0.05, 0.5, 0.95, 1.0)
"""Percentiles of tables, as fractions."""

PAIRS = Claim(
    "luo-fig0401",
    "Fig. 4.1",
    "rates between pairs of hosts are not uniform: faster pairs have more than twice the rate of slower ones.",
)
LATENCY = Claim(
    "luo-fig0402-latency",
    "Fig. 4.2",
    "the latency between two hosts, averaged over short times, fluctuates steeply with the traffic of other tenants.",
)
AGGREGATION = Claim(
    "luo-fig0402-aggregation",
    "Fig. 4.2",
    "times of the same all-reduce, repeated, are widely distributed because of the traffic of other tenants.",
)


def fair_share(order: Sequence[tuple[int, int]]) -> float:
    """The lowest rate of transfers at the same time, in bits per second, if each link is shared fairly.

    No host is in two transfers, so only links of racks are shared.
    """
    most = max(
        max(sum(rack(a) == each != rack(b) for a, b in order), sum(rack(b) == each != rack(a) for a, b in order))
        for each in range(RACKS)
    )
    return RATE * PAYLOAD / max(1, most)


def measure(runner: Runner) -> Findings:
    """Measures rates of pairs, latency and all-reduces; predicts what links and queues allow."""
    found = runner.bench.collect(
        Session("cloud", lambda python: session(python, quick=runner.quick), quick=runner.quick)
    )
    verdicts = [_pairs(found), _latency(found), _aggregation(runner, found)]
    return Findings([_rates(found), _times(runner, found), *_listed(found)], verdicts)


def bounds() -> tuple[float, float]:
    """The slowest and the fastest rate of a pair that the links allow without other tenants, in bytes per second.

    In a round of the probe at most all hosts of a rack send to other racks.
    """
    across = [(host, host + HOSTS // RACKS) for host in range(HOSTS // RACKS)]
    return fair_share(across) / 8, RATE * PAYLOAD / 8


def _rates(found: Measured | str) -> Table:
    table = Table(
        "rates",
        "Rates of pairs of hosts in MB/s, with other tenants: what links allow, and as measured",
        ("pairs", "predicted at least", "predicted at most", "slowest", "P10", "median", "P90", "fastest", "number"),
    )
    slow, fast = (each / 1e6 for each in bounds())
    for name, same, low in (("in a rack", True, fast), ("between racks", False, slow)):
        if isinstance(found, str):
            table.add(name, low, fast, found, *[None] * 5)
            continue
        rates = [rate / 1e6 for a, b, rate in _measured(found) if (rack(a) == rack(b)) == same]
        table.add(name, low, fast, *[percentile(rates, part) for part in (0.0, 0.1, 0.5, 0.9, 1.0)], len(rates))
    return table


def _times(runner: Runner, found: Measured | str) -> Table:
    """Latency and all-reduces, without other tenants and with them."""
    table = Table(
        "times",
        "Round trips of 4 B (single ones, and means over 2 s), and all-reduces of 1 MiB by a ring in a random order",
        ("what", "tenants", "predicted_s", "least_s", "P5_s", "P50_s", "P95_s", "largest_s"),
    )
    ring = predicted_s(runner, "ring", _order(), NBYTES)
    full = 2 * 8 * QUEUE / RATE
    for what, key, of, alone, shared in (
        ("round trip", "pulse", lambda each: each["parts"], None, full),
        ("mean round trip over 2 s", "pulse", lambda each: _parts(each["mean_s"]), None, full),
        ("all-reduce", "rings", lambda each: _parts(each["ring"]), ring, None),
    ):
        for tenants, predicted in (("off", alone), ("on", shared)):
            if isinstance(found, str):
                table.add(what, tenants, predicted, found, *[None] * 4)
                continue
            table.add(what, tenants, predicted, *of(found.values[key][tenants]))
    return table


def _parts(seconds: Sequence[float]) -> list[float]:
    return [percentile(seconds, part) for part in PARTS]


def _order() -> list[int]:
    return shuffled(HOSTS, 1, SEED)[0]


def _measured(found: Measured) -> list[tuple[int, int, int]]:
    """The measured pairs: from, to, and bytes per second."""
    rows = enumerate(found.values["rates"])
    return [(a, b, rate) for a, row in rows for b, rate in enumerate(row) if rate is not None]


def summary(pulse: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Round trips as they are recorded: some percentiles of all, and the mean of each stretch of time."""
    at, means = zip(*windows(pulse), strict=True)
    parts = _parts(pulse["seconds"])
    return {"parts": parts, "at_s": list(at), "mean_s": [round(each, 7) for each in means]}


def windows(pulse: Mapping[str, Sequence[float]]) -> list[tuple[float, float]]:
    """The middle of each stretch of time, and the mean round trip in it."""
    stretches: dict[int, list[float]] = {}
    for at, seconds in zip(pulse["at_s"], pulse["seconds"], strict=True):
        stretches.setdefault(int(at // WINDOW_S), []).append(seconds)
    return [((number + 0.5) * WINDOW_S, mean(each)) for number, each in sorted(stretches.items())]


def _listed(found: Measured | str) -> list[Table]:
    """All pairs, and what was measured over time: for files and the picture."""
    pairs = Table("pairs", "All pairs", ("from", "to", "rate MB/s"), listed=False)
    latency = Table("latency", "Mean round trips over time", ("tenants", "at_s", "mean_s"), listed=False)
    rings = Table("rings", "All-reduces", ("tenants", "seconds_s"), listed=False)
    if not isinstance(found, str):
        for a, b, rate in _measured(found):
            pairs.add(a, b, rate / 1e6)
        for tenants in ("off", "on"):
            pulse = found.values["pulse"][tenants]
            for at, value in zip(pulse["at_s"], pulse["mean_s"], strict=True):
                latency.add(tenants, at, value)
            for seconds in found.values["rings"][tenants]["ring"]:
                rings.add(tenants, seconds)
    return [pairs, latency, rings]


def _pairs(found: Measured | str) -> Verdict:
    slow, fast = bounds()
    if isinstance(found, str):
        ratio, said = fast / slow, f"up to {fast / slow:.2f} times without other tenants (predicted: {found})"
    else:
        rates = [rate for *_, rate in _measured(found)]
        parts = [percentile(rates, part) for part in (0.1, 0.9, 0.0, 1.0)]
        ratio = parts[1] / parts[0]
        said = (
            f"P90 over P10 {ratio:.2f} times, fastest over slowest {parts[3] / parts[2]:.2f}; predicted at most "
            f"{fast / slow:.2f} without other tenants"
        )
    return PAIRS.judged(
        ratio > FASTER,
        said,
        f"Pairs in a rack have their hosts' links to themselves. Up to {HOSTS // RACKS} pairs at a time, and other "
        "tenants, share the link between a rack and the core, which is as fast as the link of one host.",
    )


def _latency(found: Measured | str) -> Verdict:
    full = 2 * 8 * QUEUE / RATE
    why = (
        "Other tenants' flows fill the queue of a rack's link, and packets wait in it. A full queue of 1 MB at 200 "
        f"Mb/s takes {1e3 * full / 2:.0f} ms each way. Without other tenants the links are empty."
    )
    if isinstance(found, str):
        return LATENCY.judged(holds=False, measured=f"at most {1e3 * full:.0f} ms (predicted: {found})", why=why)
    means = {tenants: found.values["pulse"][tenants]["mean_s"] for tenants in ("off", "on")}
    ratios = {tenants: percentile(of, 0.95) / percentile(of, 0.05) for tenants, of in means.items()}
    said = [
        f"tenants {tenants}: P95 of means over 2 s {ratios[tenants]:.1f} times P5, up to {digits(1e3 * max(of))} ms"
        for tenants, of in means.items()
    ]
    return LATENCY.judged(ratios["on"] >= STEEP and ratios["on"] > ratios["off"], "; ".join(said), why)


def _aggregation(runner: Runner, found: Measured | str) -> Verdict:
    ring = predicted_s(runner, "ring", _order(), NBYTES)
    if isinstance(found, str):
        said = f"predicted {digits(1e3 * ring)} ms without other tenants ({found})"
        return AGGREGATION.judged(holds=False, measured=said, why="Nothing was measured.")
    times = {tenants: found.values["rings"][tenants]["ring"] for tenants in ("off", "on")}
    spreads = {tenants: (percentile(of, 0.95) - percentile(of, 0.05)) / median(of) for tenants, of in times.items()}
    said = "; ".join(
        f"tenants {tenants}: P95 - P5 is {100 * each:.0f} % of the median" for tenants, each in spreads.items()
    )
    return AGGREGATION.judged(
        spreads["on"] > 0.2 and spreads["on"] > 1.5 * spreads["off"],
        f"{said}; predicted {digits(1e3 * ring)} ms without tenants, median {digits(1e3 * median(times['off']))} ms",
        "A ring is as slow as its slowest hop, and a hop between racks is slow while a tenant's flow shares the link.",
    )


# The session


def session(python: str, *, quick: bool) -> dict[str, Any]:
    """Probes rates while other tenants send; then times round trips and all-reduces, with tenants and without."""
    seconds, rounds = (2.0, 2) if quick else (PULSE_S, ROUNDS)
    racks: list[int] | None = None
    arms = {"ring": ("ring", racks)}
    rings, pulses = {}, {}

    def rate(pair: Pair | None) -> int | None:
        return round(pair.rate_bytes_per_s) if pair is not None and pair.rate_bytes_per_s else None

    with cluster(CLOUD, python, traffic=TENANTS) as bed:
        # Plans number ranks in the order of hosts of this run.
        measured = bed.probe("rate")
        for tenants in ("on", "off"):
            bed.traffic(on=tenants == "on")
            (pulse,) = bed.run([str(PULSE), str(seconds), str(INTERVAL_S)], ENDS)
            pulses[tenants] = summary(pulse)
            bed.traffic(on=tenants == "on")
            (rings[tenants],) = bed.run([str(IN_GROUPS), str(NBYTES), str(rounds), json.dumps(arms)], _order())
    rates = [[rate(measured.pairs.get((a, b))) for b in range(HOSTS)] for a in range(HOSTS)]
    return {"rates": rates, "pulse": pulses, "rings": rings}


def draw(findings: Findings) -> Figure:
    """Draws the rates of pairs as a map, latency over time, and the distribution of all-reduces."""
    pairs, latency, rings = (findings.table(name) for name in ("pairs", "latency", "rings"))
    figure, (left, middle, right) = plot.new(columns=3, width=9.0, height=3.0)
    cells = [[float("nan")] * HOSTS for _ in range(HOSTS)]
    slow, fast = (each / 1e6 for each in bounds())
    for a in range(HOSTS):
        for b in range(HOSTS):
            if a != b and not pairs.rows:
                cells[a][b] = fast if rack(a) == rack(b) else slow
    for source, target, rate in pairs.rows:
        cells[int(source or 0)][int(target or 0)] = float(rate or 0)
    image = left.imshow(cells, cmap="viridis", vmin=0, vmax=fast)
    left.grid(visible=False)
    left.set_xlabel("to host")
    left.set_ylabel("from host")
    left.set_title("measured" if pairs.rows else "predicted, all at a time")
    figure.colorbar(image, ax=left, label="MB/s", shrink=0.8)
    for index, tenants in enumerate(("on", "off")):
        at, means = latency.column("at_s", tenants=tenants), latency.column("mean_s", tenants=tenants)
        middle.plot(at, [1e3 * each for each in means], color=plot.COLOURS[index], label=f"tenants {tenants}")
        seconds = sorted(rings.column("seconds_s", tenants=tenants))
        share = [(number + 1) / len(seconds) for number in range(len(seconds))]
        right.plot([1e3 * each for each in seconds], share, color=plot.COLOURS[index], label=f"tenants {tenants}")
    middle.set_xlabel("seconds")
    middle.set_ylabel("round trip, mean of 2 s [ms]")
    middle.set_ylim(bottom=0)
    middle.legend()
    right.set_xlabel("all-reduce [ms]")
    right.set_ylabel("part of all-reduces")
    right.legend()
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "rates between pairs of hosts of a cloud, and latency over time",
    (PAIRS, LATENCY, AGGREGATION),
    measure,
    draw,
    networks=("flow",),
    calibrated=CALIBRATED,
    runs=True,
)
