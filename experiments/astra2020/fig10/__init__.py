"""Figure 10: 64 NPUs in one, two and three dimensions of equal links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020.bandwidth_test import COLLECTIVES, MIB, agreement, bound, busiest_link, collective, sizes
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Choice, Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import percent, size, time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
TOPOLOGIES = ("1x64x1", "1x8x8", "2x8x4", "4x4x4")
FORMULA = {"1x64x1": 126 / 64, "1x8x8": 28 / 8, "2x8x4": 34 / 8, "4x4x4": 36 / 8}
"""Bytes that an NPU sends for one byte of an all-reduce: the sum of 2(n - 1)/n over the dimensions."""
FASTER = (("1x8x8", "1x64x1"), ("1x8x8", "2x8x4"), ("4x4x4", "2x8x4"))
"""What the paper says is faster, and than what."""
CROSSOVER = 4 * MIB

BYTES = Claim(
    "astra-03",
    "Fig. 10",
    "baseline all-reduce of N bytes on 64 NPUs: an NPU sends 126/64 N on 1x64x1, 28/8 N on 1x8x8, 36/8 N on 4x4x4 "
    "(and by the same formula 34/8 N on 2x8x4).",
)
ORDER = Claim(
    "astra-04", "Fig. 10", "1x8x8 is faster than 1x64x1; 2x8x4 is slower than 1x8x8; 4x4x4 is faster than 2x8x4."
)
UP_TO = Claim("astra-05", "Fig. 10", "4x4x4 is faster than 1x8x8 up to 4 MB, and slower above.")
SIMILAR = Claim("astra-fig10", "Fig. 10", "all-to-all behaves similarly: the same order of the four.")


def measure(runner: Runner) -> Findings:
    """Times both collectives on the four topologies, and looks at the largest all-reduce's bytes and links."""
    times = Table(
        "times", "Time of one collective", ("collective", "size_bytes", *(f"{name}_s" for name in TOPOLOGIES))
    )
    for kind in COLLECTIVES:
        for each in sizes(runner):
            results = (collective(runner, FOLDER / f"{name}.yaml", kind, each) for name in TOPOLOGIES)
            times.add(kind, each, *(result.summary.total_time_s for result in results))
    largest = sizes(runner)[-1]
    alone = agreement(
        runner, ((FOLDER / f"{name}.yaml", "all_reduce", each, {}) for name in TOPOLOGIES for each in sizes(runner))
    )
    links = Table(
        "links",
        f"The all-reduce of {size(largest)}; bound: no schedule of these phases on these links is faster; {alone}",
        ("topology", "sent_over_N", "bound_s", "time_s", "busiest_links", "busy_fraction"),
    )
    for name in TOPOLOGIES:
        result = collective(runner, FOLDER / f"{name}.yaml", "all_reduce", largest)
        sent = result.table("ranks")["sent_bytes"]
        dimension, _, busy = busiest_link(result)
        links.add(
            name,
            max(sent) / largest,
            bound(result),
            result.summary.total_time_s,
            dimension,
            busy,
        )
    verdicts = [_bytes(links), _order(times, links), _up_to(times, links), _similar(runner, times)]
    return Findings([times, links], verdicts)


def _bytes(links: Table) -> Verdict:
    pairs = zip(links.column("sent_over_N"), FORMULA.values(), strict=True)
    # Blocks differ by an element where a chunk does not divide evenly.
    holds = all(abs(sent - formula) < 1e-4 * formula for sent, formula in pairs)
    sent = ", ".join(
        f"{name} {value:.4g} N" for name, value in zip(TOPOLOGIES, links.column("sent_over_N"), strict=True)
    )
    return BYTES.judged(holds, sent, "These are the bytes that the busiest rank sent in the largest all-reduce.")


def _wins(times: Table, kind: str, faster: str, slower: str) -> tuple[list[int], list[int]]:
    """Sizes at which ``faster`` is faster, and all sizes."""
    tried = times.column("size_bytes", collective=kind)
    pairs = zip(
        tried, times.column(f"{faster}_s", collective=kind), times.column(f"{slower}_s", collective=kind), strict=True
    )
    return [each for each, left, right in pairs if left < right], tried


def _said(sizes_: list[int], tried: list[int]) -> str:
    """The sizes in words, such as ``at every size``, ``up to 4 MiB`` or ``at 256 KiB, 32 MiB``."""
    if len(sizes_) in (0, len(tried)):
        return "at every size" if sizes_ else "at no size"
    if sizes_ == tried[: len(sizes_)]:
        return f"up to {size(sizes_[-1])}"
    if sizes_ == tried[-len(sizes_) :]:
        return f"from {size(sizes_[0])} on"
    return "at " + ", ".join(map(size, sizes_))


def _compared(times: Table, kind: str) -> tuple[bool, str]:
    parts, holds = [], True
    for faster, slower in FASTER:
        wins, tried = _wins(times, kind, faster, slower)
        holds = holds and wins == tried
        parts.append(f"{faster} faster than {slower} {_said(wins, tried)}")
    return holds, "; ".join(parts)


