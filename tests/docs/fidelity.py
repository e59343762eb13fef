"""One receiver and several senders under every network model: where the models agree, and where they do not."""

from __future__ import annotations

from functools import cache
from typing import Any

import syncline
from syncline.report.quantity import size as shown
from syncline.report.quantity import time

SIZES = (1_000, 8_000, 64_000, 500_000, 4_000_000, 64_000_000)
"""Bytes that each sender sends."""
SENDERS = (1, 2, 4, 8, 16, 32)
LINE = 12.5e9
"""Bytes a second of a link: 100 Gb/s."""
PORT = 512 << 10
"""Buffer of a port of the switch (dlrm2020 IV.A)."""


@cache
def incast(model: str, size: int, senders: int, **parameters: Any) -> syncline.Summary:
    """``senders`` around a switch send ``size`` bytes each to one more at a time: a direct reduce."""
    packets = {"model": model, "buffer": f"{(senders + 1) * PORT}B", **parameters}
    return syncline.simulate(
        workload={"collective": "reduce", "bytes": f"{size}B"},
        fabric={"shape": f"Switch({senders + 1})", "rate": "100Gb/s", "latency": "500ns"},
        collectives={"algorithms": {"default": {"reduce": "direct"}}},
        network=packets if model == "packet" else model,
    ).summary


def rows() -> list[list[str]]:
    """Times under the models, those of the faster ones as parts of ``packet``'s, and what was lost."""
    found = []
    for size in SIZES:
        for senders in SENDERS:
            *faster, packet = (incast(model, size, senders) for model in ("analytical", "queued", "flow", "packet"))
            assert packet.packets is not None
            found.append(
                [
                    shown(size),
                    str(senders),
                    *(time(each.total_time_s) for each in (*faster, packet)),
                    *(f"{each.total_time_s / packet.total_time_s:.3g}" for each in faster),
                    str(packet.packets.retransmissions),
                    str(packet.packets.timeouts),
                ]
            )
    return found


HEAD = (
    "each sends",
    "senders",
    "`analytical`",
    "`queued`",
    "`flow`",
    "`packet`",
    "`analytical` / `packet`",
    "`queued` / `packet`",
    "`flow` / `packet`",
    "sent again",
    "time-outs",
)


def goodput(model: str, size: int, senders: int, **parameters: Any) -> float:
    """Bytes that the receiver got, over what its link carries in that time less headers."""
    mtu = int(parameters.get("mtu", "1500B").removesuffix("B"))
    share = (mtu - 52) / (mtu + 2) if model == "packet" else 1
    took = incast(model, size, senders, **parameters).total_time_s
    return senders * size / took / (LINE * share)
