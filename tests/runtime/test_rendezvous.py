"""Ranks that find each other through a shared store."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Meeting, RedisRendezvous, Security, TimeLimits
from tests.runtime.jobs import free_port


class Shared:
    """A rendezvous in the memory of one process."""

    def __init__(self):
        self.values = {}

    def publish(self, key, value):
        self.values[key] = value

    def fetch(self, key, timeout):
        deadline = time.monotonic() + timeout
        while key not in self.values:
            if time.monotonic() >= deadline:
                raise TimeoutError(key)
            time.sleep(0.005)
        return self.values[key]


def meet(world, rendezvous):
    """Joins all ranks, each on its own thread, and returns their communicators."""
    with ThreadPoolExecutor(world) as pool:
        return list(
            pool.map(
                lambda rank: Communicator.join(rank, world, meeting=Meeting(rendezvous=rendezvous(rank))),
                range(world),
            )
        )


def works(group):
    """Returns whether an all-reduce over the ranks works, and closes them."""
    buffers = [bytearray([1]) for _ in group]
    pending = [ranks.all_reduce(buffer) for ranks, buffer in zip(group, buffers, strict=True)]
    done = all(each.wait(10) for each in pending)
    with ThreadPoolExecutor(len(group)) as pool:
        list(pool.map(Communicator.close, group))
    return done and all(buffer[0] == len(group) for buffer in buffers)


def test_ranks_meet_share_a_key_and_leave_nothing_behind(monkeypatch):
    shared, keys, check = Shared(), [], Security.check

    def checked(security, hosts, key):
        keys.append(key)
        return check(security, hosts, key)

    monkeypatch.setattr(Security, "check", checked)
    group = meet(3, lambda rank: shared)
    assert len(keys) == 3 and len(set(keys)) == 1 and len(keys[0]) == 32
    assert set(shared.values) == {f"{kind}/{rank}" for kind in ("hello", "welcome") for rank in (1, 2)}
    assert set(shared.values.values()) == {b""}
    assert works(group)


def test_a_group_meets_again_despite_entries_of_an_earlier_group_of_its_name():
    shared = Shared()
    assert works(meet(2, lambda rank: shared))
    # What a job leaves that died while its ranks met.
    stale = b'{"to": "00", "coordinator": "127.0.0.1:1", "key": "' + b"00" * 32 + b'"}'
    shared.values.update({"hello/1": b"00", "welcome/1": stale})
    assert works(meet(2, lambda rank: shared))
    shared.values.update({"hello/1": b"rubbish", "welcome/1": b"rubbish"})
    assert works(meet(2, lambda rank: shared))


def test_a_rank_restarted_while_ranks_meet_is_answered_again():
    shared = Shared()
    shared.values["hello/1"] = b"of a process that died"
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(Communicator.join, 0, 2, meeting=Meeting(rendezvous=shared))
        while "welcome/1" not in shared.values:
            time.sleep(0.01)
        second = pool.submit(Communicator.join, 1, 2, meeting=Meeting(rendezvous=shared))
        assert works([first.result(20), second.result(20)])


def elastic(rank, world, shared):
    """Joins an elastic job through a rendezvous."""
    return Communicator.join(rank, world, elastic=True, meeting=Meeting(rendezvous=shared))


def test_ranks_that_are_started_again_find_an_elastic_job_wherever_it_is_coordinated():
    shared = Shared()
    with ThreadPoolExecutor(3) as pool:
        group = list(pool.map(lambda rank: elastic(rank, 3, shared), range(3)))
        for lost in (2, 0, 1):
            group.pop([ranks.ranks[ranks.rank] for ranks in group].index(lost)).close()
            list(pool.map(Communicator.renew, group))
            back = pool.submit(elastic, lost, 3, shared)
            while any(ranks.waiting != [lost] for ranks in group):
                assert not back.done()
                time.sleep(0.01)
            list(pool.map(Communicator.renew, group))
            group.append(back.result(20))
            assert all(ranks.ranks == [0, 1, 2] for ranks in group)
        deadline = time.monotonic() + 10
        while any(shared.values.get(f"{kind}/{rank}") for kind in ("hello", "welcome") for rank in range(3)):
            assert time.monotonic() < deadline, shared.values
            time.sleep(0.1)
    assert works(group)
    assert shared.values["alive"] == b"", "the last rank wipes the sign of life"


def test_a_new_elastic_job_begins_where_one_has_died():
    shared = Shared()
    # What a job leaves all of whose processes were killed.
    shared.values["alive"] = b"a sign that no process renews"
    limits = TimeLimits(silence_s=0.5, interval_s=0.1)
    with ThreadPoolExecutor(2) as pool:
        joined = [
            pool.submit(Communicator.join, rank, 2, elastic=True, meeting=Meeting(rendezvous=shared), limits=limits)
            for rank in range(2)
        ]
        assert works([each.result(30) for each in joined])


def test_a_timeout_names_the_missing_rank():
    with pytest.raises(SynclineError) as caught:
        Communicator.join(1, 2, meeting=Meeting(rendezvous=Shared()), limits=TimeLimits(wait_s=0.3))
    assert "rank 1 got no address of rank 0 from the rendezvous within 0 s" in str(caught.value)
    with pytest.raises(SynclineError) as caught:
        Communicator.join(0, 2, meeting=Meeting(rendezvous=Shared()), limits=TimeLimits(wait_s=0.3))
    assert "rank 1 did not join" in str(caught.value)
    assert caught.value.exit_status == 6


def test_errors_of_the_store_are_reported():
    class Broken(Shared):
        def fetch(self, key, timeout):
            raise ConnectionError("the store is gone")

    for rank in (0, 1):
        with pytest.raises(SynclineError) as caught:
            Communicator.join(rank, 2, meeting=Meeting(rendezvous=Broken()), limits=TimeLimits(wait_s=0.5))
        assert "the store is gone" in str(caught.value)


def test_a_free_port_is_announced():
    said, address = threading.Event(), []

    def announce(where):
        address.append(where)
        said.set()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(Communicator.join, 0, 2, "127.0.0.1:0", meeting=Meeting(announce=announce))
        assert said.wait(10)
        assert works([Communicator.join(1, 2, address[0]), first.result(20)])
    with pytest.raises(SynclineError, match="give the port on which rank 0 listens"):
        Communicator.join(1, 2, "127.0.0.1:0")
    with pytest.raises(ZeroDivisionError):
        Communicator.join(0, 2, "127.0.0.1:0", meeting=Meeting(announce=lambda where: 1 / 0))


def test_a_rendezvous_and_a_key_file_exclude_each_other(tmp_path):
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    with pytest.raises(SynclineError, match="a rendezvous brings its own key"):
        Communicator.join(0, 1, meeting=Meeting(rendezvous=Shared()), security=Security(key_file=key))


@pytest.fixture
def redis_server(tmp_path):
    """Starts a Redis server for the test, and yields its URL."""
    server = shutil.which("redis-server")
    if server is None or find_spec("redis") is None:
        pytest.skip("redis-server or the library redis is not installed")
    port = free_port()
    process = subprocess.Popen(
        [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    yield f"redis://127.0.0.1:{port}/0"
    process.kill()
    process.wait()


def test_groups_meet_again_in_redis_and_leave_keys_that_expire(redis_server):
    import redis

    client = redis.Redis.from_url(redis_server)
    deadline = time.monotonic() + 20
    while True:
        try:
            client.ping()
            break
        except redis.ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for _ in range(2):
        # Two groups at once, made again under the same names.
        one = meet(3, lambda rank: RedisRendezvous(redis_server, "one"))
        two = meet(2, lambda rank: RedisRendezvous(client, "two"))
        assert works(one) and works(two)
    assert all(client.get(key) == b"" and client.ttl(key) > 0 for key in client.scan_iter())
    with pytest.raises(SynclineError, match="got no address of rank 0"):
        Communicator.join(
            1, 2, meeting=Meeting(rendezvous=RedisRendezvous(client, "nobody")), limits=TimeLimits(wait_s=0.2)
        )


def test_a_missing_redis_package_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(SynclineError, match="pip install") as caught:
        RedisRendezvous("redis://127.0.0.1:6379/0", "job")
    assert (caught.value.diagnostics[0]["code"], caught.value.exit_status) == ("SL0902", 2)


def test_an_unreachable_redis_server_is_reported():
    if find_spec("redis") is None:
        pytest.skip("the library redis is not installed")
    nobody = RedisRendezvous(f"redis://127.0.0.1:{free_port()}/0", "job")
    with pytest.raises(SynclineError, match="rank 1 cannot use the rendezvous"):
        Communicator.join(1, 2, meeting=Meeting(rendezvous=nobody), limits=TimeLimits(wait_s=0.5))
