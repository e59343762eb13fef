"""Figures 5.1 and 5.2: ring all-reduces in many orders of ranks; streams of TCP."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.cluster import cluster
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.harness.testbed import Measured, Session
from experiments.luo2020.beside import CALIBRATED
from experiments.luo2020.cloud import CLOUD, HOSTS, RACKS, judged, percentile, predicted_s, rack
from experiments.luo2020.exchange import NEAR, host_costs
from experiments.luo2020.orders import PROGRAM, parsed, shuffled, written
from syncline.quantity import digits
from syncline.testbed import PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
THREE, STREAMS = FOLDER / "three.yaml", FOLDER / "streams.py"
NBYTES = 1 << 20
ORDERS, TIMED, SEED = 500, 50, 3
"""Random orders to predict, how many of them are measured, evenly from the fastest to the slowest, and their seed."""
STREAM_RATE = 500e6
"""Bits per second of the hosts between which streams run."""
SIZES = tuple(1 << power for power in (10, 12, 14, 16, 18, 20))
COUNTS = (1, 2, 4)
STREAM_S, FAIR_S = 1.0, 30
"""How long each size and number of streams is measured, and how long two streams compete, in seconds."""
WIDE, UNEQUAL = 1.5, 0.1

ORDER = Claim(
    "luo-fig0501",
    "Fig. 5.1",
    "the time of a ring all-reduce varies widely with 500 random orders of ranks: the slowest takes at least 1.5 times "
    "as long as the fastest.",
)
BUFFER = Claim(
    "luo-fig0502-buffer",
    "Fig. 5.2",
    "TCP's throughput depends on the size of buffers and on the number of streams.",
)
FAIR = Claim(
    "luo-fig0502-fair",
    "Fig. 5.2",
    "two streams into one host from two others do not share its link equally: one has at least 10 % more than the "
    "other.",
)
TIMES = Claim(
    "luo-fig0501-predicted",
    "Prediction",
    f"the median of simulated rings is within {NEAR:.0%} of the measured one, and so are the predicted rates of "
    "streams with buffers of 64 KiB or more.",
)


def spread(times: Sequence[float], count: int) -> list[int]:
    """The numbers of ``count`` orders, from the one with the shortest time to the one with the longest, evenly."""
    ordered = sorted(range(len(times)), key=lambda number: (times[number], number))
    return [ordered[at * (len(ordered) - 1) // (count - 1)] for at in range(count)]


def shared(order: Sequence[int]) -> int:
    """How many hops of a ring share the busiest link of a rack."""
    hops = list(zip(order, [*order[1:], order[0]], strict=True))
    out = Counter(rack(a) for a, b in hops if rack(a) != rack(b))
    return max(out.values())


def closed_form_s(hops: int) -> float:
    """The time of a ring of which ``hops`` hops share a link: each carries 2 (N - 1) / N vectors."""
    return 2 * (HOSTS - 1) / HOSTS * 8 * NBYTES * hops / (200e6 * PAYLOAD)


def stream_rate(size: int, streams: int) -> float:
    """The closed form of the rate of streams, in bytes per second, each with one buffer on its way at a time.

    A buffer takes the link's time and a message each way through both hosts (:mod:`~experiments.luo2020.exchange`).
    """
    costs = host_costs()
    link, endpoint = (float(str(each).removesuffix("us")) * 1e-6 for each in (costs["link_latency"], _endpoint()))
    full = STREAM_RATE * PAYLOAD / 8
    return min(full, streams * size / (2 * (2 * link + endpoint) + size / full))


def _endpoint() -> str:
    return str(host_costs()["collectives"]["endpoint_delay"])


def measure(runner: Runner) -> Findings:
    """Simulates rings in many orders, measures some of them, and measures streams."""
    orders = shuffled(HOSTS, 20 if runner.quick else ORDERS, SEED)
    simulated = [predicted_s(runner, "ring", order, NBYTES) for order in orders]
    chosen = [orders[number] for number in spread(simulated, 2 if runner.quick else TIMED)]
    rings = runner.bench.collect(Session("rings", lambda python: session(python, chosen), quick=runner.quick))
    streams = runner.bench.collect(
        Session("streams", lambda python: stream_session(python, quick=runner.quick), quick=runner.quick)
    )
    rows = [] if isinstance(rings, str) else zip(rings.values["orders"], rings.values["seconds"], strict=True)
    of = {tuple(parsed(order)): float(seconds) for order, seconds in rows}
    # A record may have other orders than a quick run.
    more = [list(order) for order in of if list(order) not in orders]
    orders += more
    simulated += [predicted_s(runner, "ring", order, NBYTES) for order in more]
    measured = list(of.values())
    every = Table("every", "All orders", ("order", "hops that share a link", "simulated_s", "measured_s"), listed=False)
    for order, each in zip(orders, simulated, strict=True):
        every.add(" ".join(map(str, order)), shared(order), each, of.get(tuple(order)))
    distribution = Table(
        "distribution",
        f"Ring all-reduces of 1 MiB by {HOSTS} hosts in random orders",
        ("", "orders", "fastest_s", "P5_s", "P50_s", "P95_s", "slowest_s"),
    )
    for name, times in (("predicted", simulated), ("measured", measured)):
        parts = [percentile(times, part) for part in (0.0, 0.05, 0.5, 0.95, 1.0)] if times else [None] * 5
        distribution.add(name, len(times) if times else str(rings), *parts)
    compared: dict[str, tuple[float, float]] = {}
    if measured:
        compared["rings"] = (
            percentile([each for order, each in zip(orders, simulated, strict=True) if tuple(order) in of], 0.5),
            percentile(measured, 0.5),
        )
    rates = _rates(streams)
    compared |= {
        f"{size >> 10} KiB, {count} streams": (predicted, found)
        for size, count, predicted, found, _ in _known(rates)
        if size >= 64 << 10
    }
    missing = rings if isinstance(rings, str) else streams if isinstance(streams, str) else ""
    verdicts = [
        _order(simulated, measured, rings),
        _buffer(rates, streams),
        _fair(streams),
        judged(TIMES, compared, WHY, missing),
    ]
    return Findings([distribution, _hops(every), rates, _shares(streams), every], verdicts)


WHY = (
    "A ring is as slow as the link of a rack that most hops share. Streams of large buffers fill the link; a small "
    "buffer spends most of its time on hosts, whose costs were measured for the executor, and these programs are in "
    "Python."
)


def _hops(every: Table) -> Table:
    """Times by the number of hops that share a link."""
    table = Table(
        "hops",
        "The same, by the most hops that share the link of a rack; closed form: hops times 2 (N - 1) / N vectors",
        ("hops that share a link", "orders", "closed_form_s", "predicted P50_s", "measured P50_s"),
    )
    for hops in sorted(set(every.column("hops that share a link"))):
        wanted = {"hops that share a link": hops}
        simulated = every.column("simulated_s", **wanted)
        measured = [each for each in every.column("measured_s", **wanted) if each is not None]
        middle = percentile(measured, 0.5) if measured else None
        table.add(hops, len(simulated), closed_form_s(hops), percentile(simulated, 0.5), middle)
    return table


def _rates(found: Measured | str) -> Table:
    """Rates of streams by size of buffers."""
    table = Table(
        "rates",
        "Rate of TCP between two hosts at 500 Mb/s in MB/s; each stream has one buffer on its way at a time",
        ("buffer_bytes", "streams", "predicted", "measured", "error_off"),
    )
    rates: Mapping[tuple[int, int], float] = (
        {} if isinstance(found, str) else {(size, count): rate / 1e6 for size, count, rate in found.values["rates"]}
    )
    for size in SIZES:
        for count in COUNTS:
            predicted, measured = stream_rate(size, count) / 1e6, rates.get((size, count))
            reason = found if isinstance(found, str) else None
            error = None if measured is None else predicted / measured - 1
            table.add(size, count, predicted, reason if measured is None else measured, error)
    return table


def _known(rates: Table) -> list[tuple[Any, ...]]:
    """The rows with measured rates."""
    return [row for row in rates.rows if isinstance(row[3], float)]


def _shares(found: Measured | str) -> Table:
    """What two streams into one host get."""
    table = Table(
        "shares",
        f"Two streams into one host from two others, for {FAIR_S} s, in MB/s",
        ("stream", "predicted", "mean", "P5", "P95", "seconds ahead"),
    )
    half = STREAM_RATE * PAYLOAD / 8 / 2e6
    for number in (0, 1):
        if isinstance(found, str):
            table.add(number, half, found, None, None, None)
            continue
        rows = found.values["shares"]
        own = [row[number] / 1e6 for row in rows]
        ahead = sum(row[number] > row[1 - number] for row in rows)
        table.add(number, half, mean(own), percentile(own, 0.05), percentile(own, 0.95), ahead)
    return table


def _order(simulated: Sequence[float], measured: Sequence[float], found: Measured | str) -> Verdict:
    spread = max(simulated) / min(simulated)
    ratio = max(measured) / min(measured) if measured else spread
    said = f"{ratio:.2f} times in {len(measured)} orders; " if measured else ""
    reason = f" (predicted: {found})" if isinstance(found, str) else ""
    typical = percentile(simulated, 0.95) / percentile(simulated, 0.05)
    return ORDER.judged(
        ratio >= WIDE,
        f"{said}predicted {spread:.2f} times in {len(simulated)}{reason}; P95 over P5 {typical:.2f}",
        f"A ring is as slow as the link of a rack that most hops share: from 1 hop in the best order to "
        f"{HOSTS // RACKS}. In most random orders that is 3 or 4, so few are much faster than the others. In a cloud "
        "hosts are spread over more racks of different sizes, and more values are possible.",
    )


def _buffer(rates: Table, found: Measured | str) -> Verdict:
    def rate(size: int, count: int) -> float:
        column = "predicted" if isinstance(found, str) else "measured"
        (value,) = rates.column(column, buffer_bytes=size, streams=count)
        return float(value)

    small, large = SIZES[0], SIZES[-1]
    by_size, by_streams = rate(large, 1) / rate(small, 1), rate(small, COUNTS[-1]) / rate(small, 1)
    reason = f" (predicted: {found})" if isinstance(found, str) else ""
    return BUFFER.judged(
        by_size >= WIDE and by_streams >= WIDE,
        f"1 MiB {by_size:.1f} times the rate of 1 KiB with 1 stream; 4 streams {by_streams:.1f} times the rate of 1 "
        f"with 1 KiB{reason}",
        "A stream with one small buffer on its way mostly waits for the answer, and other streams use that time. Large "
        "buffers fill the link with any number of streams.",
    )


def _fair(found: Measured | str) -> Verdict:
    if isinstance(found, str):
        return FAIR.judged(holds=False, measured=f"predicted 1.00 times ({found})", why="Nothing was measured.")
    rows = found.values["shares"]
    totals = [sum(row[number] for row in rows) for number in (0, 1)]
    ratio = max(totals) / min(totals)
    differ = [abs(a - b) / (a + b) for a, b in rows if a + b]
    return FAIR.judged(
        ratio >= 1 + UNEQUAL,
        f"{ratio:.2f} times over {len(rows)} s; in a second, one has on average {digits(100 * mean(differ))} % of the "
        "link more than the other",
        "Both streams have equal paths and cubic. Their shares become equal only by losses, and probably a queue of 1 "
        "MB seldom drops packets, so that a stream with a larger window keeps it for long.",
    )


# The sessions


def session(python: str, orders: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Measures rings in some orders."""
    listed = [written(order) for order in orders]
    with cluster(CLOUD, python) as bed:
        (seconds,) = bed.run([str(PROGRAM), "syncline", "ring", str(NBYTES), ";".join(listed)])
    return {"orders": listed, "seconds": [round(each, 5) for each in seconds]}


