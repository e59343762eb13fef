"""Figures 11 to 16 of dlrm2020: values taken from a run, and both outcomes of each verdict, on made-up runs."""

from __future__ import annotations

from statistics import fmean
from types import SimpleNamespace

import pytest

from experiments.dlrm2020 import fig11, fig12, fig13, fig14, fig15, fig16, training
from experiments.dlrm2020.apart import Draws, judged
from experiments.dlrm2020.training import SYSTEMS, Training
from experiments.harness.claim import Claim
from experiments.harness.runner import Runner
from experiments.harness.table import Table

MS = 1e-3
COMPUTE_S = 6 * MS
LAYERS = ("embedding", "bottom0", "bottom1", "top0", "top1", "top2", "top3")


def trained(system="flat100", *, exposed=0.0, at_end=0.0, dropped=0, queue=1000, exchange=(0.3, 0.4), skew=0.0):
    """A made-up run of two iterations with the given exposed communication in seconds.

    ``exchange`` is the time of the all-to-alls in milliseconds; one node of four waits ``skew`` for late nodes.
    """
    count = len(LAYERS)
    columns = {
        "layer": list(LAYERS),
        "collective_bytes": [8 << 20, 100, 100, 900, 500, 500, 10],
        "compute_s": [MS, *[0.2 * MS] * 2, MS, *[0.5 * MS] * 3],
        **{f"{each}_compute_s": [0.1 * MS] * count for each in ("forward", "input_grad", "weight_grad")},
        "forward_communication_s": [exchange[0] * MS, *[0.0] * (count - 1)],
        "input_grad_communication_s": [exchange[1] * MS, *[0.0] * (count - 1)],
        "weight_grad_communication_s": [0.0, *[MS] * (count - 1)],
        # The table contains means over two iterations.
        "exposed_communication_s": [0.0, 0.0, 0.0, (exposed + at_end) / 2, 0.0, 0.0, 0.0],
        "exposed_at_end_s": [0.0, 0.0, 0.0, at_end / 2, 0.0, 0.0, 0.0],
    }
    ports = {"link": [0, 1, 2], "longest_queue_bytes": [1 << 30, queue, 1 << 30]}
    links = {
        "link": [0, 1, 2],
        "dimension": ["scale_out", "scale_out", "scale_up"],
        "from": ["NPU 0", "switch 0", "switch 1"],
    }
    packets = SimpleNamespace(dropped=dropped, retransmissions=dropped, timeouts=dropped // 100)
    summary = SimpleNamespace(
        compute_s=COMPUTE_S,
        exposed_communication_s=exposed + at_end,
        iterations=2,
        ranks=4,
        packets=packets,
        dims=[SimpleNamespace(name="scale_out", carried_bytes=1000)],
    )
    sets = {
        "layer": ["embedding", "top3", "top3"],
        "part": ["forward", *["weight grad"] * 2],
        "issue_s": [0.0, 1 * MS, 5 * MS],
        "last_issue_s": [9 * MS, 3 * MS, 5 * MS],
    }
    ranks = {"skew_s": [skew, 0.0], "ranks": [1, 3]}
    tables = {"ranks": ranks, "layers": columns, "links": links, "ports": ports, "collectives": sets}
    return Training(system, SimpleNamespace(summary=summary, table=tables.get))


def with_share(system, *shares, **more):
    """Runs with the given shares of exposed communication."""
    return Draws([trained(system, exposed=COMPUTE_S * share / (1 - share), **more) for share in shares])


def one(*args, **more):
    """A configuration with a single run."""
    return Draws([trained(*args, **more)])


def test_the_wait_at_the_end_is_separate():
    run = trained(exposed=2 * MS, at_end=4 * MS)
    assert run.exposed_s == pytest.approx(2 * MS)
    assert run.at_end_s == pytest.approx(4 * MS)
    assert run.share == pytest.approx(2 / 8)
    assert run.share_with_end == pytest.approx(6 / 12)
    assert run.iteration_s == pytest.approx(4 * MS)
    assert trained(exposed=2 * MS, skew=8 * MS).exposed_s == pytest.approx(4 * MS), "the wait for late nodes counts"
    assert training.waits(Draws([run])) == "top0 2 ms"
    assert training.waits(one()) == "none"
    runs = Draws([trained(exposed=wait * MS) for wait in (9, 2, 3)])
    assert training.waits(runs) == "top0 3 ms", "the median of the seeds"


def test_compute_and_waits_add_up_to_the_run():
    (run,) = training.Runs(Runner(quick=True)).training("hier", buffer="64 MB").runs
    assert run.packets.timeouts
    assert run.skew_s > 10 * MS, "most nodes wait for nodes with a time-out"
    finish = fmean(run.result.table("ranks")["finish_s"])
    # Nodes begin up to a microsecond late.
    assert run.compute_s + run.exposed_s + run.at_end_s == pytest.approx(finish, abs=1e-6)


def test_all_to_alls_and_overlapping_compute_are_per_iteration():
    run = trained(exchange=(0.3, 0.4))
    assert [run.exchange_s(way) for way in training.WAYS] == pytest.approx([0.3 * MS, 0.4 * MS])
    assert [run.beside_s(way) for way in training.WAYS] == pytest.approx([0.2 * MS, 0.4 * MS])


def test_losses_are_reported_by_name():
    assert training.lost({"a": one(), "b": one()}) == "No packet is lost in 2 runs."
    lossy = {"a": one(), "b": one(dropped=200)}
    assert training.lost(lossy) == "Lost: b 200 packets, 200 sent again, 2 time-outs."
    seeds = {"a": Draws([trained(dropped=count) for count in (0, 300, 200)])}
    lost = "Lost: a 200 (0 to 300) packets, 200 (0 to 300) sent again, 2 (0 to 3) time-outs."
    assert training.lost(seeds) == lost
    found = {("hier", "64 MB"): one("hier"), ("flat100", "64 MB"): one()}
    assert list(training.named(found)) == ["hier with 64 MB", "flat100 with 64 MB"]
    assert list(training.named(found, "hier")) == ["hier with 64 MB"]


def raw(**changes):
    """A table of Figure 11 that agrees with the paper, except for ``changes`` by collective."""
    times = {
        "embedding forward": {"hier": 3, "hierOpt": 3, "flat100": 2, "flat800": 1},
        "embedding backward": {"hier": 4, "hierOpt": 4, "flat100": 3, "flat800": 2},
        "top0": dict.fromkeys(SYSTEMS, 5) | {"hierOpt": 4},
        "top1": dict.fromkeys(SYSTEMS, 6) | {"hierOpt": 5},
        "top2": dict.fromkeys(SYSTEMS, 7) | {"hierOpt": 6},
        "top3": dict.fromkeys(SYSTEMS, 0.01),
    }
    table = Table("raw", "", ("collective", "size_bytes", *(f"{system}_s" for system in SYSTEMS)))
    for name, of in times.items():
        table.add(name, 100, *(of | changes.get(name.replace(" ", "_"), {})).values())
    return table


RUNS = {system: one(system) for system in SYSTEMS}


def test_tables_show_medians_and_the_range_of_the_share():
    table = training.compared("", {("hier", "64 MB"): with_share("hier", 0.5, 0.2, 0.4)}, "buffer")
    (row,) = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (row["system"], row["buffer"]) == ("hier", "64 MB")
    shares = [row[f"{each}share_fraction"] for each in ("", "least_", "most_")]
    assert shares == pytest.approx([0.4, 0.2, 0.5])
    assert row["iteration_s"] == pytest.approx(COMPUTE_S / 0.6 / 2)
    assert "medians of 3 seeds" in table.title
    single = training.compared("", {"hier": with_share("hier", 0.5)})
    assert "least_share_fraction" not in single.columns
    assert "medians" not in single.title


@pytest.mark.parametrize(
    ("shares", "holds", "said"),
    [
        ((0.6, 0.7, 0.8), True, "some"),
        ((0.6, 0.4, 0.8), True, "some; the claim holds in 2 of 3 seeds"),
        ((0.6, 0.4, 0.3), False, "some; the claim holds in 1 of 3 seeds"),
        ((0.1, 0.4, 0.3), False, "some"),
        ((0.6,), True, "some"),
    ],
)
def test_medians_decide_a_verdict_and_disagreeing_seeds_are_reported(shares, holds, said):
    claim = Claim("dlrm-0", "", "more than half is exposed")
    runs = {"hier": with_share("hier", *shares)}
    (verdict,) = judged(runs, lambda draws: [claim.judged(draws["hier"].median(training.share) > 0.5, "some", "")])
    assert (verdict.holds, verdict.measured) == (holds, said)


@pytest.mark.parametrize(
    ("judge", "changes", "holds"),
    [
        (fig11._lifo, {}, True),
        (fig11._lifo, {"top1": {"hierOpt": 6.5}}, False),
        (fig11._exchange, {}, True),
        (fig11._exchange, {"embedding_forward": {"hierOpt": 0.5}, "embedding_backward": {"hierOpt": 0.5}}, False),
        (fig11._exchange, {"embedding_backward": {"flat100": 9}}, False),
    ],
)
def test_the_verdicts_of_figure_11_follow_the_times(judge, changes, holds):
    assert judge(raw(**changes)).holds == holds


def test_the_verdicts_of_figure_11_follow_the_runs():
    assert fig11._first(RUNS, raw()).holds
    assert not fig11._first(RUNS, raw(top3={"hier": 1})).holds
    assert "2 ms on hier," in fig11._first(RUNS, raw()).why
    assert fig11._backward(RUNS, raw()).holds
    assert not fig11._backward(RUNS, raw(embedding_backward={"flat800": 0.5})).holds
    assert fig11._reduce(RUNS, raw()).holds
    assert not fig11._reduce(RUNS, raw(top0={"flat800": 0.1}, top1={"flat800": 0.1})).holds
    assert fig11._largest(trained()).holds
    table = fig11._raw({system: Draws([trained(system, exchange=(f, 1)) for f in (0.5, 2, 1)]) for system in SYSTEMS})
    assert table.rows[0] == ("embedding forward", 4 << 20, *[pytest.approx(2 * MS)] * 4, pytest.approx(4))
    assert table.columns[-1] == "most_over_least_ratio"
    other = trained()
    other.layers[4]["collective_bytes"] = 1000
    assert not fig11._largest(other).holds


def exposed(**changes):
    """A table of Figure 12 in which compute waits for top layer 0, and except on flat800 for the embedding."""
    waits = {"embedding": dict.fromkeys(SYSTEMS, 1.0) | {"flat800": 0.0}, "bottom0": dict.fromkeys(SYSTEMS, 0.1)}
    waits["top0"] = dict.fromkeys(SYSTEMS, 0.5)
    table = Table("exposed", "", ("layer", "compute_s", *(f"{system}_s" for system in SYSTEMS)))
    for layer, of in waits.items():
        table.add(layer, 1.0, *(of | changes.get(layer, {})).values())
    return table


def beside(**changes):
    """A table of all-to-alls of 2 s with 1 s of overlapping compute, except for ``changes`` by system."""
    ways = [f"{what}_{way}_s" for way in training.WAYS for what in ("all_to_all", "bottom")]
    table = Table("exchanges", "", ("system", *ways))
    for system in SYSTEMS:
        table.add(system, *changes.get(system, (2.0, 1.0, 2.0, 1.0)))
    return table


def test_the_verdicts_of_figure_12_follow_the_runs():
    assert fig12._stall(RUNS, exposed()).holds
    assert not fig12._stall(RUNS, exposed(bottom0={"hier": 0.6})).holds
    nowhere = {layer: {"flat800": 0.0} for layer in ("embedding", "bottom0", "top0")}
    assert "flat800 none" in fig12._stall(RUNS, exposed(**nowhere)).measured
    assert fig12._exposed(RUNS, beside(), 1 << 20).holds
    waiting = trained("flat800")
    waiting.held_s["embedding"] = 0.1
    assert not fig12._exposed(RUNS | {"flat800": Draws([waiting])}, beside(), 1 << 20).holds
    assert not fig12._exposed(RUNS, beside(hierOpt=(0.9, 1.0, 2.0, 1.0)), 1 << 20).holds
    table = fig12._held({system: with_share(system, 0.2, 0.5, 0.9) for system in SYSTEMS})
    assert table.column("hier_s", layer="top0") == pytest.approx([COMPUTE_S])
    assert fig12._beside(RUNS).rows[0] == ("hier", *map(pytest.approx, (0.3 * MS, 0.2 * MS, 0.4 * MS, 0.4 * MS)))


@pytest.mark.parametrize(
    ("judge", "shares", "holds"),
    [
        (fig13._flat, {"flat100": 0.75}, True),
        (fig13._flat, {"flat100": 0.6}, False),
        (fig13._faster, {"flat100": 0.731, "flat800": 0.2}, True),
        (fig13._faster, {"flat100": 0.731, "flat800": 0.0}, False),
        (fig13._faster, {"flat100": 0.9, "flat800": 0.2}, False),
        (fig13._optimal, {"hier": 0.732, "hierOpt": 0.221}, True),
        (fig13._optimal, {"hier": 0.732, "hierOpt": 0.16}, False),
        (fig13._optimal, {"hier": 0.5, "hierOpt": 0.221}, False),
        (fig13._same, {"hierOpt": 0.22, "flat800": 0.2}, True),
        (fig13._same, {"hierOpt": 0.3, "flat800": 0.2}, False),
    ],
)
def test_the_verdicts_of_figure_13_follow_the_shares(judge, shares, holds):
    assert judge({system: with_share(system, share) for system, share in shares.items()}).holds == holds


def test_the_verdicts_of_figure_14_follow_the_steps_and_shares():
    steps = Table("steps", "", ("system", "steps"))
    for system in SYSTEMS:
        steps.add(system, 10 if system.startswith("hier") else 14)
    runs = SimpleNamespace(nodes=128)
    assert fig14._counted(runs, steps).holds
    steps.rows[0] = ("hier", 14)
    assert not fig14._counted(runs, steps).holds

    def fall(**last):
        ends = {"hier": (0.73, 0.75), "hierOpt": (0.2, 0.4), "flat100": (0.73, 0.99), "flat800": (0.2, 0.99)} | last
        return fig14._falls(
            {
                (system, said): with_share(system, before if said == "10 ns" else after)
                for system, (before, after) in ends.items()
                for said in fig14.LATENCIES
            }
        )

    assert fall().holds
    assert not fall(hierOpt=(0.2, 0.99)).holds
    assert not fall(flat100=(0.73, 0.74)).holds
    assert not fall(flat800=(0.2, 0.2)).holds


def test_the_verdicts_of_figure_15_follow_the_shares():
    def buffers(system, *shares, **more):
        """Runs by buffer with the given shares, each a share of one run or of several."""
        each = [share if isinstance(share, tuple) else (share,) for share in shares]
        return {
            (system, buffer): with_share(system, *of, **more) for buffer, of in zip(training.BUFFERS, each, strict=True)
        }

    flats = buffers("flat100", 0.73, 0.73, 0.73) | buffers("flat800", 0.2, 0.21, 0.2)
    assert fig15._insensitive(flats).holds
    verdict = fig15._insensitive(flats | buffers("flat800", 0.9, 0.21, 0.2, dropped=300))
    assert not verdict.holds
    assert "flat800 with 64 MB 300 packets, 300 sent again, 3 time-outs" in verdict.why

    def needed(*small):
        return fig15._needed(buffers("hierOpt", small, 0.2, 0.3))

    assert needed(0.9, 0.5, 0.1).holds
    parts = "50.0 % (10.0 % to 90.0 %) with 64 MB, 80.0 % with 128 MB, 70.0 % with 1 GB"
    assert parts in needed(0.9, 0.5, 0.1).measured
    assert not needed(0.9, 0.1, 0.1).holds, "the median counts"
    assert fig15.longest(trained(queue=777)) == 777


def test_the_verdict_of_figure_16_follows_the_shares():
    def varied(**shares):
        words = [fig16._word(*schedule) for schedule in fig16._schedules()]
        return {
            (system, word): with_share(system, shares[system] if word == words[0] else 0.2)
            for system in fig16.STUDIED
            for word in words
        }

    assert fig16._varies(varied(flat800=0.6, hierOpt=0.3)).holds
    assert not fig16._varies(varied(flat800=0.3, hierOpt=0.6)).holds


def test_systems_match_the_paper():
    """dlrm2020, Tables III and IV."""
    runs = training.Runs(Runner())
    for system in SYSTEMS:
        (*cases,) = runs.cases(system)
        assert [case.loaded.resolved["seed"] for case in cases] == [0, 1, 2]
        resolved = cases[0].loaded.resolved
        assert resolved["jitter"]["start"] == "1us"
        dims = {dim["name"]: dim for dim in resolved["fabric"]["dims"]}
        nodes = 1
        for dim in dims.values():
            nodes *= dim["size"]
        assert nodes == training.NODES
        assert dims["scale_out"]["rate"] == ("800Gb/s" if system == "flat800" else "100Gb/s")
        assert {dim["latency"] for dim in dims.values()} == {"0.5us"}
        collectives, network = resolved["collectives"], resolved["network"]
        assert (collectives["order"], collectives["outstanding"]) == ("priority", 64)
        assert collectives["injection_latency"] == "10ns"
        assert (network["window"], network["min_timeout"]) == ("512KiB", "50ms")
        flat = len(dims) == 1
        assert collectives["chunks"] == (1024 if flat else 128)
        # 1 GB for 128 ports.
        assert network["buffer"] == ("1GiB" if flat else "128MiB")
        assert training.BUFFERS["1 GB"] * training.NODES == 1 << 30
        if not flat:
            assert (dims["scale_up"]["rate_per_npu"], dims["scale_up"]["count"]) == ("1200Gb/s", 7)
            assert (dims["scale_up"]["size"], dims["scale_out"]["size"]) == (8, 16)
            assert network["dims"]["scale_up"]["framing"] == "point_to_point"
        assert network["framing"] == "point_to_point"
    smaller = runs.cases("hierOpt", buffer="64 MB")[0].loaded.resolved
    assert smaller["network"]["buffer"] == f"{16 * (512 << 10)}B"
    assert runs.cases("flat100", buffer="64 MB")[0].loaded.resolved["network"]["buffer"] == f"{64 << 20}B"


@pytest.mark.parametrize(
    ("simulated", "seeds"),
    [(training.cases, 3), (fig14.simulated, 3), (fig15.simulated, 3), (fig16.simulated, fig16.SEEDS)],
)
def test_every_figure_has_runs_by_seed_and_one_in_step(simulated, seeds):
    apart, in_step = simulated(Runner()), simulated(Runner(choice=training.AT_ONCE.changes))
    assert len(apart) == seeds * len(in_step)
    assert {case.loaded.resolved["jitter"]["start"] for case in apart} == {"1us"}
    assert {case.loaded.resolved["jitter"]["start"] for case in in_step} == {"0s"}


def test_in_other_readings_nodes_begin_at_once():
    runs = training.Runs(Runner(choice=training.CHOICES[0].changes))
    (case,) = runs.cases("hier")
    assert case.loaded.resolved["jitter"]["start"] == "0s"
