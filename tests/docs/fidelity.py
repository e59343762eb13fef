"""Comparison of network models: several senders and one receiver, and plans in chunks."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import syncline
from syncline.quantity import size as shown
from syncline.quantity import time

SIZES = (1_000, 8_000, 64_000, 500_000, 4_000_000, 64_000_000)
"""Bytes that each sender sends."""
SENDERS = (1, 2, 4, 8, 16, 32)
LINE = 12.5e9
"""Bytes a second of a link: 100 Gb/s."""
HEADERS = 1448 / 1538
"""Payload of a full packet over its bytes on the wire."""
PORT = 512 << 10
"""Buffer of a port of the switch (dlrm2020 IV.A)."""


@cache
def incast(model: str, size: int, senders: int, **parameters: Any) -> syncline.Summary:
    """``senders`` hosts around a switch each send ``size`` bytes to one more host: a direct reduce."""
    packets = {"model": model, "buffer": f"{(senders + 1) * PORT}B", **parameters}
    return syncline.simulate(
        workload={"collective": "reduce", "bytes": f"{size}B"},
        fabric={"shape": f"Switch({senders + 1})", "rate": "100Gb/s", "latency": "500ns"},
        collectives={"algorithms": {"default": {"reduce": "direct"}}},
        network=packets if model == "packet" else model,
    ).summary


def rows() -> list[list[str]]:
    """Rows of times under the models, ratios of the faster models to ``packet``, and losses."""
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
    """Received bytes over the payload that the receiver's link could carry in that time."""
    mtu = int(parameters.get("mtu", "1500B").removesuffix("B"))
    share = (mtu - 52) / (mtu + 38) if model == "packet" else 1
    took = incast(model, size, senders, **parameters).total_time_s
    return senders * size / took / (LINE * share)


LOSSLESS = {"model": "packet", "transport": "rdma", "congestion": "none", "headers": "0B", "framing": "0B"}
"""Packets that are never lost and only slowed by pauses; without headers, which the other models do not have."""


@dataclass(frozen=True)
class Case:
    """A plan on a network, to compare with lossless packets."""

    name: str
    plan: dict[str, Any]
    """Sections of the scenario."""
    apart: float
    """Largest relative difference between `flow` and packets."""


def named(algorithm: str) -> dict[str, dict[str, dict[str, str]]]:
    """Settings that use an algorithm in every dimension."""
    kinds = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
    offered = {"ring": kinds, "direct": kinds, "halving_doubling": kinds[:3], "double_binary_tree": kinds[:1]}
    return {"algorithms": {"default": dict.fromkeys(offered[algorithm], algorithm)}}


def plan(collective: str, size: str, fabric: dict[str, Any], algorithm: str, **keys: Any) -> dict[str, Any]:
    """A scenario of one collective; further keys, except ``placement``, go into `collectives`."""
    placed = {"placement": keys.pop("placement")} if "placement" in keys else {}
    return {
        "workload": {"collective": collective, "bytes": size},
        "fabric": fabric,
        "collectives": {**named(algorithm), **keys},
        **placed,
    }


def shuffled(seed: int) -> list[int]:
    """A random order of 16 ranks."""
    order = list(range(16))
    random.Random(seed).shuffle(order)
    return order


def permuted(fabric: dict[str, Any], seed: int) -> dict[str, Any]:
    """A ring all-reduce of 16 ranks in a random order."""
    return plan("all_reduce", "16MB", fabric, "ring", logical=[16], placement=shuffled(seed))


RING = {"shape": "Ring(8)", "rate": "50GB/s", "latency": "500ns"}
ONE_WAY = {"dims": [{"name": "ring", "shape": "ring", "size": 8, "direction": "one-way", "rate": "50GB/s"}]}
SWITCHES = {"shape": "Switch(8)_Switch(8)", "rate": "50GB/s", "latency": "500ns"}
SWITCH = {"shape": "Switch(16)", "rate": "50GB/s", "latency": "500ns"}
RAILS = {
    "leaf_spine": {"leaves": 8, "hosts_per_leaf": 4, "spines": 4, "rate": "50GB/s", "latency": "500ns"},
    "nodes": {"npus": 8, "rate": "450GB/s", "latency": "200ns", "rails": True},
}
RACKS = {"leaf_spine": {"leaves": 4, "hosts_per_leaf": 4, "spines": 2, "rate": "100Gb/s", "latency": "500ns"}}
TORUS = {"shape": "Ring(4)_Ring(4)", "rate": "100Gb/s", "latency": "500ns"}
AT_ONCE = {"chunks": 64, "active_chunks": "unlimited"}
HALVING, TREE = "halving_doubling", "double_binary_tree"
TREES = {"all_reduce": "enhanced", "chunks": 64}

CASES = [
    Case("broadcast of 64 MB, ring of 8", plan("broadcast", "64MB", RING, "ring"), 0.03),
    Case(
        "the same, one way, no latency, 64 chunks at once", plan("broadcast", "64MB", ONE_WAY, "ring", **AT_ONCE), 0.03
    ),
    Case("all-reduce of 64 MB, ring of 8: ring", plan("all_reduce", "64MB", RING, "ring"), 0.03),
    Case(
        "all-reduce of 8 MB, 8 x 8 behind switches: halving-doubling",
        plan("all_reduce", "8MB", SWITCHES, HALVING),
        0.03,
    ),
    Case(
        "all-reduce of 64 MB, four nodes of 8 on rails: halving-doubling",
        plan("all_reduce", "64MB", RAILS, HALVING),
        0.03,
    ),
    *(Case(f"all-reduce of 16 MB, racks 2:1: ring in order {seed}", permuted(RACKS, seed), 0.05) for seed in range(4)),
    *(Case(f"the same, torus of 4 x 4: ring in order {seed}", permuted(TORUS, seed), 0.05) for seed in range(4)),
    Case("all-to-all of 16 MB, racks 2:1", plan("all_to_all", "16MB", RACKS, "direct"), 0.05),
    Case("all-to-all of 16 MB, torus of 4 x 4", plan("all_to_all", "16MB", TORUS, "direct", logical=[16]), 0.05),
    Case(
        "all-reduce of 64 MB, switch of 16: double binary tree, 64 chunks",
        plan("all_reduce", "64MB", SWITCH, TREE, **TREES),
        0.1,
    ),
]
"""In the first five, no messages share a link. The last is sensitive to small differences."""


def took(case: Case, network: str | dict[str, Any]) -> float:
    """Simulated time of a case in seconds."""
    return syncline.simulate(**case.plan, network=network).summary.total_time_s


PLANS_HEAD = ("plan", "`analytical`", "`queued`", "`flow`", "lossless packets", "`flow` / packets")


def plan_rows() -> list[list[str]]:
    """Rows of times of plans under the models, and the ratio of ``flow`` to packets."""
    found = []
    for case in CASES:
        times = [took(case, network) for network in ("analytical", "queued", "flow", LOSSLESS)]
        found.append([case.name, *(time(each) for each in times), f"{times[2] / times[3]:.3f}"])
    return found
