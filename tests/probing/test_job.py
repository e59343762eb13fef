"""Ranks of a job probe each other over their connections."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from syncline.distances import Pair, read
from syncline.probing.job import _pair
from tests.runtime.jobs import free_port

RANK = """
import json, sys
from syncline.distances import Measured
from syncline.probing.budget import Wanted
from syncline.probing.job import probe
from syncline.probing.rounds import Schedule
from syncline.runtime import Communicator
sys.path.insert(0, sys.argv[1])
from tests.probing.turns import tournament

def generator(hosts):
    def rounds():
        for pairs in ([(0, 1)], [(2, 0)]):
            results = yield pairs
            assert set(results) == set(pairs)
    return Schedule(rounds(), 2)

with Communicator.join() as ranks:
    whole = probe(ranks, tournament, Wanted(rate=True, samples=50)).as_dict()
    few = probe(ranks, generator, Wanted(samples=40, budget_s=20.0)).as_dict()
print(json.dumps([whole, few]))
"""


def start(cli, world, command):
    port = free_port()
    environment = {"WORLD_SIZE": str(world), "MASTER_ADDR": f"127.0.0.1:{port}"}
    return [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=cli.folder,
            env=cli.environment(RANK=str(rank), **environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def test_every_rank_gets_the_whole(cli):
    ranks = start(cli, 3, ["-c", RANK, str(Path(__file__).parents[2])])
    found = []
    for each in ranks:
        out, err = each.communicate(timeout=60)
        assert each.returncode == 0, err
        found.append(json.loads(out))
    for whole, few in found:
        assert whole["pairs"] == found[0][0]["pairs"]
        assert few["pairs"] == found[0][1]["pairs"]
    whole, few = found[0]
    assert [(each["from"], each["to"]) for each in whole["pairs"]] == [
        (whole["hosts"][a], whole["hosts"][b]) for a in range(3) for b in range(3) if a != b
    ]
    for each in whole["pairs"]:
        assert (each["samples"], each["transfers"]) == (50, 5)
        assert 0 < each["rtt_s"] <= each["rtt_median_s"] < 0.5
        assert each["rate_bytes_per_s"] > 1e6
    assert [name.rpartition("/")[2] for name in whole["hosts"]] == ["0", "1", "2"]
    assert whole["clock"] == "runtime"
    assert [each["samples"] for each in few["pairs"]] == [40, 40]


def test_the_command_probes_a_job(cli):
    ranks = start(cli, 2, ["-m", "syncline", "probe", "--job", "--samples", "40", "--json"])
    outputs = [each.communicate(timeout=60) for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0], outputs
    assert json.loads(outputs[0][0])["samples"] == 40
    assert outputs[1][0] == ""
    assert len(read(str(cli.folder / "probe.parquet")).pairs) == 2


def test_numbers_that_were_not_measured_are_absent():
    nan = float("nan")
    assert _pair([1e-5, 2e-5, nan, 30.0, nan, 0.0, 1.0]) == Pair(rtt_s=1e-5, rtt_median_s=2e-5, samples=30)
    assert _pair([nan, nan, nan, 0.0, 5e8, 4.0, 1.0]) == Pair(rate_bytes_per_s=5e8, transfers=4)
