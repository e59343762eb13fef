"""The machines of the package reach what was measured on them, and behave as NCCL does."""

from __future__ import annotations

import pytest

from syncline import nccl

GIB = 1 << 30
FACTORS = {"all_reduce": 2 * 7 / 8, "all_gather": 7 / 8, "reduce_scatter": 7 / 8}


def time(machine, operation, nbytes, **group):
    found = nccl.load(machine).time(operation, nbytes, **group)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("machine", "operation", "bus"),
    [
        ("a100-sxm", "all_reduce", 222),
        ("a100-sxm", "all_gather", 205),
        ("a100-sxm", "reduce_scatter", 213),
        ("h100-sxm", "all_reduce", 445),
        ("h100-sxm", "all_gather", 336),
        ("h100-sxm", "reduce_scatter", 336),
        ("b200-sxm", "all_reduce", 702),
        ("b200-sxm", "all_gather", 617),
        ("b200-sxm", "reduce_scatter", 613),
    ],
)
def test_large_calls_of_eight_gpus_reach_the_measured_bus_bandwidth(machine, operation, bus):
    """GB/s as nccl-tests counts them, at 512 MiB of half-precision elements."""
    seconds = time(machine, operation, GIB // 2, gpus_per_node=8).seconds
    assert GIB / 2 * FACTORS[operation] / seconds / 1e9 == pytest.approx(bus, rel=0.04)


@pytest.mark.parametrize("machine", ["h100-sxm", "b200-sxm", "b300-sxm"])
def test_eight_gpus_sum_by_nvlink_sharp_where_it_can(machine):
    assert time(machine, "all_reduce", GIB, gpus_per_node=8).algorithm == "nvls"
    # It knows no sums of 1-byte elements.
    assert time(machine, "all_reduce", GIB, gpus_per_node=8, element_bytes=1).algorithm == "ring"
    assert time(machine, "all_reduce", 4096, gpus_per_node=8).protocol == "LL"


MEASURED = [
    (name, operation)
    for name in nccl.names()
    for operation, constants in nccl.load(name).content.in_node
    if constants is not None
]


@pytest.mark.parametrize(("machine", "operation"), MEASURED)
def test_protocols_follow_each_other_by_size(machine, operation):
    loaded = nccl.load(machine)
    sizes = [1 << exponent for exponent in range(10, 31)]
    times = loaded.times(operation, [(size, 2, 2, 1, 1) for size in sizes])
    order = {"LL": 0, "LL128": 1, "Simple": 2}
    used = [order[each.protocol] for each in times]
    assert used == sorted(used)
    assert used[-1] == 2
    assert all(0 < each.seconds < 1 for each in times)


def test_every_file_says_where_it_comes_from_and_how_good_it_is():
    for name in nccl.names():
        content = nccl.load(name).content
        assert content.name == name
        assert content.source
        assert content.date
        for operation, constants in content.in_node:
            if constants is not None:
                assert constants.errors is not None, (name, operation)
                assert constants.errors.median < 0.04, (name, operation)
        assert content.network is None or content.network.source


def test_a_calibrated_machine_is_among_those_that_validate_names():
    assert {"a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300", "gh200-alps"} <= set(
        nccl.names()
    )


def test_a_slow_network_bounds_large_calls():
    # InternEvo's nodes: 4 interfaces of 100 Gb/s, 92 % of them: 46 GB/s. 15/16 GB leave a node.
    found = time("a100-sxm-4x100g", "all_gather", 10**9, gpus_per_node=8, nodes=2)
    assert found.algorithm == "ring"
    assert found.transfer_s == pytest.approx(15 / 16 / 46, rel=1e-6)
    # Groups of one GPU in each node: eight of them share four interfaces.
    alone = time("a100-sxm-4x100g", "all_gather", 10**9, gpus_per_node=1, nodes=2)
    shared = time("a100-sxm-4x100g", "all_gather", 10**9, gpus_per_node=1, nodes=2, concurrent=8)
    assert alone.transfer_s == pytest.approx(0.5 / 11.5, rel=1e-6)
    assert shared.transfer_s == pytest.approx(2 * alone.transfer_s, rel=1e-6)
