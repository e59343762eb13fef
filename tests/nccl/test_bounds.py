"""No collective of the package's machines is faster than the links that it must cross."""

from __future__ import annotations

import pytest

import syncline.nccl

RATES = {
    # Bytes a second and direction of a GPU over NVLink, and of its part of the network, by the data sheets.
    "a100": (300e9, 25e9),
    "h100": (450e9, 50e9),
    "h800": (200e9, 50e9),
    "h200": (450e9, 50e9),
    "gh200": (450e9, 25e9),
    "b200": (900e9, 50e9),
    "gb200": (900e9, 50e9),
    "b300": (900e9, 100e9),
    "gb300": (900e9, 100e9),
}
GROUPS = [(2, 1), (4, 1), (8, 1), (8, 2), (8, 8), (1, 16), (4, 4)]


def least_s(operation: str, size: int, inside: int, nodes: int, nvlink: float, network: float) -> float:
    """What must enter a GPU over NVLink or a node from the network; of sums in the switch, the vector once."""
    ranks = inside * nodes
    if operation == "all_to_all":
        return max(size * (inside - 1) / ranks / nvlink, size * (ranks - inside) / ranks / network)
    if operation == "send_recv":
        return size / (nvlink if nodes == 1 else network)
    if operation in ("all_gather", "reduce_scatter"):
        near, far = (ranks - 1) / ranks, (nodes - 1) / nodes
    else:
        near, far = 1.0, 1.0
    return size * near / nvlink if nodes == 1 else size * far / inside / network


@pytest.mark.parametrize("name", syncline.nccl.names())
def test_no_collective_is_faster_than_its_links(name: str):
    machine = syncline.nccl.load(name)
    nvlink, network = RATES[name.split("-")[0]]
    compared = 0
    for operation in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"):
        for inside, nodes in GROUPS:
            for size in (1 << power for power in range(10, 34, 3)):
                found = machine.time(operation, size, gpus_per_node=inside, nodes=nodes)
                if found is None:
                    continue
                compared += 1
                least = least_s(operation, size, inside, nodes, nvlink, network)
                assert found.seconds >= 0.999 * least, (operation, inside, nodes, size)
    assert compared > 0
