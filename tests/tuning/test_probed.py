"""Plans by what ranks measure when a job begins."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from syncline import SynclineError
from syncline.distances import Measured, Pair
from syncline.grouping import affinity_accuracy  # noqa: F401 - skips without the extra
from syncline.runtime import Plans, Rule
from syncline.runtime.groups import finder
from syncline.runtime.racks import group_size
from syncline.tuning import by_probe, choose
from syncline.tuning.probed import network
from tests.runtime.test_collectives import run

RACKS = [0, 1, 2, 3] * 4


def measured(racks, inside=125e6, between=60e6, noise=0.05, seed=3):
    """Measurements of hosts in racks, with rates in bytes per second."""
    draw = random.Random(seed)
    pairs = {
        (a, b): Pair(
            rtt_s=60e-6 * draw.uniform(1, 1 + noise),
            samples=10,
            rate_bytes_per_s=(inside if racks[a] == racks[b] else between) * draw.uniform(1 - noise, 1),
            transfers=5,
        )
        for a in range(len(racks))
        for b in range(len(racks))
        if a != b
    }
    return Measured(tuple(f"h{number}" for number in range(len(racks))), pairs)


def test_racks_are_found_by_rates_and_decide_the_order():
    rules = [Rule("all_reduce", "tree"), Rule("all_gather", "direct")]
    choice = choose(measured(RACKS), Plans(rules=rules), 16)
    assert choice.plans.racks == RACKS
    assert choice.plans.order is None
    assert choice.plans.rules[-1] == Rule("all_gather", "direct")
    by_size = [rule.algorithm for rule in choice.plans.rules[:-1]]
    # A plan that keeps most messages in racks, for large vectors.
    assert by_size[-1] in ("ring", "two_level")
    large = 4 << 20
    assert choice.simulated_s["ring", large] < 0.7 * choice.simulated_s["direct", large]
    # A ring by racks is bound by the links between racks, which carry 1.6 of the rates between pairs: 2 * 15 / 16 of
    # the vector.
    assert choice.simulated_s["ring", large] == pytest.approx(2 * 15 / 16 * large / (1.6 * 58.5e6), rel=0.02)


def test_the_link_of_a_rack_carries_what_pairs_got_together():
    # Of four hosts in a rack, 2 send at a time, 12 of 15 times to another rack.
    fabric = network(measured(RACKS, noise=0), RACKS)
    assert fabric == {
        "leaf_spine": {
            "leaves": 4,
            "hosts_per_leaf": 4,
            "spines": 1,
            "uplink_rate": f"{60e6 * 1.6:.0f}B/s",
            "rate": "125000000B/s",
            "latency": "15000ns",
        }
    }
    # Never more than the hosts of a rack can send, and one switch where racks differ or there are none.
    fast = network(measured(RACKS, between=120e6 * 4, noise=0), RACKS)
    assert fast["leaf_spine"]["uplink_rate"] == f"{4 * 125e6:.0f}B/s"
    assert "switch" in network(measured([0, 0, 0, 1, 1, 2], noise=0), [0, 0, 0, 1, 1, 2])
    assert "switch" in network(measured([0] * 4, noise=0), None)


def test_without_structure_no_racks_are_claimed():
    choice = choose(measured([0] * 12, noise=0.2), Plans(), 12)
    assert choice.plans.racks is None
    assert [rule.kind for rule in choice.plans.rules] == ["all_reduce"] * 3


def test_the_same_measurements_give_the_same_plans():
    first, second = (choose(measured(RACKS), Plans(), 16).plans for _ in range(2))
    assert first == second == replace(first)


@pytest.mark.parametrize(
    ("racks", "size"), [([0, 0, 1, 1], 2), ([0, 0, 1], 2), ([0, 0, 0, 1, 1, 2], None), ([0, 0, 0], 3), ([0, 1], 1)]
)
def test_racks_are_groups_if_all_but_one_are_alike(racks, size):
    assert group_size(racks) == size


def test_ways_to_find_groups_are_entry_points_or_functions():
    assert finder("probe") is by_probe
    assert finder(print) is print
    with pytest.raises(SynclineError, match="there is no such way to find groups") as raised:
        finder("prob")
    assert "probe" in str(raised.value)


def test_a_function_may_choose_plans():
    body = """
        def mine(ranks):
            if ranks.rank == 1:
                ranks.change_plans(Plans(rules=[Rule("all_reduce", "direct")]))
            ranks.barrier().wait()
        with Communicator.join(groups=mine) as ranks:
            ranks.barrier().wait()
            print(len(ranks.plan_changes))
    """
    assert run(2, body) == ["1"] * 2


@pytest.mark.slow
def test_ranks_probe_each_other_and_change_plans():
    body = """
        with Communicator.join(groups="probe", resources=Resources(shared_memory=False)) as ranks:
            values = array("f", [1.0] * 100_000)
            ranks.all_reduce(values).wait()
            print(values[-1], [rule.kind for rule in ranks.plans.rules], len(ranks.plan_changes) > 0)
    """
    assert run(4, body) == ["4.0 ['all_reduce', 'all_reduce', 'all_reduce'] True"] * 4
