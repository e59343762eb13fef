"""Where a step goes: its parts, which add up."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from syncline.estimate.screen import COMMUNICATION, PARTS
from syncline.quantity import percent
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from syncline.jobs.detail import Detail
    from syncline.jobs.estimation import Estimate

COMPUTING = ("products", "attention", "element_wise", "ends")
"""Parts of a step in which accelerators compute."""
NETWORK = "network"
_COLOURS = {
    "computing": "compute",
    "NVLink": "exposed",
    NETWORK: "skew",
    "bubble": "bubble",
    "waiting": "wait",
    "host": "wait",
}


def exposed_by_tier(estimate: Estimate, detail: Detail) -> dict[str, dict[str, float]]:
    """Seconds of a step in which ranks wait for communication: by part of the step, and by what it goes through."""
    split: dict[str, dict[str, float]] = {}
    for part in COMMUNICATION:
        seconds = estimate.parts[part]
        if seconds <= 0:
            continue
        whole: dict[str, float] = defaultdict(float)
        for each in detail.communication:
            if each.part == part:
                whole[each.tier] += each.seconds
        total = sum(whole.values())
        split[part] = (
            {tier: seconds * part_s / total for tier, part_s in whole.items()} if total else {NETWORK: seconds}
        )
    return split


def lines(estimate: Estimate, detail: Detail) -> list[tuple[str, str, float]]:
    """The step as parts that add up: what, where (computing, NVLink, network, bubble, waiting, host), seconds."""
    parts = estimate.parts
    made = [(PARTS[name], "computing", parts[name]) for name in COMPUTING]
    for part, by_tier in exposed_by_tier(estimate, detail).items():
        made += [(COMMUNICATION[part], tier, seconds) for tier, seconds in sorted(by_tier.items())]
    made.append((PARTS["bubble"], "bubble", parts["bubble"]))
    made.append((PARTS["launch"], "waiting", parts["launch"]))
    made.append((PARTS["offload"], "host", parts["offload"]))
    made.append((PARTS["update"], "computing", parts["update"]))
    return [each for each in made if each[2] > 0]


def chart(estimate: Estimate, detail: Detail) -> Chart:
    """The parts of the step, which add up."""
    rows = lines(estimate, detail)
    exposed = sum(seconds for _, where, seconds in rows if where in ("NVLink", NETWORK, "host"))
    computing = sum(seconds for _, where, seconds in rows if where == "computing")
    bubble = estimate.parts["bubble"]
    return Chart(
        "estimate_step",
        "Where the step goes",
        f"{percent(computing / estimate.step_s)} of the step is computing, {percent(exposed / estimate.step_s)} exposed"
        f" communication, {percent(bubble / estimate.step_s)} waiting for other stages of the pipeline.",
        "Each bar begins where the one above it ends, so that all of them add up to the step. They are those of the"
        " stage that computes most. Communication that computing hides is not in them. NVLink or network: what the"
        " slowest part of a collective goes through.",
        {
            "part": [name for name, _, _ in rows],
            "where": [_where(where) for _, where, _ in rows],
            "colour": [_COLOURS[where] for _, where, _ in rows],
            "seconds": rounded([seconds for _, _, seconds in rows]),
        },
    )


def _where(where: str) -> str:
    names = {
        "NVLink": "exposed, over NVLink",
        NETWORK: "exposed, over the network",
        "bubble": "pipeline bubble",
        "host": "exposed, to the host",
    }
    return names.get(where, where)
