"""luo2020, chapters 4 and 5: predictions by hand, verdicts, and sessions on a testbed."""

from __future__ import annotations

import json
from statistics import mean

import pytest

from experiments.harness.runner import Runner
from experiments.harness.table import Table
from experiments.harness.testbed import RECORD, Live, Measured, Measurement, Nothing, Record, Session
from experiments.luo2020 import cloud, fig0401, fig0501, fig0613, fig0615, fig0616, orders, sec634
from experiments.luo2020.beside import Pair
from syncline.distances import Pair as Path
from tests.testbed.specs import needs_namespaces

RUNNER = Runner(quick=True)
IN_RACKS = list(range(16))
ACROSS = [4 * rack + place for place in range(4) for rack in range(4)]
"""The hosts of a rack one after the other, and an order in which no neighbours share a rack."""


@pytest.mark.parametrize(
    ("plan", "order", "vectors", "nbytes"),
    [
        # A ring sends 2 (N - 1) / N vectors over each hop; 1 or 4 hops share the link of a rack.
        ("ring", IN_RACKS, 1.875, 1 << 20),
        ("ring", ACROSS, 4 * 1.875, 1 << 20),
        # Flat: 4 hosts of a rack send 12 of 16 blocks to other racks, and as many sums.
        ("parameter_server", IN_RACKS, 4 * 2 * 12 / 16, 1 << 20),
        # On two levels, one chunk: 2 * 3/4 vectors within racks, then 4 hosts send 2 * 3/4 of a quarter each.
        ("two_level(group=4)", IN_RACKS, 1.5 + 4 * 1.5 / 4, 256 << 10),
    ],
)
def test_simulations_of_the_cloud_match_calculations_by_hand(plan, order, vectors, nbytes):
    by_hand = vectors * 8 * nbytes / (200e6 * 1448 / 1514)
    assert cloud.predicted_s(RUNNER, plan, order, nbytes) == pytest.approx(by_hand, rel=0.03)


def test_a_ring_crosses_racks_as_often_as_counted():
    assert [cloud.crossing(order) for order in (IN_RACKS, ACROSS)] == [4, 16]
    assert [fig0501.shared(order) for order in (IN_RACKS, ACROSS)] == [1, 4]
    assert fig0501.closed_form_s(4) == pytest.approx(4 * 1.875 * 8 * (1 << 20) / (200e6 * 1448 / 1514))


def test_the_cost_of_a_ring_is_the_sum_of_its_hops():
    """The model of costs (5.2.1) by hand: a hop takes half of a round trip."""
    measured = orders.modelled(16, 4, 10e-6)
    assert (measured.pairs[0, 1].rtt_s, measured.pairs[0, 4].rtt_s) == (pytest.approx(40e-6), pytest.approx(80e-6))
    model = orders.costs(measured, "ring", orders.shuffled(16, 1, 1)[0])
    for order in (IN_RACKS, ACROSS, *orders.shuffled(16, 3, 2)):
        crossing = cloud.crossing(order)
        assert model.of(order) == pytest.approx(20e-6 * (16 - crossing) + 40e-6 * crossing)
    assert cloud.crossing(model.best) == 4
    assert cloud.crossing(model.dear()) == 16


@pytest.mark.parametrize("plan", orders.PLANS.values())
def test_orders_between_the_cheapest_and_the_dearest_become_dearer(plan):
    model = orders.costs(orders.modelled(16, 4, 10e-6), plan, orders.shuffled(16, 1, 1)[0])
    dear = model.dear()
    chosen = fig0616.chosen(model, 3)
    assert [kind for kind, _ in chosen] == ["best", *["part"] * 9, "worst", *["random"] * 3]
    assert all(sorted(order) == IN_RACKS for _, order in chosen)
    costs = [model.of(order) for kind, order in chosen if kind != "random"]
    assert costs == sorted(costs)
    assert (costs[0], costs[-1]) == (model.of(model.best), model.of(dear))
    assert min(model.of(order) for order in orders.shuffled(16, 20, 4)) >= costs[0]


