"""Times of collectives that simulations with a calibrated NCCL give, for comparison with measured ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.api import simulate
from syncline.nccl.machine import load, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.nccl.rows import Row

LINKS = {"a100": 300, "h100": 450, "h200": 450, "b200": 900, "b300": 900, "gb200": 900, "gb300": 900, "gh200": 450}
"""GB/s that a GPU sends over NVLink (NVIDIA's data sheets), by the first word of a machine's name."""


def relative(system: str, rows: Sequence[Row]) -> list[float | None]:
    """``simulated / measured - 1`` of each row of a machine; None if the machine has no constants for it.

    Each call is simulated once: alone, on links as fast as those of the machine, with the network model ``analytical``.
    """
    if system not in names():
        return [None] * len(rows)
    known: dict[tuple[Any, ...], float | None] = {}
    found: list[float | None] = []
    for row in rows:
        call = (row.operation, row.call)
        if call not in known:
            known[call] = _seconds(system, row)
        seconds = known[call]
        found.append(None if seconds is None else seconds / row.seconds - 1)
    return found


def _seconds(system: str, row: Row) -> float | None:
    machine = load(system)
    gpus = row.gpus // row.nodes
    alone = machine.time(row.operation, row.bytes, gpus_per_node=gpus, nodes=row.nodes, element_bytes=row.element_bytes)
    if alone is None:
        return None
    dims = [{"name": "nvlink", "size": gpus, "rate_per_npu": f"{LINKS[system.split('-')[0]]}GB/s"}]
    network = machine.content.network
    if row.nodes > 1 and network is not None:
        dims.append({"name": "rail", "size": row.nodes, "rate_per_npu": network.nic_rate})
    scenario = {
        "workload": {"collective": row.operation, "bytes": f"{row.bytes}B"},
        "fabric": {"dims": [{**dim, "shape": "switch", "latency": "100ns"} for dim in dims if dim["size"] != 1]},
        "collectives": {"nccl": system, "element": f"{row.element_bytes}B"},
        "report": False,
    }
    return simulate(scenario).summary.step_time_s
