"""Collectives between processes, from Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from array import array
from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Rule
from syncline.runtime.memory import memory
from tests.options import of_rank
from tests.runtime.jobs import free_port, job


def run(world, body, **variables):
    """Runs ``body`` in a process for each rank, and returns what each printed."""
    head = "from array import array\nfrom syncline.runtime import Communicator, Plans, Resources, Rule, TimeLimits\n"
    common = {**os.environ, "MASTER_ADDR": f"127.0.0.1:{free_port()}", "WORLD_SIZE": str(world), **variables}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", head + textwrap.dedent(body)],
            env={**common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    answers = [process.communicate(timeout=60) for process in processes]
    assert all(process.returncode == 0 for process in processes), answers
    return [out.strip() for out, _ in answers]


def test_callers_that_poll_get_the_same_sums():
    body = """
        for shared in (True, False):
            with Communicator.join(resources=Resources(shared_memory=shared, poll_s=0.001, lanes=2)) as ranks:
                for turn in range(100):
                    value = array("q", [ranks.rank + turn])
                    ranks.all_reduce(value).wait()
                    assert value[0] == 1 + 2 * turn, (turn, value)
        print("sums are right")
    """
    assert run(2, body) == ["sums are right"] * 2


def test_ranks_on_one_machine_share_memory_unless_one_declines():
    body = """
        import json, os
        with Communicator.join(resources=Resources(shared_memory=os.environ["RANK"] != os.environ["ALONE"])) as ranks:
            print(json.dumps(ranks.transports))
    """
    for alone, expected in [("none", "shared memory"), ("1", "TCP")]:
        said = [json.loads(line) for line in run(3, body, ALONE=alone)]
        assert said[1] == {"0": expected, "2": expected}
        assert said[0]["1"] == expected
        assert said[0]["2"] == "shared memory"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are pinned on Linux only")
def test_each_lane_has_a_cpu_if_there_are_enough():
    body = """
        import json, os
        os.sched_setaffinity(0, list(os.sched_getaffinity(0))[: int(os.environ["CPUS"])])
        with Communicator.join(resources=Resources(pin=os.environ["PIN"] == "yes")) as ranks:
            ranks.barrier().wait()  # lanes are at work
            on = {}
            for task in os.listdir("/proc/self/task"):
                with open(f"/proc/self/task/{task}/comm") as name:
                    on[name.read().strip()] = sorted(os.sched_getaffinity(int(task)))
            print(json.dumps([ranks.cpus, on["lane 0"]]))
    """
    whole = sorted(os.sched_getaffinity(0))
    if len(whole) > 1:
        cpus, lane = json.loads(run(1, body, CPUS="1000", PIN="yes")[0])
        assert cpus == lane
        assert len(lane) == 1
        assert json.loads(run(1, body, CPUS="1000", PIN="no")[0]) == [[], whole]
    assert json.loads(run(1, body, CPUS="1", PIN="yes")[0]) == [[], whole[:1]]
    many = run(len(whole) + 1, body, CPUS="1000", PIN="yes") if len(whole) < 8 else []
    assert [json.loads(line) for line in many] == [[[], whole]] * len(many)


def test_every_collective_gives_the_right_result():
    body = """
        with Communicator.join() as ranks:
            me, n = ranks.rank, ranks.world
            total = array("q", [me + 1] * 10)
            ranks.all_reduce(total).wait()
            largest = array("d", [float(me)] * 3)
            ranks.all_reduce(largest, "max").wait()
            block = array("i", [0] * 4)
            ranks.reduce_scatter(array("i", range(4 * n)), block).wait()
            gathered = array("h", [0] * (2 * n))
            ranks.all_gather(array("h", [me, -me]), gathered).wait()
            swapped = array("B", [0] * n)
            ranks.all_to_all(array("B", [10 * me + to for to in range(n)]), swapped).wait()
            word = bytearray(b"hello" if me == 1 else b".....")
            ranks.broadcast(word, root=1).wait()
            sums = array("f", [1.5])
            ranks.reduce(sums, root=2).wait()
            ranks.barrier().wait()
            print(list(total), list(largest), list(block), list(gathered), list(swapped), word.decode(), list(sums))
    """
    for rank, said in enumerate(run(3, body)):
        block = [3 * value for value in range(4 * rank, 4 * rank + 4)]
        gathered = [0, 0, 1, -1, 2, -2]
        swapped = [10 * other + rank for other in range(3)]
        sums = [4.5] if rank == 2 else [1.5]
        assert said == f"{[6] * 10} {[2.0] * 3} {block} {gathered} {swapped} hello {sums}"


def test_users_choose_plans_order_and_lanes():
    body = """
        rules = [Rule("all_reduce", "direct", up_to=1000), Rule("all_reduce", "two_level(group=2)", message=4096)]
        plans = Plans(rules=rules, order=[2, 0, 3, 1])
        with Communicator.join(plans=plans, resources=Resources(lanes=2)) as ranks:
            small, large = array("f", [1.0] * 10), array("f", [2.0] * 50_000)
            under_way = [ranks.all_reduce(small), ranks.all_reduce(large, in_order=True)]
            assert all(each.wait() for each in under_way)
            print(set(small), set(large))
    """
    assert run(4, body) == ["{4.0} {8.0}"] * 4


def test_a_job_of_one_rank_returns_its_memory():
    body = """
        with Communicator.join() as ranks:
            values = array("f", [1.0, 2.0])
            ranks.all_reduce(values).wait()
            values.append(3.0)  # the array can be resized again: its memory is released
            print(list(values))
    """
    assert run(1, body) == ["[1.0, 2.0, 3.0]"]


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (b"bytes", "a buffer must be writable and contiguous"),
        (5, "this object has no memory buffer"),
        (memoryview(bytearray(8))[::2], "a buffer must be writable and contiguous"),
        (array("u", "text"), "elements of this type cannot be reduced"),
    ],
)
def test_unusable_buffers_are_refused(buffer, message):
    with pytest.raises(SynclineError) as caught:
        memory(buffer)
    assert caught.value.diagnostics[0]["message"] == message


def test_invalid_arguments_are_refused_before_connecting(tmp_path, monkeypatch):
    def why(**arguments):
        with pytest.raises(SynclineError) as caught:
            Communicator.join(**of_rank(**{"rank": 0, "world": 1, **arguments}))
        assert caught.value.exit_status == 2
        return str(caught.value)

    assert "no such algorithm" in why(rules=[Rule("all_reduce", "rng")])
    assert "needs a power of 4 ranks" in why(world=5, rules=[Rule("all_reduce", "bcube")])
    assert "does not have each rank once" in why(world=2, order=[0, 0])
    assert "`order` lists 2 ranks, but there are 3" in why(world=3, order=[0, 1])
    assert "anybody who reaches this address" in why(interfaces=["10.1.2.3"])
    assert "anybody who reaches this address" in why(coordinator="10.1.2.3:5")
    assert "the host's address cannot be found" in why(coordinator="no.such.host.invalid:5")
    assert "the port is not valid" in why(coordinator="127.0.0.1:port")
    for value in (0, -1):
        assert "`wait_s` is not a valid timeout" in why(wait_s=value)
    assert "`deadline_s` is not a valid timeout" in why(deadline_s=-5)
    assert "`poll_s` is not a valid timeout" in why(poll_s=-1)
    assert "invalid arguments for a rank" in why(wait_s=float("inf"))
    assert "rank 3 is not in a job of 2 ranks" in why(rank=3, world=2)
    assert "`lanes` is 0: it must be 1 to" in why(lanes=0)
    assert "`window` is 0: it must be at least 1 byte" in why(window=0)
    assert "allow for at least two heartbeats" in why(silence_s=0.5)
    assert "has no interface" in why(interfaces=[""])
    assert "the key cannot be read" in why(key_file=tmp_path / "none")
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    assert "others may read the key" in why(key_file=key)
    key.chmod(0o600)
    key.write_bytes(b"short")
    assert "a key must have 32 bytes" in why(key_file=key)
    monkeypatch.delenv("RANK", raising=False)
    assert "has no valid `RANK`" in why(rank=None)


def test_a_key_admits_its_holders_and_nobody_else(tmp_path):
    for name, content in (("key", "ab" * 32), ("other", "cd" * 32)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    settings = {"key_file": str(tmp_path / "key"), "steps": 1}
    with job(2, json.dumps(settings)) as friends:
        assert [friends.outcome(rank) for rank in range(2)] == [{"done": 1}] * 2
    with job(2, json.dumps({**settings, "wait_s": 3}), ranks=[0]) as alone:
        # The stranger knows the job's address, but has another key.
        stranger = {"key_file": str(tmp_path / "other"), "rank": 1, "coordinator": alone.address, "wait_s": 2}
        with job(2, json.dumps(stranger), ranks=[1]) as other:
            refused = other.outcome(0)
        assert "does not have the key" in refused["error"]["message"]
        outcome = alone.outcome(0)
        assert "rank 1 did not join within 3 s" in outcome["error"]["message"]
        assert (refused["status"], outcome["status"]) == (6, 6)


def test_ctrl_c_interrupts_join():
    body = "from syncline.runtime import Communicator\nprint('here', flush=True)\nCommunicator.join()"
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": f"127.0.0.1:{free_port()}"}
    with subprocess.Popen(
        [sys.executable, "-c", body], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert "KeyboardInterrupt" in err


def test_memory_in_use_is_refused():
    body = """
        import time
        from syncline.errors import SynclineError
        with Communicator.join() as ranks:
            values = array("f", [1.0] * 1000)
            if ranks.rank == 1:
                time.sleep(1)
            first = ranks.all_reduce(values)
            if ranks.rank == 0:
                try:
                    ranks.all_reduce(values)
                except SynclineError as error:
                    print(error.diagnostics[0]["message"])
            first.wait()
            ranks.barrier().wait()
    """
    said = run(2, body)
    assert "is in use by all_reduce of 1000 f32 (sum) (operation 1)" in said[0], said
