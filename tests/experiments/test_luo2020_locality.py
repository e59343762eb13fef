"""luo2020: figures that need no testbed, with checks that share no code with them."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from experiments.harness.runner import Runner
from experiments.harness.table import Table
from experiments.luo2020 import fig0403, fig0404, fig0602, fig0603, probes, sec625, training
from experiments.luo2020.sec625 import zones
from syncline.grouping import affinity_accuracy, find

LAYOUTS = {"one": probes.ONE, "many": probes.MANY}


def shared(one, other):
    """Length of the common prefix of two positions."""
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True))))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_triplets_are_those_of_the_definition(layout):
    """Every triplet of 6.2.5, one by one."""
    centre = layout.centre(0.5, 1)
    places, trips = centre.locations.tolist(), probes.round_trips(centre)
    levels = len(places[0])
    found, right = {}, 0
    for c in range(centre.hosts):
        others = [host for host in range(centre.hosts) if host != c]
        prefix = {host: shared(places[host], places[c]) for host in others}
        for a, b in itertools.combinations(others, 2):
            if prefix[a] == prefix[b]:
                continue
            near, far = (a, b) if prefix[a] > prefix[b] else (b, a)
            key = (levels - prefix[near], levels - prefix[far])
            found[key] = found.get(key, 0) + 1
            right += trips[near, c] < trips[far, c]
    assert layout.compared() == found
    assert affinity_accuracy(trips, places) == pytest.approx(right / sum(found.values()))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_accuracy_of_round_trips_is_that_of_drawn_pairs(layout):
    """The closed form, compared with draws of the two round trips of each kind of triplet."""
    chance = np.random.default_rng(0)
    times, draws = np.array(layout.round_trips_s), 200_000
    total = 0.0
    for (near, far), many in layout.compared().items():
        logs = [np.log(times[each]) + 0.4 * chance.standard_normal(draws) for each in (near, far)]
        total += many * (logs[0] < logs[1]).mean()
    drawn = total / sum(layout.compared().values())
    assert probes.expected_of_round_trips(layout, 0.4) == pytest.approx(drawn, abs=0.003)


@pytest.mark.parametrize("load", [0.2, 2.0])
def test_the_accuracy_of_rates_is_that_of_drawn_links(load):
    """The closed form, compared with draws of the connections on every link of a path."""
    chance = random.Random(0)
    layout, draws = probes.ONE, 4_000

    def poisson(mean):
        """Arrivals of a process with exponential gaps."""
        at, count = chance.expovariate(mean), 0
        while at < 1:
            at, count = at + chance.expovariate(mean), count + 1
        return count

    def busiest(level):
        return max(poisson(load * 2**each) for each in range(level + 1) for _ in range(2))

    total = sum(
        many * sum(busiest(near) < busiest(far) for _ in range(draws)) / draws
        for (near, far), many in layout.compared().items()
    )
    drawn = total / sum(layout.compared().values())
    assert probes.expected_of_rates(layout, load) == pytest.approx(drawn, abs=0.02)
    centres = [layout.centre(0.1, seed) for seed in range(4)]
    probed = [affinity_accuracy(probes.inverse_rates(each, load), each.locations.tolist()) for each in centres]
    assert np.mean(probed) == pytest.approx(drawn, abs=0.03)


def test_idle_links_say_nothing_about_places():
    centre = probes.ONE.centre(0.1, 0)
    assert affinity_accuracy(probes.inverse_rates(centre, 0.0), centre.locations.tolist()) == 0.0
    assert probes.expected_of_rates(probes.ONE, 0.0) == 0.0


def test_fitted_parameters_give_what_they_are_fitted_to():
    noise, load = probes.noise_for(probes.ONE, 0.813), probes.load_for(probes.MANY, 0.774)
    assert probes.expected_of_round_trips(probes.ONE, noise) == pytest.approx(0.813, abs=1e-6)
    assert probes.expected_of_rates(probes.MANY, load) == pytest.approx(0.774, abs=1e-6)


@pytest.mark.parametrize(
    ("gains", "adds", "more"), [((5.0, 8.1), True, True), ((5.0, 4.0), True, False), ((5.0, -1.0), False, False)]
)
def test_the_verdicts_about_embeddings_follow_their_gains(gains, adds, more):
    table = Table("embeddings", "", ("distances", "dimensions", "heights", "alpha", "gain_points"))
    for alpha, gain in zip(sec625.ALPHAS, gains, strict=True):
        table.add("round trips", 2, "no", alpha, gain)
    assert sec625._gain(dict(zip(sec625.ALPHAS, gains, strict=True))).holds == adds
    assert sec625._alpha(table).holds == more


@pytest.mark.parametrize(("trips", "holds"), [(0.9, True), (0.7, False)])
def test_the_verdict_about_probes_follows_the_accuracy_of_rates(trips, holds):
    table = Table("loads", "", ("connections", "here", "closed form"))
    table.add(0.1, 60.0, 60.0)
    table.add(1.0, 80.0, 80.0)
    assert sec625._better(table, trips).holds == holds


def test_values_of_section_6_2_5_agree_within_three_points():
    table = Table("accuracy", "", ("what", "paper", "here", "closed form", "verdict"))
    sec625._row(table, "near", "round trips", 0.93, 0.93)
    assert sec625._values(table, 0.5, 0.2).holds
    sec625._row(table, "far", "alpha 1", 0.10)
    assert not sec625._values(table, 0.5, 0.2).holds
    assert "far" in sec625._values(table, 0.5, 0.2).measured


def test_without_the_file_the_command_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(zones, "FILE", tmp_path / "none.csv.gz")
    table = sec625._regions()
    assert not table.rows
    assert table.missing == "not measured: none.csv.gz is not here"


@pytest.mark.skipif(not zones.FILE.exists(), reason="measured latencies of IBM Cloud are not here")
def test_regions_that_are_found_are_groups():
    measured = zones.read()
    groups = find(measured).groups
    of = [zones.region(zone) for zone in measured.hosts]
    right = [
        each
        for each in set(of)
        if len({group for group, name in zip(groups, of, strict=True) if name == each}) == 1
        and len({name for group, name in zip(groups, of, strict=True) if group == groups[of.index(each)]}) == 1
    ]
    (row,) = sec625._regions().rows
    assert row[:3] == (len(of), len(set(of)), len(right))


@pytest.mark.parametrize(("nodes", "racks"), fig0403.SHAPES)
@pytest.mark.parametrize("name", fig0403.ALGORITHMS)
def test_counts_of_figure_4_3_are_those_of_the_closed_forms(name, nodes, racks):
    placed = fig0403.good(nodes, racks), fig0403.poor(name, nodes, racks)
    assert all(sorted(each) == sorted(placed[0]) for each in placed), "every rack has its nodes"
    best, _, worst = fig0403.expected(name, nodes, racks)
    assert [fig0403.crossing(name, nodes, each) for each in placed] == pytest.approx([best, worst])


@pytest.mark.parametrize("name", fig0403.ALGORITHMS)
def test_on_average_every_algorithm_sends_as_much_between_racks(name):
    found = [fig0403.crossing(name, 2, placed) for placed in fig0403.orders(2, 2)]
    assert len(found) == 6
    assert np.mean(found) == pytest.approx(fig0403.expected(name, 2, 2)[1])


def test_orders_are_all_permutations_of_racks():
    racks = (0, 0, 0, 1, 1, 1)
    assert sorted(fig0403.orders(3, 2)) == sorted(set(itertools.permutations(racks)))


@pytest.mark.parametrize(("poor", "least", "holds"), [(6.0, 2.0, "yyy"), (2.0, 2.0, "nyy"), (6.0, 1.0, "ynn")])
def test_the_verdicts_of_figure_4_3_follow_the_counts(poor, least, holds):
    """The numbers of every algorithm but 2-level aggregation, which sends two vectors."""
    columns = (
        "nodes",
        "racks",
        "algorithm",
        "orders",
        "least",
        "good",
        "form",
        "mean",
        "form_",
        "poor",
        "form__",
        "most",
    )
    table = Table("orders", "", columns)
    for name in fig0403.ALGORITHMS:
        ends = (2.0, 2.0) if name == fig0403.LEVELS else (least, poor)
        table.add(2, 2, name, "all 6", ends[0], 2.0, 2.0, 4.0, 4.0, ends[1], 6.0, ends[1])
    judged = [each(table).holds for each in (fig0403._order, fig0403._best, fig0403._hierarchical)]
    assert judged == [each == "y" for each in holds]


def test_consistency_is_the_adjusted_mutual_information_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    chance = np.random.default_rng(0)
    partitions = np.stack([chance.permutation(np.repeat(np.arange(4), 6)) for _ in range(3)])
    # The third is the second, but for two hosts that changed places.
    partitions[2] = partitions[1]
    partitions[2][[0, 1]] = partitions[2][[1, 0]]
    found = fig0404.adjusted(partitions, partitions, 4)
    for one, other in itertools.product(range(3), repeat=2):
        expected = metrics.adjusted_mutual_info_score(partitions[one], partitions[other])
        assert found[one, other] == pytest.approx(expected, abs=1e-9)


def test_unrelated_partitions_share_as_much_as_chance_says():
    draw = np.random.default_rng(1)
    partitions = np.stack([draw.permutation(np.repeat(np.arange(8), 8)) for _ in range(120)])
    pairs = fig0404.adjusted(partitions, partitions, 8)[np.triu_indices(120, 1)]
    assert pairs.mean() == pytest.approx(0, abs=0.005)


@pytest.mark.parametrize(
    ("fitted", "less", "more", "values"),
    [
        ((0.59, 0.76), (0.6, 0.7), True, True),
        ((0.8, 0.7), (0.6, 0.7), False, False),
        ((0.6, 0.7), (0.9, 0.7), False, True),
    ],
)
def test_the_verdicts_of_figure_4_4_follow_the_consistency(fitted, less, more, values):
    table = Table("consistency", "", ("noise", "alpha", "runs", "with each other", "with the rows"))
    for noise, found in ((0.5, fitted), (0.1, less)):
        for alpha, each in zip(fig0404.ALPHAS, found, strict=True):
            table.add(noise, alpha, 100, each, 0.5)
    assert fig0404._more(table).holds == more
    assert fig0404._values(table).holds == values


@pytest.mark.parametrize(
    ("name", "parameters"), [("VGG 11", 132_863_336), ("VGG 19", 143_667_240), ("ResNet 50", 25_557_032)]
)
def test_layers_have_the_published_number_of_parameters(name, parameters):
    assert sum(each for each, _ in training.profile(name)) == parameters


@pytest.mark.parametrize("name", ["AlexNet", "VGG 11", "VGG 19", "ResNet 50"])
def test_sizes_of_table_6_1_are_in_mebibytes(name):
    counted = 4 * sum(each for each, _ in training.profile(name)) / 2**20
    assert counted == pytest.approx(training.NETWORKS[name].mebibytes, rel=0.006)


@pytest.mark.parametrize("rate", [fig0602.RATE, fig0603.RATE])
@pytest.mark.parametrize("name", training.FEW)
@pytest.mark.parametrize("arm", training.ARMS)
def test_a_step_takes_as_long_as_its_bounds_allow(arm, name, rate):
    """At least compute or the busiest link; at most both, one after the other, and the time of a last chunk."""
    network, how = training.NETWORKS[name], training.ARMS[arm]
    models = 1 if how.hub else 2 * (how.workers - 1) / how.workers
    link = models * 8 * network.mebibytes * 2**20 / (rate * 1e9)
    chunk = how.piece * (how.workers + 1) * 8 / (rate * 1e9)
    found = training.step(Runner(), network, how, rate)
    assert training.bound(network, how, rate) == max(link, network.seconds)
    assert max(link, network.seconds) * 0.999 <= found <= link + network.seconds + 2 * chunk


@pytest.mark.parametrize(("box", "shards", "verdicts"), [(1.8, 1.0, "yy"), (1.0, 1.0, "nn"), (1.8, 1.5, "yn")])
def test_the_verdicts_of_figure_6_2_follow_the_gains(box, shards, verdicts):
    table = made_up_steps(dict.fromkeys(training.NETWORKS, box), shards)
    assert [each(table).holds for each in (fig0602._faster, fig0602._halved)] == [each == "y" for each in verdicts]


@pytest.mark.parametrize(
    ("large", "small", "step", "verdicts"),
    [(1.5, 1.0, 1.5, "yyy"), (1.0, 1.0, 1.5, "yny"), (1.5, 1.2, 1.5, "nyy"), (1.5, 1.0, 1.05, "yyn")],
)
def test_the_verdicts_of_figure_6_3_follow_the_gains(large, small, step, verdicts):
    """``step`` is a step with a box, over compute."""
    gains = {name: large if name in training.LARGE else small for name in training.NETWORKS}
    table = made_up_steps(gains, 1.0, step)
    judged = [each(table).holds for each in (fig0603._hidden, fig0603._faster, fig0603._limited)]
    assert judged == [each == "y" for each in verdicts]


def made_up_steps(gains, shards, step=1.0):
    """Steps of the networks with these throughputs of a box, relative to MXNet's."""
    arms = list(training.ARMS)
    columns = ("network", "compute_s", *(f"{arm}_s" for arm in arms), *(f"{arm} gain_ratio" for arm in arms[1:]))
    table = Table("steps", "", columns)
    for name, gain in gains.items():
        seconds = training.NETWORKS[name].seconds
        table.add(name, seconds, *[step * seconds] * len(arms), shards, gain, gain)
    return table