def test_spearmans_correlation_is_that_of_ranks():
    assert orders.spearman([1, 2, 3, 4], [10, 20, 30, 1000]) == pytest.approx(1)
    assert orders.spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    # With d the differences of ranks, 1 - 6 sum(d^2) / (n (n^2 - 1)).
    assert orders.spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert orders.spearman([1, 1, 2, 2], [1, 1, 5, 5]) == pytest.approx(1)
    assert orders.spearman([1, 1], [1, 2]) == 0


def test_swapped_orders_differ_by_few_swaps():
    once, *_, often = orders.swapped(IN_RACKS, 10, 1)
    assert sum(a != b for a, b in zip(once, IN_RACKS, strict=True)) == 2
    assert sorted(often) == IN_RACKS
    assert orders.parsed(orders.written(often)) == often


def test_percentiles_are_those_by_rank():
    assert [cloud.percentile(range(1, 101), part) for part in (0.0, 0.05, 0.5, 0.95, 1.0)] == [1, 5, 50, 95, 100]


def test_predictions_are_judged_by_their_errors():
    asked = fig0613.TIMES
    assert cloud.judged(asked, {"a": (1.1, 1.0), "b": (0.9, 1.0)}, "").holds
    far = cloud.judged(asked, {"a": (1.2, 1.0), "b": (0.5, 1.0)}, "")
    assert not far.holds
    assert far.measured == "0 of 2 within; at most -50 % (b); beyond: +20 % (a), -50 % (b)"
    assert "needs root" in cloud.judged(asked, {}, "", "needs root").measured


# Figure 6.15


def test_masters_for_a_slow_host_take_the_least_possible_time():
    """By hand: a host that is the master of nothing sends its vector once; in a balanced assignment, 1.75 vectors."""
    vector_s = 8 * (1 << 20) / (1448 / 1514)
    even, tuned = fig0615.assignment(fig0615.RATE), fig0615.assignment(fig0615.LIMIT)
    assert fig0615.least_s(even, 250e6) == pytest.approx(1.75 * vector_s / 250e6)
    assert fig0615.least_s(even, 100e6) == pytest.approx(1.75 * vector_s / 100e6)
    assert fig0615.least_s(tuned, 100e6) == pytest.approx(vector_s / 100e6)
    assert 0 not in tuned.global_masters


def test_a_job_is_divided_into_phases():
    """Steps of 0.1 s, of 0.5 s while the limit lasts; rank 1 sends twice as much as rank 0 at the end."""
    steps = [0.1 * step for step in range(11)]
    steps += [steps[-1] + 0.5 * step for step in range(1, 11)]
    steps += [steps[-1] + 0.1 * step for step in range(1, 11)]
    sent = [
        [(step, 10 * step) for step in range(31)],
        [(step, 10 * step + 10 * max(0, step - 21)) for step in range(31)],
    ]
    ranks = [{"steps": steps, "decisions": [], "sent": sent[0]}, {"sent": sent[1]}]
    job = fig0615._Job(ranks, 1.0, 6.0)
    before, under, after = job.phases()
    assert [len(each) for each in (before, under, after)] == pytest.approx([10, 10, 10], abs=1)
    assert job.summary(under)["median_s"] == pytest.approx(0.5)
    assert job.summary(before) == {
        "median_s": pytest.approx(0.1),
        "least_s": pytest.approx(0.1),
        "count": len(before),
    } | {"imbalance": 1.0}
    assert job.summary(fig0615._end(after))["imbalance"] == 2.0
    assert job.series()["per_second"][0] == pytest.approx(10)


@pytest.mark.parametrize(("tuned_s", "holds"), [(1.0, True), (1.3, False)])
def test_the_verdicts_of_figure_6_15_follow_the_measurements(tuned_s, holds):
    exchange = fig0615.exchange(fig0615.FREE, fig0615.assignment(250e6), RUNNER.store.place / "plans")
    pairs = {
        phase: Pair(phase, exchange, 1.0, Measurement(seconds, seconds, 1, 0.0))
        for phase, seconds in ((fig0615.BALANCED, 1.5), (fig0615.TUNED, tuned_s))
    }
    assert fig0615._speedup(pairs).holds == holds
    loads = {fig0615.AGAIN: {"imbalance": 1.04 if holds else 1.2}, fig0615.TUNED: {"imbalance": 2.0}}
    assert fig0615._imbalance(Measured({"phases": loads, "decisions": []}, 0.0)).holds == holds
    assert not fig0615._imbalance("needs root").holds


