"""luo2020: what is simulated is what runs, and what runs is set beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.harness.runner import Runner
from experiments.harness.table import Table
from experiments.harness.testbed import Live, Measured, Nothing, Record, Trial
from experiments.luo2020 import beside, fig0605, fig0610, racks, sec23, tab21
from experiments.luo2020.beside import Pair
from experiments.luo2020.exchange import FOLDER, fabric, host_costs, hub, planned, sharded
from syncline import _core, plans
from syncline.config.source import from_file
from tests.testbed.specs import needs_namespaces

RUNNER = Runner(quick=True)


@pytest.mark.parametrize("workers", [1, 2, 5, 8])
def test_a_hub_with_a_vector_sends_what_one_without_sends(workers):
    """The simulated plan (CC with one rank more) against that of a hub on a host of its own (NCC)."""
    nbytes = 8 * 1000
    placed = {
        name: plans.count(f"parameter_server(placement={name})", "all_reduce", ranks, nbytes, [0] * (workers + 1))
        for name, ranks in (("CC", workers + 1), ("NCC", workers))
    }
    assert placed["CC"].rounds == placed["NCC"].rounds
    assert placed["CC"].messages == placed["NCC"].messages
    # The hub is the first seat of one, and the last of the other.
    turned = [*placed["NCC"].sent_bytes[-1:], *placed["NCC"].sent_bytes[:-1]]
    assert placed["CC"].sent_bytes == turned == [workers * nbytes, *[nbytes] * workers]


def test_chunks_are_those_that_run():
    assert hub(fig0605.STAR, 8, 1 << 20).chunks == 32
    assert hub(fig0605.STAR, 8, 1 << 20, chunk=4 << 10).chunks == 256
    # A simulated chunk has a part for each hub, or rank.
    assert sharded(fig0605.STAR, range(1, 9), 1 << 20).chunks == 4
    assert planned(fig0605.STAR, range(1, 9), 1 << 20, "ring").chunks == 2
    assert hub(fig0605.STAR, 8, 4).chunks == 1


def test_host_costs_are_taken():
    latency = host_costs()["link_latency"]
    assert {link["latency"] for link in fabric(fig0605.STAR)["links"]} == {latency}
    scenario = hub(fig0605.STAR, 8, 4).case(RUNNER).loaded.resolved
    for key, value in host_costs()["collectives"].items():
        kind = "time" if key == "endpoint_delay" else "rate"
        assert _core.parse_quantity(kind, str(scenario["collectives"][key])) == _core.parse_quantity(kind, value)


@pytest.mark.parametrize("way", racks.WAYS)
@pytest.mark.parametrize(("count", "ranks"), [(1, 4), (2, 6), (3, 9), (4, 12)])
def test_hubs_of_racks(way, count, ranks, tmp_path):
    """Plans are proved when they are made. Of a vector's R blocks, R - 1 leave each rack and as many come back."""
    path = racks.plan(tmp_path, way, count, ranks)
    content = json.loads(Path(path).read_text("utf-8"))
    placed = racks.members(count, ranks)
    rack = {worker: number for number, each in enumerate(placed) for worker in each} | {
        hub: hub for hub in range(count)
    }
    across = sum(
        op["op"] == "send" and rack[op["to"]] != rack[rank]
        for rank, seat in enumerate(content["seats"])
        for stream in seat["streams"]
        for op in stream["ops"]
    )
    crossing = len(placed[0]) + 1 if way == "flat" else 1
    assert across == 2 * (count - 1) * count * crossing


def test_networks_are_those_of_the_files():
    """What is swept begins with the fabric that the scenario has."""
    plain = from_file(str(sec23.SCENARIO)).root.plain()["fabric"]
    assert sec23.network(2, 10) == plain
    plain = from_file(str(fig0610.RACKS)).root.plain()["fabric"]
    assert plain["npus"] == fig0610.MOST * (fig0610.WORKERS + 1)


def made(what, nbytes, predicted_s, measured_s):
    exchange = hub(fig0605.STAR, 8, nbytes)
    measured = measured_s if isinstance(measured_s, str) else Measured(measured_s, measured_s, 1, 0.0)
    return Pair(what, exchange, predicted_s, measured)


