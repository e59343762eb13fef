"""Jobs with hubs in several racks."""

from __future__ import annotations

import json
import signal
from array import array
from contextlib import ExitStack
from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.hub import Hub, HubResources, Racks, Service, Sgd
from tests.hub.test_exchange import refused, together
from tests.options import of_worker
from tests.runtime.jobs import job

WORKER = Path(__file__).parent / "worker.py"


@pytest.mark.parametrize("between", ["sharded", "ring"])
def test_each_rack_sums_before_racks_exchange(between):
    with (
        Service(port=0, resources=HubResources(cores=2)) as one,
        Service(port=0, resources=HubResources(cores=2)) as two,
        Service(port=0, resources=HubResources(cores=2)) as three,
    ):
        racks = Racks([0, 1, 1, 2], [[hub.addresses[0]] for hub in (one, two, three)], between)

        def act(rank):
            with Hub.join(racks, {"w": ("f32", 50_000)}, rank=rank, world=4) as hub:
                for step in range(3):
                    vector = array("f", [float(rank + step)]) * 50_000
                    exchange = hub.push_pull("w", vector)
                    assert exchange.wait()
                    assert set(vector) == {1.5 + step}
                    assert exchange.contributors == 4
                return True

        assert all(together(4, act))


@pytest.mark.parametrize("between", ["sharded", "ring"])
def test_a_rank_that_finishes_first_does_not_cut_off_the_others(between):
    with ExitStack() as stack:
        hubs = [stack.enter_context(Service(port=0, resources=HubResources(cores=1))) for _ in range(4)]
        racks = Racks([0, 1, 2, 3], [[hub.addresses[0]] for hub in hubs], between)

        def act(rank):
            for number in range(4):
                with Hub.join(racks, {"w": ("f32", 2_000_000)}, rank=rank, world=4, job=f"{number}") as hub:
                    vector = array("f", [float(rank)]) * 2_000_000
                    hub.push_pull("w", vector).wait()
                    assert vector[0] == vector[-1] == 1.5
            return True

        assert all(together(4, act))


def test_all_racks_get_the_same_parameters():
    with (
        Service(port=0, resources=HubResources(cores=2)) as one,
        Service(port=0, resources=HubResources(cores=2)) as two,
    ):
        racks = Racks([0, 0, 1], [[one.addresses[0]], [two.addresses[0]]])

        def act(rank):
            keys = {"w": ("f32", 50_000)}
            with Hub.join(racks, keys, rank=rank, world=3, optimizer=Sgd(lr=0.5, momentum=0.5)) as hub:
                parameters = array("f", [10.0 if rank == 0 else 0.0]) * 50_000
                hub.start({"w": parameters})
                assert set(parameters) == {10.0}
                for step in range(3):
                    if (rank, step) == (2, 2):
                        # One rank changes the rate for all, in its own rack and in the other.
                        hub.set_learning_rate(0.25)
                    parameters = array("f", [float(rank)]) * 50_000
                    hub.push_pull("w", parameters).wait()
                return set(parameters)

        # Velocities 1, 1.5, 1.75; the last step has half the rate.
        assert together(3, act) == [{10.0 - 0.5 * 2.5 - 0.25 * 1.75}] * 3


@pytest.mark.parametrize("between", ["sharded", "ring"])
def test_racks_go_on_without_a_lost_rank_until_one_has_none(between):
    """Fault: ranks of racks are killed (policy `shrink`) -> others go on until a rack has none, then name its hub"""
    with (
        Service(port=0, resources=HubResources(cores=1)) as one,
        Service(port=0, resources=HubResources(cores=1)) as two,
    ):
        racks = {"of": [0, 0, 1], "hubs": [[one.addresses[0]], [two.addresses[0]]], "between": between}
        sets = json.dumps({"hubs": racks, "steps": 10**6, "policy": "shrink", "pause": 0.002})
        with job(3, sets, worker=WORKER) as running:
            running.wait_for_steps()
            running.kill(1, signal.SIGKILL)
            while running.until(0, "contributors") != 2:
                pass
            running.kill(2, signal.SIGKILL)
            outcome = running.outcome(0)
        assert outcome["status"] == 6 and outcome["intact"], outcome
        assert outcome["error"]["message"].startswith("the hub of rack 1 closed its connection"), outcome


def test_racks_are_read_from_a_file(tmp_path):
    file = tmp_path / "racks.txt"
    file.write_text("# two racks\n10.0.0.9 10.0.0.8:1 : 0 2\n\n[::1]:5 10.0.1.8 : 1 # the other\n")
    assert Racks.read(file) == Racks([0, 1, 0], [["10.0.0.9", "10.0.0.8:1"], ["[::1]:5", "10.0.1.8"]])
    for text, words in (
        ("10.0.0.9 0 1", "not a rack"),
        ("10.0.0.9 : 0 x", "not a rack"),
        ("a : 0 1\nb : 1 2", "rank 1 is in two racks"),
        ("a : 0 2", "rank 1 is in no rack"),
        ("", "the file has no racks"),
        ("a : -1 0", "racks.txt:1:5"),
        ("a : 0\n\n 1", "racks.txt:3:2"),
        ("0 1", "this rack has no hubs"),
    ):
        file.write_text(text)
        refused(lambda: Racks.read(file), words)
    with pytest.raises(SynclineError, match="no such file"):
        Racks.read(tmp_path / "none")


def test_invalid_racks_are_reported():
    def join(racks, **options):
        return lambda: Hub.join(racks, {"w": ("f32", 5)}, rank=0, world=2, **of_worker(wait_s=0.3, **options))

    here = ["127.0.0.1:1"]
    refused(join(Racks([0], [here])), "the racks of 1 ranks, but has 2 ranks")
    refused(join(Racks([0, 1], [here])), "rack 1 does not exist")
    refused(join(Racks([0, 0], [here, here])), "rack 1 has no ranks")
    refused(join(Racks([0, 1], [here, [*here, *here]])), "each needs the same number")
    refused(join(Racks([0, 1], [here, here], "tree")), "tree", "sharded")
    refused(join(Racks([0, 1], [here, here]), policy="wait"), "have policy fail or shrink")