# Other figures


@pytest.mark.parametrize(
    ("ring", "tree", "verdicts"), [(3.5, 1.2, "yy"), (1.5, 2.0, "yn"), (3.5, 1.0, "ny"), (5.0, 1.2, "ny")]
)
def test_the_verdicts_of_figure_6_16_follow_the_ratios(ring, tree, verdicts):
    found = Measured({}, 0.0)
    arms = [
        fig0616.Arm("executor", name, (1.0, 2.0), (1.0, ratio), found)
        for name, ratio in (("ring", ring), ("tree", tree))
    ]
    assert [each(arms).holds for each in (fig0616._gain, fig0616._ring)] == [each == "y" for each in verdicts]
    table = Table("correlations", "", ("library", "algorithm", "10 orders"))
    table.add("executor", "ring", tree / 2)
    assert fig0616._correlation(arms[:1], table).holds == (tree / 2 >= 0.58)


def test_the_verdicts_of_figure_6_13_follow_the_times():
    names = (fig0613.FLAT, fig0613.PROBED, fig0613.RANDOM)
    found = Measured({}, 0.0)
    shared = dict(zip(names, ([2.0, 2.2], [1.0, 1.1], [2.0, 3.0]), strict=True))
    assert fig0613._gain(dict.fromkeys(names, 1.0), shared, found).holds
    assert fig0613._over_flat({}, shared, found).holds
    assert fig0613._stable(shared, found).holds
    swapped = {**shared, fig0613.PROBED: [2.0, 4.0]}
    assert not fig0613._gain(dict.fromkeys(names, 1.0), swapped, found).holds
    assert not fig0613._over_flat({}, swapped, found).holds
    assert not fig0613._stable(swapped, found).holds


def test_reduce_scatter_by_halving_takes_as_long_as_by_hand():
    """LightGBM's: half of the histograms go to the rank at distance 8, a quarter at distance 4, and so on."""
    vector_s = sec634.HISTOGRAMS * 8 / (200e6 * 1448 / 1514)
    for order, links in (
        (IN_RACKS, (4, 4, 1, 1)),  # four hosts of a rack share its link while partners are 8 or 4 apart
        (ACROSS, (1, 1, 4, 4)),
    ):
        by_hand = vector_s * sum(hosts / 2**step for step, hosts in enumerate(links, start=1))
        found = sec634.collective_s(RUNNER, sec634.APPLICATIONS[0], order)
        assert found == pytest.approx(by_hand, rel=0.03)


def test_applications_find_orders_that_keep_most_bytes_in_racks():
    trees, networks = (
        sec634.chosen(application, sec634.assumed(), quick=True)[0] for application in sec634.APPLICATIONS
    )
    assert all(len({cloud.rack(trees[rank + 4 * step]) for step in range(4)}) == 1 for rank in range(4))
    assert cloud.crossing(networks) == 4


@pytest.mark.parametrize(("random_s", "holds"), [(2.0, True), (1.25, False)])
def test_the_verdicts_on_applications_follow_the_times(random_s, holds):
    outcomes = [
        sec634.Outcome(application, 0.1, (0.9, random_s - 0.1), (1.0, random_s)) for application in sec634.APPLICATIONS
    ]
    trees, networks, predicted = sec634._verdicts(outcomes)
    assert (trees.holds, networks.holds, predicted.holds) == (holds, True, True)
    slow = [sec634.Outcome(sec634.APPLICATIONS[0], 0.1, (0.9, 1.9), (1.0, 3.0)), outcomes[1]]
    assert not sec634._verdicts(slow)[2].holds


def test_random_groups_are_balanced_and_rates_show_racks():
    for seed in fig0613.SEEDS:
        assert sorted(fig0613.balanced(seed)) == sorted(host % 4 for host in range(16))
    measured = orders.modelled(16, 4, 10e-6)
    rates = {
        key: Path(rtt_s=pair.rtt_s, rate_bytes_per_s=23e6 if cloud.rack(key[0]) == cloud.rack(key[1]) else 9e6)
        for key, pair in measured.pairs.items()
    }
    by, groups = fig0613.grouped(type(measured)(measured.hosts, rates))
    assert (by, groups) == ("rate", [cloud.rack(host) for host in range(16)])
    assert fig0613.by_groups(groups) == list(range(16))


