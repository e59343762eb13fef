"""Finds the racks of data centres that are made up, and none where there are none."""

import numpy as np
import pytest

from experiments.luo2020.sec625 import zones
from syncline.distances import Measured, Pair
from syncline.errors import SynclineError
from syncline.grouping.synthetic import DataCentre, without_structure

pytest.importorskip("scipy")
pytest.importorskip("sklearn")

from syncline.grouping.affinity import affinity_accuracy
from syncline.grouping.clusters import agreement
from syncline.grouping.search import Settings, find
from tests.probing.test_schedule import run


@pytest.mark.parametrize("fan_out", [(), (4,), (2, 2)])
def test_racks_are_found_exactly_at_little_noise(fan_out):
    centre = DataCentre(hosts=64, rack=8, fan_out=fan_out, noise=0.1, seed=1)
    found = find(centre.measured())
    assert agreement(centre.racks, np.array(found.groups)) >= 0.99
    assert found.found
    assert found.p_value < 1e-6
    assert found.inside < found.between


@pytest.mark.parametrize(("hosts", "rack", "fan_out"), [(96, 16, (3,)), (64, 16, ()), (128, 16, (4,))])
def test_much_noise_hides_no_structure(hosts, rack, fan_out):
    centre = DataCentre(hosts=hosts, rack=rack, fan_out=fan_out, noise=0.4, seed=2)
    found = find(centre.measured())
    assert agreement(centre.racks, np.array(found.groups)) >= 0.9


@pytest.mark.parametrize(
    ("hosts", "rack", "fan_out", "noise", "least"),
    [
        (64, 8, (), 0.1, 0.99),
        (128, 16, (4,), 0.1, 0.99),
        (64, 16, (), 0.4, 0.9),
        (64, 16, (4,), 0.4, 0.9),
    ],
)
def test_the_sampled_schedule_suffices(hosts, rack, fan_out, noise, least):
    found = []
    for seed in (11, 12, 13):
        centre = DataCentre(hosts=hosts, rack=rack, fan_out=fan_out, noise=noise, seed=seed)
        found.append(agreement(centre.racks, np.array(find(run(centre)[1]).groups)))
    # The middle one of three: data centres are made up at random, and so is what noise hides.
    assert sorted(found)[1] >= least, found


@pytest.mark.parametrize("seed", range(4))
def test_the_sampled_schedule_finds_nothing_in_noise(seed):
    centre = without_structure(48, noise=(0.1, 0.4)[seed % 2], seed=seed)
    assert not find(run(centre)[1]).found


@pytest.mark.parametrize("seed", range(4))
def test_nothing_but_noise_has_no_structure(seed):
    found = find(without_structure(48, noise=(0.1, 0.4)[seed % 2], seed=seed).measured())
    assert not found.found
    assert set(found.groups) == {0}


def test_the_embedding_knows_more_than_the_measurements():
    # The paper measures 81.3 % without the embedding, and 8.1 % more with it (6.2.5).
    centre = DataCentre(hosts=64, rack=8, fan_out=(4,), noise=0.3, seed=3)
    measured = centre.measured()
    found = find(measured)
    locations = centre.locations.tolist()
    raw = affinity_accuracy(measured.matrix(measured.round_trips), locations)
    a, b = (each.ravel() for each in np.indices((64, 64)))
    apart = np.linalg.norm(found.coordinates[a] - found.coordinates[b], axis=1).reshape(64, 64)
    assert affinity_accuracy(apart, locations) > max(0.894, raw)


def test_a_number_of_groups_gives_balanced_groups():
    pytest.importorskip("k_means_constrained")
    centre = DataCentre(hosts=32, rack=8, spread=0.0, noise=0.1, seed=1)
    found = find(centre.measured(), Settings(groups=4, balance=0.0))
    assert [len(each) for each in found.members] == [8, 8, 8, 8]
    assert agreement(centre.racks, np.array(found.groups)) == 1.0
    assert find(centre.measured(), Settings(groups="sqrt")).count == 6


def test_rates_group_as_well():
    centre = DataCentre(hosts=32, rack=8, noise=0.1, seed=1)
    trips = centre.measured()
    rates = {pair: Pair(rate_bytes_per_s=1.0 / each.rtt_s) for pair, each in trips.pairs.items()}
    found = find(Measured(trips.hosts, rates), Settings(by="rate"))
    assert agreement(centre.racks, np.array(found.groups)) >= 0.99
    assert found.inside > found.between


def test_the_seed_decides():
    measured = DataCentre(hosts=32, rack=8, noise=0.4, seed=1).measured()
    one, same = (find(measured, Settings(seed=5)) for _ in range(2))
    assert one.as_dict() == same.as_dict()


def _measured(hosts, pairs):
    return Measured(tuple(f"h{number}" for number in range(hosts)), {pair: Pair(rtt_s=1e-5) for pair in pairs})


@pytest.mark.parametrize(
    ("measured", "settings", "code", "message"),
    [
        (_measured(3, [(0, 1), (1, 2), (0, 2)]), Settings(), "SL1301", "too few hosts"),
        (_measured(6, [(0, 1), (1, 2)]), Settings(), "SL1301", "too few round trips"),
        (_measured(6, [(0, 1)]), Settings(by="rate"), "SL1301", "too few rates"),
        (
            _measured(6, [(a, b) for a in range(5) for b in range(5) if a != b] + [(0, 1)]),
            Settings(),
            "SL1301",
            "too few",
        ),
        (_measured(6, [(a, b) for a in range(6) for b in range(a)]), Settings(groups=4), "SL0102", "number of groups"),
        (_measured(6, [(a, b) for a in range(6) for b in range(a)]), Settings(balance=2.0), "SL0102", "balance"),
        (_measured(6, [(a, b) for a in range(6) for b in range(a)]), Settings(alpha=3.0), "SL0102", "alpha"),
        (_measured(6, [(a, b) for a in range(6) for b in range(a)]), Settings(dimensions=0), "SL0102", "dimensions"),
    ],
)
def test_impossible_requests_are_refused(measured, settings, code, message):
    with pytest.raises(SynclineError, match=message) as caught:
        find(measured, settings)
    assert caught.value.diagnostics[0]["code"] == code


def test_a_host_without_measurements_is_named():
    pairs = [(a, b) for a in range(7) for b in range(a)]
    measured = _measured(8, pairs)
    with pytest.raises(SynclineError, match="h7"):
        find(measured)


def test_equal_distances_have_no_structure():
    assert not find(_measured(8, [(a, b) for a in range(8) for b in range(a)])).found


@pytest.mark.skipif(not zones.FILE.exists(), reason="measured latencies of IBM Cloud are not here")
def test_regions_are_found_from_latencies_between_zones():
    measured = zones.read()
    region = [zones.region(zone) for zone in measured.hosts]
    # Not all: the zones of Toronto are divided between Montreal and Washington, 11 and 16 ms away.
    assert agreement(np.unique(region, return_inverse=True)[1], np.array(find(measured).groups)) >= 0.85