def _bounds(links: Table, faster: str, slower: str) -> str:
    """A phrase that says whether bandwidth alone makes ``faster`` faster in the largest all-reduce."""
    (quick,) = links.column("time_s", topology=faster)
    (least,) = links.column("bound_s", topology=slower)
    (dimension,) = links.column("busiest_links", topology=slower)
    if quick < least:
        return (
            f"{slower} cannot beat {faster}: its {dimension} links alone need {time(least)}, and {faster} finishes "
            f"after {time(quick)}"
        )
    return f"{slower}, with a bound of {time(least)}, could beat {faster}, which takes {time(quick)}"


def _order(times: Table, links: Table) -> Verdict:
    holds, measured = _compared(times, "all_reduce")
    largest = size(times.column("size_bytes")[-1])
    columns = zip(TOPOLOGIES, links.column("busiest_links"), links.column("busy_fraction"), strict=True)
    busy = ", ".join(f"{name} {dimension} {percent(part)}" for name, dimension, part in columns)
    return ORDER.judged(
        holds,
        measured,
        "The paper argues with the sum of bytes over all dimensions. But chunks use different dimensions at the same "
        f"time, so the slowest dimension decides. At {largest}: "
        f"{_bounds(links, '1x64x1', '1x8x8')}; {_bounds(links, '2x8x4', '4x4x4')}. Share of the time in which the "
        f"busiest links send: {busy}. The number of steps bounds small sets.",
    )


def _up_to(times: Table, links: Table) -> Verdict:
    wins, tried = _wins(times, "all_reduce", "4x4x4", "1x8x8")
    return UP_TO.judged(
        wins == [each for each in tried if each <= CROSSOVER],
        f"4x4x4 faster than 1x8x8 {_said(wins, tried)}",
        f"{_bounds(links, '1x8x8', '4x4x4')}, at the largest size. Where 4x4x4 loses depends on how many links its "
        "local rings have; see the other readings.",
    )


def _similar(runner: Runner, times: Table) -> Verdict:
    holds, measured = _compared(times, "all_to_all")
    largest = times.column("size_bytes")[-1]
    carried = []
    for name in TOPOLOGIES:
        dimension, sent, busy = busiest_link(collective(runner, FOLDER / f"{name}.yaml", "all_to_all", largest))
        carried.append(f"{name} {dimension} {size(sent)}, {percent(busy)} of the time")
    return SIMILAR.judged(
        holds,
        measured,
        "An all-to-all carries nearly the whole set in every dimension, and on a ring of n a message passes up to n/2 "
        f"links, or n - 1 if rings run one way, so long rings cost more than in an all-reduce. At {size(largest)} the "
        f"busiest links carry: {'; '.join(carried)}.",
    )


def draw(findings: Findings) -> Figure:
    """Times of both collectives, relative to 1x8x8."""
    times = findings.table("times")
    figure, axes = plot.new(2, 2, height=4.4, sharex=True, sharey="row", gridspec_kw={"height_ratios": [3, 2]})
    for column, kind in enumerate(COLLECTIVES[::-1]):
        above, below = axes[0][column], axes[1][column]
        x = times.column("size_bytes", collective=kind)
        base = times.column("1x8x8_s", collective=kind)
        for index, name in enumerate(TOPOLOGIES):
            values = times.column(f"{name}_s", collective=kind)
            plot.line(above, x, [1e6 * value for value in values], name, index)
            plot.line(below, x, [value / least for value, least in zip(values, base, strict=True)], name, index)
        above.set_yscale("log")
        plot.decimal_ticks(above.yaxis)
        above.set_title(kind.replace("_", "-"))
        below.set_ylim(0, 2.5)
        plot.sizes_below(below, x)
    axes[0][0].legend()
    axes[0][0].set_ylabel("time [µs]")
    axes[1][0].set_ylabel("time / 1x8x8")
    figure.supxlabel("size of the collective", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "64 NPUs in one, two and three dimensions of equal links, baseline all-reduce",
    (BYTES, ORDER, UP_TO, SIMILAR),
    measure,
    draw,
    (
        Choice("two rings on 1x64x1 too", {"1x64x1:fabric.package.rings": 2}),
        Choice(
            "local rings run both ways",
            {f"{name}:fabric.local.direction": "both" for name in ("2x8x4", "4x4x4")},
        ),
        Choice(
            "8 links in three dimensions",
            {
                f"{name}:fabric.{key}": value
                for name in ("2x8x4", "4x4x4")
                for key, value in (("local.direction", "both"), ("package.rings", 1))
            },
        ),
        Choice("1 chunk", {"collectives.chunks": 1}),
        Choice("16 chunks", {"collectives.chunks": 16}),
        Choice("256 chunks", {"collectives.chunks": 256}),
        Choice(
            "unlimited chunks in flight",
            {"collectives.active_chunks": "unlimited", "collectives.issue_threshold": "unlimited"},
        ),
    ),
)