def test_predictions_are_judged_by_size():
    asked = beside.claim("made-up")
    large, small = made("large", 1 << 20, 1.0, 1.1), made("small", 64 << 10, 1.0, 1.9)
    assert beside.judged(asked, [large, small], "").holds
    assert beside.judged(asked, [large, small], "").measured == "2 of 2 within; at most -47 % (small, 64 KiB)"
    assert not beside.judged(asked, [made("large", 1 << 20, 1.0, 1.9)], "").holds
    assert not beside.judged(asked, [made("small", 4, 1.0, 2.1)], "").holds
    assert not beside.judged(asked, [made("small", 4, 2.1, 1.0)], "").holds
    nothing = beside.judged(asked, [made("large", 1 << 20, 1.0, "needs root")], "")
    assert not nothing.holds
    assert "needs root" in nothing.measured


def test_what_was_not_measured_says_why():
    table = Table("times", "", ("arm", *beside.COLUMNS))
    table.add("hub", *made("hub", 4, 0.5, "needs root").cells())
    assert table.shown() == [["hub", "500 ms", "needs root", "", "", ""]]
    table.add("hub", *made("hub", 4, 0.5, 1.0).cells())
    assert table.shown()[1] == ["hub", "500 ms", "1 s", "1 s", "-50 %", "0"]


@pytest.mark.parametrize(("hub_s", "shards_s", "holds"), [(1.0, 1.75, True), (1.0, 2.2, True), (1.0, 1.3, False)])
def test_figure_6_5(hub_s, shards_s, holds):
    pairs = [made("", fig0605.NBYTES, 1.0, seconds) for seconds in (hub_s, shards_s)]
    assert fig0605._twice(*pairs).holds == holds
    assert fig0605._above(*pairs).holds
    assert not fig0605._above(*pairs[::-1]).holds


def test_table_2_1():
    assert [tab21.factor(each) for each in tab21.PLACEMENTS] == [14, 3.5, 16, 2]


def test_records(tmp_path):
    trial = Trial("one", fig0605.STAR, {}, [0], ["program"])
    assert Nothing().measure(trial) == Record(tmp_path).measure(trial).replace("recorded", "measured")
    live = Live(found={"one": Measured(2.0, 1.0, 3, 0.5)})
    live.write(tmp_path)
    assert Record(tmp_path).measure(trial) == Measured(2.0, 1.0, 3, 0.5)
    Live(found={"two": Measured(4.0, 3.0, 3, 0.5)}).write(tmp_path)
    assert Record(tmp_path).measure(trial) == Measured(2.0, 1.0, 3, 0.5)


def test_without_root(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert Live().measure(Trial("one", fig0605.STAR, {}, [0], ["program"])) == "needs root"


@needs_namespaces
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "exchange",
    [
        hub(fig0605.STAR, 2, 65_536),
        hub(fig0605.STAR, 2, 65_536, jobs=2),
        hub(fig0605.STAR, 2, 65_536, interfaces=2, mapping="worker_by_interface"),
        sharded(fig0605.STAR, range(1, 3), 65_536),
        planned(fig0605.STAR, range(1, 4), 65_536, "ring"),
    ],
    ids=lambda each: each.name,
)
def test_it_runs(exchange):
    """Every arm runs on a testbed of the scenario that is simulated."""
    told = []
    runner = Runner(quick=True, bench=Live(told.append, rounds=1))
    measured = exchange.measured(runner)
    assert isinstance(measured, Measured), told
    assert measured.repeats == 40
    assert 0 < measured.least_s <= measured.median_s < 10


@needs_namespaces
@pytest.mark.timeout(120)
def test_racks_run(tmp_path):
    from experiments.luo2020.exchange import racked

    hosts = [0, 1, 4, 5, 6, 7]
    plan = racks.plan(tmp_path, "ring", 2, len(hosts))
    told = []
    runner = Runner(quick=True, bench=Live(told.append, rounds=1))
    assert isinstance(racked(fig0610.RACKS, 2, hosts, 65_536, "ring", plan).measured(runner), Measured), told


def test_the_hosts_costs_say_where_they_are_from():
    assert (FOLDER / "host-costs.yaml").read_text("utf-8").startswith("# Measured by `syncline testbed check --save`")
