"""luo2020: simulations match the programs that run, and predictions are compared with measurements."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.harness.runner import Runner
from experiments.harness.table import Table
from experiments.harness.testbed import RECORD, Live, Measurement, Nothing, Record, Trial
from experiments.luo2020 import beside, fig0605, fig0607, fig0609, fig0610, fig0612, racks, sec23, sec615, tab21, tab63
from experiments.luo2020.beside import Pair
from experiments.luo2020.exchange import FOLDER, fabric, host_costs, hub, planned, sharded
from syncline import _core, plans
from syncline.input.source import from_file
from tests.conftest import ROOT, Cli
from tests.testbed.specs import needs_namespaces

RUNNER = Runner(quick=True)


@pytest.mark.parametrize("workers", [1, 2, 5, 8])
def test_a_hub_with_a_vector_sends_the_same_as_one_without(workers):
    """The simulated plan (CC with one more rank), compared with that of a hub on its own host (NCC)."""
    nbytes = 8 * 1000
    placed = {
        name: plans.count(f"parameter_server(placement={name})", "all_reduce", ranks, nbytes, [0] * (workers + 1))
        for name, ranks in (("CC", workers + 1), ("NCC", workers))
    }
    assert placed["CC"].rounds == placed["NCC"].rounds
    assert placed["CC"].messages == placed["NCC"].messages
    # The hub is the first seat in CC, and the last in NCC.
    turned = [*placed["NCC"].sent_bytes[-1:], *placed["NCC"].sent_bytes[:-1]]
    assert placed["CC"].sent_bytes == turned == [workers * nbytes, *[nbytes] * workers]


def test_simulated_chunks_match_those_of_the_programs():
    assert hub(fig0605.STAR, 8, 1 << 20).chunks == 32
    assert hub(fig0605.STAR, 8, 1 << 20, chunk=4 << 10).chunks == 256
    # A simulated chunk has one part for each hub or rank.
    assert sharded(fig0605.STAR, range(1, 9), 1 << 20).chunks == 4
    assert planned(fig0605.STAR, range(1, 9), 1 << 20, "ring").chunks == 2
    assert hub(fig0605.STAR, 8, 4).chunks == 1


def test_host_costs_are_used():
    latency = host_costs()["link_latency"]
    assert {link["latency"] for link in fabric(fig0605.STAR)["links"]} == {latency}
    scenario = hub(fig0605.STAR, 8, 4).case(RUNNER).loaded.resolved
    for key, value in host_costs()["collectives"].items():
        kind = "time" if key == "endpoint_delay" else "rate"
        assert _core.parse_quantity(kind, str(scenario["collectives"][key])) == _core.parse_quantity(kind, value)


@pytest.mark.parametrize("way", racks.WAYS)
@pytest.mark.parametrize(("count", "ranks"), [(1, 4), (2, 6), (3, 9), (4, 12)])
def test_hubs_of_racks_exchange_the_expected_number_of_blocks(way, count, ranks, tmp_path):
    """Of a vector's R blocks, R - 1 leave each rack and as many come back. Making a plan also proves it."""
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


def test_networks_match_the_files():
    """The sweep's function builds the fabric of the scenario file."""
    plain = from_file(str(sec23.SCENARIO)).root.to_python()["fabric"]
    assert sec23.network(2, 10) == plain
    plain = from_file(str(fig0610.RACKS)).root.to_python()["fabric"]
    assert plain["npus"] == fig0610.MAX_RACKS * (fig0610.WORKERS + 1)


def made(what, nbytes, predicted_s, measured_s):
    exchange = hub(fig0605.STAR, 8, nbytes)
    measured = measured_s if isinstance(measured_s, str) else Measurement(measured_s, measured_s, 1, 0.0)
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


def test_missing_measurements_have_a_reason():
    table = Table("times", "", ("arm", *beside.COLUMNS))
    table.add("hub", *made("hub", 4, 0.5, "needs root").cells())
    assert table.shown() == [["hub", "500 ms", "needs root", "", "", ""]]
    table.add("hub", *made("hub", 4, 0.5, 1.0).cells())
    assert table.shown()[1] == ["hub", "500 ms", "1 s", "1 s", "-50 %", "0"]