def stream_session(python: str, *, quick: bool) -> dict[str, Any]:
    """Measures streams by size of buffers, then two streams into one host."""
    sizes, counts = (SIZES, COUNTS) if not quick else (SIZES[:1], COUNTS[:1])
    seconds, fair = (0.2, 2) if quick else (STREAM_S, FAIR_S)
    listed = [",".join(map(str, each)) for each in (sizes, counts)]
    with cluster(THREE, python) as bed:
        (rates,) = bed.run([str(STREAMS), "buffers", str(seconds), *listed], [0, 1])
        (shares,) = bed.run([str(STREAMS), "fair", str(fair)])
    return {"rates": [(size, count, round(rate)) for size, count, rate in rates], "shares": shares}


def draw(findings: Findings) -> Figure:
    """Draws the distribution of rings, and rates of streams by size of buffers."""
    every, rates = findings.table("every"), findings.table("rates")
    figure, (left, right) = plot.new(columns=2, height=3.0)
    measured = [each for each in every.column("measured_s") if each is not None]
    for index, (name, times) in enumerate((("predicted", every.column("simulated_s")), ("measured", measured))):
        ordered = sorted(times)
        share = [(number + 1) / len(ordered) for number in range(len(ordered))]
        label = f"{name}, {len(ordered)} orders"
        left.plot([1e3 * each for each in ordered], share, color=plot.COLOURS[index], label=label)
    left.set_xlabel("ring all-reduce [ms]")
    left.set_ylabel("part of orders")
    left.set_xlim(left=0)
    left.legend()
    for index, count in enumerate(COUNTS):
        for key, more in (("predicted", {}), ("measured", {"linestyle": "", "marker": "x"})):
            sizes = rates.column("buffer_bytes", streams=count)
            values = zip(sizes, rates.column(key, streams=count), strict=True)
            points = [(size, value) for size, value in values if isinstance(value, float)]
            label = f"{count} streams" if not more else f"{count}, measured"
            plot.line(right, [x for x, _ in points], [y for _, y in points], label, index, **more)
    plot.sizes_below(right, list(SIZES))
    right.set_ylabel("rate [MB/s]")
    right.set_ylim(bottom=0)
    right.legend()
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "ring all-reduces in many orders of ranks; streams of TCP",
    (ORDER, BUFFER, FAIR, TIMES),
    measure,
    draw,
    networks=("flow",),
    calibrated=CALIBRATED,
    runs=True,
)
