"""Communication by axis of parallelism and tier, exposed and hidden."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from syncline.estimate.screen import COMMUNICATION, WHY
from syncline.jobs.charts.step import exposed_by_tier
from syncline.quantity import counted, time
from syncline.report.html.chart import Chart

if TYPE_CHECKING:
    from syncline.jobs.detail import Communication, Detail
    from syncline.jobs.estimation import Estimate


def chart(estimate: Estimate, detail: Detail) -> Chart | None:
    """Seconds by axis and tier, exposed and hidden; None without communication."""
    grouped: dict[tuple[str, str], list[Communication]] = defaultdict(list)
    for each in detail.communication:
        if each.seconds > 0:
            grouped[each.part, each.tier].append(each)
    if not grouped:
        return None
    split = exposed_by_tier(estimate, detail)
    rows: list[dict[str, Any]] = []
    for (part, tier), calls in grouped.items():
        whole = sum(each.seconds for each in calls)
        shown = split.get(part, {}).get(tier, 0.0)
        largest = max(calls, key=lambda each: each.seconds)
        rows.append(
            {
                "label": COMMUNICATION[part],
                "collective": ", ".join(dict.fromkeys(each.collective for each in calls)),
                "tier": tier,
                "ranks": f"{largest.in_domain * largest.domains:,} in {counted(largest.domains, 'NVLink domain')}",
                "bytes": float(f"{largest.bytes:.6g}"),
                "times": float(f"{sum(each.times for each in calls):.6g}"),
                "exposed": float(f"{shown:.6g}"),
                "hidden": float(f"{max(whole - shown, 0.0):.6g}"),
            }
        )
    whole, shown = (sum(each[key] for each in rows) for key in ("hidden", "exposed"))
    worst = max(rows, key=lambda each: float(each["exposed"]))
    part = next(name for name, title in COMMUNICATION.items() if title == worst["label"])
    return Chart(
        "estimate_communication",
        "Communication, exposed and hidden",
        f"Of {time(whole + shown)} of communication, {time(shown)} is exposed, most of it {worst['label']} over"
        f" {_through(worst['tier'])}: {WHY[part]}.",
        "A bar is the time in a step that a rank of the stage that computes most spends on one axis of parallelism."
        " Exposed: ranks wait for it. Hidden: they compute meanwhile; how much overlaps is a constant of the software,"
        " fitted to measured steps. Sizes are those of the largest collective: the gathered or reduced vector, what a"
        " rank sends to all, or a message.",
        {key: [each[key] for each in rows] for key in rows[0]},
    )


def _through(tier: str) -> str:
    return "NVLink" if tier == "NVLink" else "the network"