@pytest.mark.parametrize(("hub_s", "shards_s", "holds"), [(1.0, 1.75, True), (1.0, 2.2, True), (1.0, 1.3, False)])
def test_the_verdicts_of_figure_6_5_follow_the_times(hub_s, shards_s, holds):
    pairs = [made("", fig0605.NBYTES, 1.0, seconds) for seconds in (hub_s, shards_s)]
    assert fig0605._twice(*pairs).holds == holds
    assert fig0605._above(*pairs).holds
    assert not fig0605._above(*pairs[::-1]).holds


def timed(*seconds):
    """Exchanges of 25 MiB with the given measured times."""
    return [made("", 25 << 20, 1.0, each) for each in seconds]


@pytest.mark.parametrize(("at_32_kib", "holds"), [(1.0, True), (1.04, True), (1.2, False)])
def test_the_verdicts_of_figure_6_7_follow_the_times(at_32_kib, holds):
    found = dict(zip((4 << 10, 32 << 10, 1 << 20), timed(1.0, at_32_kib, 1.5), strict=True))
    assert fig0607._best(found).holds == holds
    found = dict(zip((1, 2), timed(at_32_kib, 1.0), strict=True))
    assert fig0607._few(found).holds == holds


@pytest.mark.parametrize(("many", "holds"), [(1.0, True), (1.1, True), (1.2, False)])
def test_the_verdicts_of_figures_6_9_and_6_10_follow_the_times(many, holds):
    assert fig0609._loss(dict(zip((1, 8), timed(1.0, many), strict=True))).holds == holds
    assert fig0610._loss(dict(zip(((1, "ring"), (4, "ring")), timed(1.0, many), strict=True))).holds == holds


@pytest.mark.parametrize(("theirs", "holds"), [(1.1, True), (0.9, False)])
def test_the_verdict_of_figure_6_12_follows_the_times(theirs, holds):
    nbytes = fig0612.LARGE
    pairs = dict(zip(((nbytes, fig0612.FLAT), (nbytes, fig0612.GLOO)), timed(1.0, theirs), strict=True))
    assert fig0612._best(fig0612.BEST_LARGE, pairs, nbytes, "").holds == holds


@pytest.mark.parametrize(("by_worker", "holds"), [(1.43, True), (1.0, False), (2.0, False)])
def test_the_verdict_of_section_6_1_5_follows_the_times(by_worker, holds):
    pairs = dict(zip(((1, sec615.KEYS), (1, sec615.BY_WORKER)), timed(1.0, by_worker), strict=True))
    assert sec615._local(pairs).holds == holds


@pytest.mark.parametrize(("thin", "thick", "verdicts"), [(2.0, 1.0, "yyy"), (1.0, 1.0, "nyn"), (2.0, 1.5, "ynn")])
def test_the_verdicts_of_section_2_3_follow_the_times(thin, thick, verdicts):
    """Gains where the condition holds, and where it does not."""
    columns = ("racks", "core Gb/s", "condition", "with answers", "flat_s", "two levels_s", "gain_ratio")
    table = Table("swept", "", columns)
    table.add(2, 10, "pays", "pays", thin, 1.0, thin)
    table.add(2, 160, "does not", "does not", thick, 1.0, thick)
    judged = [each(table).holds for each in (sec23._pays, sec23._only, sec23._both)]
    assert judged == [each == "y" for each in verdicts]


def test_the_cost_of_a_worker_in_table_6_3_is_that_by_hand():
    """The cost of a worker in two deployments, calculated by hand from 6.1.10."""
    port = 21077 / 128
    attached = 260 + port + 31.25 + (4 * port + 2 * 31.25) / 2
    hub = 8407 + 20 * (attached - 260 + 162.5)
    assert tab63.worker("25Gb hub 2:1") == pytest.approx(6913 + attached + hub / 65)
    assert tab63.worker(tab63.BASE) == pytest.approx(6913 + 795 + 5 * 21077 / 32 + 3 * 94)


def test_the_factors_of_table_2_1_are_those_of_the_paper():
    assert [tab21.factor(each) for each in tab21.PLACEMENTS] == [14, 3.5, 16, 2]


