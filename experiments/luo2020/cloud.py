"""The emulated cloud of Figures 4.1, 5.1, 6.13 and 6.16: sixteen hosts in four racks that are oversubscribed 4:1."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.luo2020.exchange import MESSAGE, NEAR, WINDOW, cut, fabric, host_costs
from syncline.testbed import PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.harness.claim import Claim, Verdict
    from experiments.harness.runner import Runner

CLOUD = Path(__file__).parent / "fig0616" / "cloud.yaml"
IN_GROUPS = Path(__file__).parent / "in_groups.py"
"""Program of a rank, which runs all-reduces by several plans in turn."""
HOSTS, RACKS = 16, 4
RATE = 200e6
"""Bits per second of a host, and of the link from each rack to the core."""
NBYTES = 2 << 20
"""Size of the vectors."""
PARTS = {"halving_doubling": 2, "double_binary_tree": 2, "bcube": 4, "two_level": HOSTS // RACKS}
"""The largest message of a plan is the vector over this; without an entry, over the number of ranks. The executor cuts
vectors so that no message is larger than 64 KiB."""
TENANTS = [
    {
        "name": "batch",
        "from": "random",
        "to": "random",
        "flows": 4,
        "rate": "120Mb/s",
        "on": "4s",
        "off": "4s",
        "seed": 1,
    },
    {
        "name": "web",
        "from": "random",
        "to": "random",
        "interarrival": "50ms",
        "size": "50kB",
        "distribution": "pareto",
        "rate": "100Mb/s",
        "seed": 2,
    },
]
"""Traffic of other tenants, between machines of their own in all racks: four flows at 120 Mb/s that come and go, on for
half of the time, and 20 small flows a second."""


@cache
def payload(core: float = 1.0) -> dict[str, Any]:
    """The fabric with links as fast as TCP's payload on them, because the network model ``flow`` has no headers.

    The links of racks to the core are ``core`` times as fast as those of hosts.
    """
    found = fabric(CLOUD)

    def rate(link: dict[str, Any]) -> str:
        return f"{RATE * PAYLOAD * (core if link['to'] == 'switch4' else 1):.0f}b/s"

    return {**found, "links": [{**link, "rate": rate(link)} for link in found["links"]]}


def predicted_s(
    runner: Runner,
    plan: str,
    order: Sequence[int],
    nbytes: int = NBYTES,
    oversubscribed: float = HOSTS / RACKS,
    collective: str = "all_reduce",
    chunks: int | None = None,
) -> float:
    """The simulated time of a collective by a plan, with rank ``i`` on host ``order[i]``.

    Without a number of ``chunks``, the vector is cut as by the executor.

    ``oversubscribed`` is what the hosts of a rack can send, over the rate of the rack's link to the core.
    """
    changes = {
        "workload": {"collective": collective, "bytes": f"{nbytes}B"},
        "fabric": payload(HOSTS / RACKS / oversubscribed),
        "placement": list(order),
        "collectives": {
            "all_reduce": "baseline",
            "algorithms": {"default": {collective: plan}},
            "chunks": chunks or cut(nbytes, PARTS.get(plan.partition("(")[0], len(order)) * MESSAGE),
            "min_chunk": "4B",
            "issue_threshold": "unlimited",
            "issue_batch": "unlimited",
            "active_chunks": WINDOW,
            **host_costs()["collectives"],
        },
    }
    return runner.simulate(CLOUD, changes).summary.total_time_s


def rack(host: int) -> int:
    """The rack of a host."""
    return host * RACKS // HOSTS


def crossing(order: Sequence[int]) -> int:
    """How many hops of a ring cross racks."""
    return sum(rack(a) != rack(b) for a, b in zip(order, [*order[1:], order[0]], strict=True))


def judged(asked: Claim, found: Mapping[str, tuple[float, float]], why: str, missing: str = "") -> Verdict:
    """Whether predicted values are within :data:`NEAR` of measured ones; ``found`` has both, by name.

    ``missing`` says why nothing was measured.
    """
    if not found:
        return asked.judged(holds=False, measured=f"0 measured ({missing})", why="Nothing was measured.")
    errors = {what: predicted / measured - 1 for what, (predicted, measured) in found.items()}
    far = [f"{100 * error:+.0f} % ({what})" for what, error in errors.items() if abs(error) > NEAR]
    worst = max(errors, key=lambda what: abs(errors[what]))
    said = f"{len(errors) - len(far)} of {len(errors)} within; at most {100 * errors[worst]:+.0f} % ({worst})"
    return asked.judged(not far, said + (f"; beyond: {', '.join(far)}" if len(far) > 1 else ""), why)


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which a part of the values lies, such as 0.95: the nearest one by rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(part * len(ordered)) - 1))]