def test_pairs_that_share_a_link_have_a_part_of_it():
    rate = 200e6 * 1448 / 1514
    assert fig0401.fair_share([(0, 1), (2, 3)]) == rate
    assert fig0401.fair_share([(0, 4), (1, 5)]) == rate / 2
    assert fig0401.bounds() == (pytest.approx(rate / 32), pytest.approx(rate / 8))


def test_mean_round_trips_are_those_of_two_seconds():
    pulse = {"at_s": [0.0, 1.0, 2.5, 3.0], "seconds": [1.0, 3.0, 5.0, 5.0]}
    assert fig0401.windows(pulse) == [(1.0, mean([1.0, 3.0])), (3.0, 5.0)]
    assert fig0401.summary(pulse) == {"parts": [1, 1, 3, 5, 5], "at_s": [1.0, 3.0], "mean_s": [2.0, 5.0]}


def test_measured_orders_are_spread_from_the_fastest_to_the_slowest():
    times = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert fig0501.spread(times, 3) == [1, 4, 0]
    assert fig0501.spread(times, 5) == [1, 3, 4, 2, 0]


@pytest.mark.parametrize(("first", "second", "holds"), [(60, 40, True), (51, 49, False)])
def test_the_verdict_on_fairness_follows_the_shares(first, second, holds):
    assert fig0501._fair(Measured({"shares": [[first, second]] * 5}, 0.0)).holds == holds


def test_streams_of_large_buffers_fill_the_link():
    full = 500e6 * 1448 / 1514 / 8
    assert fig0501.stream_rate(1 << 30, 1) == pytest.approx(full, rel=0.01)
    assert fig0501.stream_rate(1 << 30, 4) == full
    assert fig0501.stream_rate(64, 4) == pytest.approx(4 * fig0501.stream_rate(64, 1))


# Sessions


def test_sessions_are_recorded_unless_they_are_quick_or_the_machine_is_busy(tmp_path):
    session = Session("one", lambda python: {"python": bool(python)})
    assert Nothing().collect(session) == "not measured"
    assert Record(tmp_path).collect(session) == "not recorded"
    found = Measured({"python": True}, 0.1, "today")
    Live(collected={"one": found}).write(tmp_path)
    assert Record(tmp_path).collect(session) == found
    assert list(json.loads((tmp_path / RECORD).read_text("utf-8"))) == ["machine", "sessions"]
    told = []
    Live(told.append, collected={"one": Measured({}, 1.5)}).write(tmp_path)
    Live(told.append, collected={"one": Measured({}, 0.0)}, rough={"one"}).write(tmp_path)
    assert Record(tmp_path).collect(session) == found
    assert told == [
        f"not recorded, because {why}: one" for why in ("other processes kept 1.5 cores busy", "it is a quick one")
    ]


def test_without_root_no_session_runs(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert Live().collect(Session("one", lambda _: {})) == "needs root"


def with_package(package, python):
    """The interpreter, if it has a package."""
    pytest.importorskip(package)
    return python


def fails(_):
    raise RuntimeError("no testbed")


@needs_namespaces
def test_a_session_that_fails_says_so():
    told = []
    assert Live(told.append).collect(Session("one", fails)) == "failed"
    assert told == ["one", "failed: no testbed"]


@needs_namespaces
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "session",
    [
        lambda python: fig0401.session(python, quick=True),
        lambda python: fig0501.session(python, [IN_RACKS, ACROSS]),
        lambda python: fig0501.stream_session(python, quick=True),
        lambda python: fig0613.session(python, quick=True),
        lambda python: fig0615.follow(python, quick=True),
        lambda python: fig0616.session("executor", "ring", python, quick=True),
        lambda python: sec634.session(sec634.APPLICATIONS[0], with_package("lightgbm", python), quick=True),
        lambda python: sec634.session(sec634.APPLICATIONS[1], with_package("torch", python), quick=True),
    ],
    ids=["fig0401", "fig0501", "streams", "fig0613", "fig0615", "fig0616", "lightgbm", "pytorch"],
)
def test_every_session_runs_on_a_testbed(session):
    told = []
    found = Live(told.append).collect(Session("quick", session, quick=True))
    assert isinstance(found, Measured), told
    json.dumps(found.values)