def test_measurements_are_recorded_unless_the_machine_is_busy(tmp_path):
    trial = Trial("one", fig0605.STAR, {}, [0], ["program"])
    assert Nothing().measure(trial) == Record(tmp_path).measure(trial).replace("recorded", "measured")
    live = Live(found={"one": Measurement(2.0, 1.0, 3, 0.1)})
    live.write(tmp_path)
    assert Record(tmp_path).measure(trial) == Measurement(2.0, 1.0, 3, 0.1)
    Live(found={"two": Measurement(4.0, 3.0, 3, 0.1)}).write(tmp_path)
    assert Record(tmp_path).measure(trial) == Measurement(2.0, 1.0, 3, 0.1)
    # Measurements on a busy machine are not recorded.
    told = []
    Live(told.append, found={"one": Measurement(9.0, 9.0, 3, 1.5)}).write(tmp_path)
    assert Record(tmp_path).measure(trial) == Measurement(2.0, 1.0, 3, 0.1)
    Live(told.append, found={"one": Measurement(9.0, 9.0, 3, 0.0, "today", 0.4)}).write(tmp_path)
    assert Record(tmp_path).measure(trial) == Measurement(2.0, 1.0, 3, 0.1)
    reasons = ("other processes kept 1.5 cores busy", "the hypervisor took 0.4 cores away")
    assert told == [f"not recorded, because {reason}: one" for reason in reasons]


def test_trials_without_a_testbed_run_on_this_machine():
    program = [sys.executable, "-c", "print('some words'); print([1.0, 3.0])"]
    found = Live().measure(Trial("one", None, {}, [], program))
    assert (found.median_s, found.least_s, found.repeats) == (2.0, 1.0, 6)
    assert "syncline" in found.made
    assert Live().measure(Trial("one", None, {}, [], ["no-such-program"])) == "needs no-such-program"


def test_without_root_nothing_is_measured(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert Live().measure(Trial("one", fig0605.STAR, {}, [0], ["program"])) == "needs root"


def test_only_a_patient_command_waits_for_an_idle_machine(monkeypatch):
    """Only a patient command waits for an idle machine."""
    seen = iter([2.0, 1.5, 0.1, 1.0])
    monkeypatch.setattr("experiments.harness.testbed.busy", lambda: next(seen))
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert Live(patience_s=60.0)._quiet() == 0.1
    assert Live()._quiet() == 1.0


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
def test_every_exchange_runs_on_a_testbed(exchange):
    """Every arm runs on a testbed with the fabric of the simulated scenario."""
    told = []
    runner = Runner(quick=True, bench=Live(told.append, rounds=1))
    measured = exchange.measured(runner)
    assert isinstance(measured, Measurement), told
    assert measured.repeats == 40
    assert 0 < measured.least_s <= measured.median_s < 10


@needs_namespaces
@pytest.mark.timeout(120)
def test_an_exchange_of_racks_runs_on_a_testbed(tmp_path):
    from experiments.luo2020.exchange import racked

    hosts = [0, 1, 4, 5, 6, 7]
    plan = racks.plan(tmp_path, "ring", 2, len(hosts))
    told = []
    runner = Runner(quick=True, bench=Live(told.append, rounds=1))
    assert isinstance(racked(fig0610.RACKS, 2, hosts, 65_536, "ring", plan).measured(runner), Measurement), told


def test_the_host_costs_name_their_source():
    assert (FOLDER / "host-costs.yaml").read_text("utf-8").startswith("# Measured by `syncline testbed check --save`")


def ran(tmp_path, *arguments):
    """Runs the command line from the project's root; files go to ``tmp_path``."""
    command = [
        sys.executable,
        "-m",
        "experiments",
        "luo2020",
        *arguments,
        "--quick",
        "--no-plot",
        "--out",
        str(tmp_path),
    ]
    environment = Cli(tmp_path).environment()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_records_are_shown_without_the_testbed(tmp_path):
    done = ran(tmp_path, "6.9", "tab41", "--recorded")
    assert "testbed:" not in done.stderr
    assert "luo-09" in done.stdout
    assert "of 5 claims hold" in done.stdout


@needs_namespaces
@pytest.mark.timeout(240)
def test_the_command_measures_and_leaves_the_record_unchanged(tmp_path):
    before = (FOLDER / "fig0609" / RECORD).read_text("utf-8")
    done = ran(tmp_path, "6.9", "--json")
    assert "testbed: star hub 26214400B 9 hosts jobs=8" in done.stderr
    (experiment,) = json.loads(done.stdout)["experiments"]
    (table,) = experiment["tables"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [row["jobs"] for row in rows] == [4, 8]
    # With links of 500 Mb/s no exchange can be faster; on a busy machine it may be much slower.
    assert all(0.4 < row["measured_s"] < 30 for row in rows), rows
    assert (FOLDER / "fig0609" / RECORD).read_text("utf-8") == before, "a record is only written with --record"
