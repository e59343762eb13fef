"""Figure 11: fast links within a package, and an all-reduce algorithm that uses them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020.bandwidth_test import COLLECTIVES, Case, agreement, collective, sizes
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Choice, Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import percent, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from syncline import Result

FOLDER = Path(__file__).parent
SYSTEMS = ("symmetric", "asymmetric")
ALGORITHMS = ("baseline", "enhanced")
VARIANTS = tuple((system, algorithm) for system in SYSTEMS for algorithm in ALGORITHMS)

ORDER = Claim(
    "astra-06",
    "Fig. 11",
    "4x4x4, links within a package have 8 times (asymmetric) or once (symmetric) the rate of the others: asymmetric is "
    "faster than symmetric; on it the enhanced all-reduce of 4 phases is faster than the baseline of 3.",
)
TRAFFIC = Claim(
    "astra-07", "Fig. 11", "The enhanced all-reduce reduces the traffic on links between packages by a factor of 4."
)


def measure(runner: Runner) -> Findings:
    """Times both collectives on both systems and with both all-reduces; counts bytes between packages."""
    times = Table("times", "Time of one collective", ("collective", "size_bytes", *(f"{a}_{b}_s" for a, b in VARIANTS)))
    for kind in COLLECTIVES:
        for each in sizes(runner):
            row = (collective(runner, *_case(kind, each, *variant)).summary.total_time_s for variant in VARIANTS)
            times.add(kind, each, *row)
    largest = sizes(runner)[-1]
    alone = agreement(runner, (_case("all_reduce", each, *variant) for variant in VARIANTS for each in sizes(runner)))
    links = Table(
        "links",
        f"The all-reduce of {size(largest)}; between packages: bytes over all links there; {alone}",
        ("system", "algorithm", "between_packages_bytes", "time_s", "busiest_links", "busy_fraction"),
    )
    for system, algorithm in VARIANTS:
        result = collective(runner, *_case("all_reduce", largest, system, algorithm))
        between = sum(dim.carried_bytes for dim in result.summary.dims if dim.name != "local")
        dimension, busy = _busiest(result)
        links.add(system, algorithm, between, result.summary.total_time_s, dimension, busy)
    return Findings([times, links], [_order(times, links), _traffic(links)])


def _case(kind: str, bytes_: int, system: str, algorithm: str) -> Case:
    return FOLDER / f"{system}.yaml", kind, bytes_, {"collectives.all_reduce": algorithm}


def _busiest(result: Result) -> tuple[str, float]:
    """The dimension whose links send for the largest part of the time, and that part."""
    busy = [(dim.busiest_link_busy or 0.0, dim.name) for dim in result.summary.dims]
    most, name = max(busy, key=lambda each: each[0])
    return name, most


def _range(ratios: list[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f} times"


def _order(times: Table, links: Table) -> Verdict:
    def ratios(kind: str, slow: str, fast: str) -> list[float]:
        pairs = zip(times.column(f"{slow}_s", collective=kind), times.column(f"{fast}_s", collective=kind), strict=True)
        return [left / right for left, right in pairs]

    systems = {kind: ratios(kind, "symmetric_enhanced", "asymmetric_enhanced") for kind in COLLECTIVES}
    baseline = ratios("all_reduce", "symmetric_baseline", "asymmetric_baseline")
    enhanced = ratios("all_reduce", "asymmetric_baseline", "asymmetric_enhanced")
    symmetric = ratios("all_reduce", "symmetric_baseline", "symmetric_enhanced")
    busy = ", ".join(
        f"{system} {algorithm} {dimension} {percent(part)}"
        for system, algorithm, _, _, dimension, part in links.rows
        if isinstance(part, float)
    )
    return ORDER.judged(
        min(*systems["all_to_all"], *systems["all_reduce"], *baseline, *enhanced) > 1,
        f"asymmetric is faster by {_range(systems['all_to_all'])} in all-to-all, {_range(baseline)} in all-reduce "
        f"baseline, {_range(systems['all_reduce'])} enhanced; on it, enhanced is faster than baseline by "
        f"{_range(enhanced)}",
        f"Busiest links of the largest all-reduce: {busy}. Local links as slow as the others bound both algorithms "
        f"(enhanced is only {_range(symmetric)} as fast). With fast local links, links between packages bound the "
        "baseline, and the enhanced algorithm sends less over them. Small sets gain less: latency does not change.",
    )


def _traffic(links: Table) -> Verdict:
    (baseline,) = links.column("between_packages_bytes", system="asymmetric", algorithm="baseline")
    (enhanced,) = links.column("between_packages_bytes", system="asymmetric", algorithm="enhanced")
    return TRAFFIC.judged(
        abs(baseline / enhanced - 4) < 1e-3,
        f"{size(baseline)} over {size(enhanced)}: {baseline / enhanced:.4g}",
        "Bytes are counted on the links. After a reduce-scatter within the package, each of its 4 NPUs has only a "
        "quarter of the set to reduce with other packages.",
    )


LOOKS = {
    "symmetric_baseline": {"color": plot.GREY, "marker": "o", "linestyle": "--", "label": "symmetric, baseline"},
    "symmetric_enhanced": {"color": plot.ORANGE, "marker": "s", "linestyle": "--", "label": "symmetric, enhanced"},
    "asymmetric_baseline": {"color": plot.BLUE, "marker": "^", "label": "asymmetric, baseline"},
    "asymmetric_enhanced": {"color": plot.GREEN, "marker": "D", "label": "asymmetric, enhanced"},
}


def draw(findings: Findings) -> Figure:
    """Draws the times of both collectives; the algorithms apply to the all-reduce only."""
    times = findings.table("times")
    figure, axes = plot.new(2, height=3.2, sharey=True)
    for panel, kind in zip(axes, COLLECTIVES, strict=True):
        x = times.column("size_bytes", collective=kind)
        for variant, look in LOOKS.items():
            if kind == "all_to_all" and variant.endswith("baseline"):
                continue
            label = look["label"].split(",")[0] if kind == "all_to_all" else look["label"]
            y = [1e6 * value for value in times.column(f"{variant}_s", collective=kind)]
            panel.plot(x, y, **{**look, "label": label})
        panel.set_yscale("log")
        plot.decimal_ticks(panel.yaxis)
        panel.set_title(kind.replace("_", "-"))
        panel.legend()
        plot.sizes_below(panel, x)
    axes[0].set_ylabel("time [µs]")
    figure.supxlabel("size of the collective", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "4x4x4 with fast and with equal links within a package, baseline and enhanced all-reduce",
    (ORDER, TRAFFIC),
    measure,
    draw,
    (
        Choice("16 chunks", {"collectives.chunks": 16}),
        Choice("256 chunks", {"collectives.chunks": 256}),
        Choice("local rings run both ways", {"fabric.local.direction": "both"}),
        Choice(
            "unlimited chunks in flight",
            {"collectives.active_chunks": "unlimited", "collectives.issue_threshold": "unlimited"},
        ),
    ),
)
