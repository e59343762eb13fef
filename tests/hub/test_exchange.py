"""Ranks that exchange vectors with hubs in this process."""

from __future__ import annotations

import math
import os
import threading
from array import array
from pathlib import Path

import pytest

from syncline import SynclineError
from syncline.hub import Adam, Hub, HubResources, Service, Sgd, Terms, status, two_levels
from syncline.hub.worker import CHUNKS, MAX_CHUNKS
from syncline.runtime import addresses
from tests.options import of_worker


def together(world, act):
    """Runs ``act`` for all ranks at the same time, and returns their results."""
    results: dict[int, object] = {}
    errors = []

    def run(rank):
        try:
            results[rank] = act(rank)
        except BaseException as error:  # noqa: BLE001 - raised again by the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a rank hangs"
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(world)]


@pytest.fixture
def hubs():
    """Runs two hubs, and yields their addresses."""
    with (
        Service(port=0, resources=HubResources(cores=2)) as one,
        Service(port=0, resources=HubResources(cores=1)) as two,
    ):
        yield [one.addresses[0], two.addresses[0]]


KEYS = {"weights": ("f32", 30_000), "bias": ("f32", 3)}


def test_all_ranks_get_the_mean(hubs):
    def act(rank):
        with Hub.join(hubs, KEYS, rank=rank, world=3) as hub:
            vectors = {name: array("f", [float(rank)] * length) for name, (_, length) in KEYS.items()}
            under_way = [hub.push_pull(name, vector) for name, vector in vectors.items()]
            assert all(exchange.wait() for exchange in under_way)
            assert [exchange.contributors for exchange in under_way] == [3, 3]
            assert hub.steps == {"weights": 1, "bias": 1}
            return vectors

    for vectors in together(3, act):
        assert all(set(vector) == {1.0} for vector in vectors.values())


def test_all_addresses_of_a_hub_are_tried(hubs, monkeypatch):
    """A name may have an address at which nothing listens, and cores are where the hub was reached."""
    original = addresses.socket.getaddrinfo

    def getaddrinfo(host, port, **options):
        found = ["127.0.0.9", "127.0.0.1"] if host == "hub" else [host]
        return [each for address in found for each in original(address, port, **options)]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", getaddrinfo)
    named = [hub.replace("127.0.0.1", "hub") for hub in hubs]
    assert named != hubs

    def act(rank):
        with Hub.join(named, KEYS, rank=rank, world=2) as hub:
            vector = array("f", [float(rank)] * 30_000)
            hub.push_pull("weights", vector).wait()
            return set(vector)

    assert together(2, act) == [{0.5}, {0.5}]


def test_push_and_pull_may_be_separate_calls(hubs):
    def act(rank):
        with Hub.join(hubs, KEYS, rank=rank, world=2, terms=Terms(reduction="max")) as hub:
            vector = array("f", [float(rank)] * 3)
            hub.push("bias", vector).wait()
            hub.pull("bias", vector).wait()
            return list(vector)

    assert together(2, act) == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (Sgd(lr=0.5), lambda step: 10 - 1.5 * step),
        (Sgd(lr=0.5, momentum=0.5), lambda step: 10 - 1.5 * sum(2 - 0.5**each for each in range(step))),
        (Adam(lr=0.25), lambda step: 10 - 0.25 * step),
    ],
)
def test_the_hub_updates_parameters(hubs, optimizer, expected):
    def act(rank):
        found = []
        with Hub.join(hubs, KEYS, rank=rank, world=2, optimizer=optimizer) as hub:
            parameters = array("f", [10.0 if rank == 0 else 0.0] * 30_000)
            hub.start({"weights": parameters})
            assert set(parameters) == {10.0}
            for _ in range(3):
                gradient = array("f", [2.0 + 2.0 * rank] * 30_000)
                hub.push_pull("weights", gradient).wait()
                found.append(set(gradient))
        return found

    for found in together(2, act):
        for step, values in enumerate(found, 1):
            assert len(values) == 1
            assert math.isclose(values.pop(), expected(step), rel_tol=1e-5)


def test_a_learning_rate_changes_between_steps(hubs):
    with Hub.join(hubs, {"w": ("f64", 5)}, rank=0, world=1, optimizer=Sgd(lr=1.0)) as hub:
        hub.set("w", array("d", [1.0] * 5)).wait()
        for rate, expected in ((None, 0.0), (0.25, -0.25)):
            if rate is not None:
                hub.set_learning_rate(rate)
            gradient = array("d", [1.0] * 5)
            hub.push_pull("w", gradient).wait()
            assert list(gradient) == [expected] * 5


def test_each_vector_may_have_its_own_optimizer_and_rate(hubs):
    keys = {"a": ("f64", 5), "b": ("f64", 5), "sum": ("i64", 5)}
    optimizers = {"a": Sgd(lr=1.0), "b": Sgd(lr=1.0, momentum=0.5)}
    with Hub.join(
        hubs, keys, rank=0, world=1, optimizer=optimizers, terms=Terms(reduction="sum", together=["a", "b"])
    ) as hub:
        hub.start({name: array("d", [0.0] * 5) for name in ("a", "b")})
        found = []
        for step in range(3):
            if step == 2:
                hub.set_learning_rate(0.25, "b")
            vectors = {name: array("d", [-1.0] * 5) for name in ("a", "b")}
            for name, vector in vectors.items():
                hub.push_pull(name, vector).wait()
            found.append([vector[0] for vector in vectors.values()])
        # Velocities of `b` are 1, 1.5, 1.75.
        assert found == [[1.0, 1.0], [2.0, 2.5], [3.0, 2.5 + 0.25 * 1.75]]
        plain = array("q", [7] * 5)
        hub.push_pull("sum", plain).wait()
        assert list(plain) == [7] * 5
        refused(lambda: hub.set_learning_rate(0.1, "sum"), "no optimizer")
        refused(lambda: hub.set_learning_rate(0.1, "bb"), "did you mean `b`?")
    refused(lambda: Hub.join(hubs, KEYS, rank=0, world=1, optimizer={"w": Sgd()}), "no such vector", "`w`")
    refused(lambda: Hub.join(hubs, KEYS, rank=0, world=1, terms=Terms(together=["w"])), "`together` names `w`")


def test_ranks_of_an_asynchronous_job_do_not_wait_for_each_other(hubs):
    options = of_worker(world=2, asynchronous=True, optimizer=Sgd(lr=1.0), job="later")

    def join(rank):
        return Hub.join(hubs, {"w": ("f32", 5)}, rank=rank, **options)

    first, second = together(2, join)
    first.set("w", array("f", [9.0] * 5)).wait()
    for expected in (8.0, 7.0, 6.0):
        gradient = array("f", [1.0] * 5)
        second.push_pull("w", gradient).wait()
        assert list(gradient) == [expected] * 5
    parameters = array("f", [0.0] * 5)
    first.pull("w", parameters).wait()
    assert list(parameters) == [6.0] * 5
    first.close()
    second.close()


def test_jobs_on_one_hub_are_separate(hubs):
    def act(number):
        with Hub.join(hubs, KEYS, rank=0, world=1, job=f"job {number}") as hub:
            for _ in range(5):
                vector = array("f", [float(number)] * 30_000)
                hub.push_pull("weights", vector).wait()
                assert set(vector) == {float(number)}
            return {job["job"] for job in status(hubs[0])["jobs"]}

    assert all(f"job {number}" in jobs for number, jobs in enumerate(together(3, act)))


def refused(call, *words):
    with pytest.raises(SynclineError) as raised:
        call()
    text = str(raised.value)
    assert all(word in text for word in words), text
    return raised.value


def test_invalid_arguments_of_join_are_reported(hubs):
    def join(keys=KEYS, **options):
        return lambda: Hub.join(hubs, keys, **of_worker(**{"rank": 0, "world": 1, "wait_s": 0.3, **options}))

    refused(join(reduction="avg"), "avg", "choose mean, sum")
    refused(join({"w": ("f31", 3)}), "f31")
    refused(join({"w": ("f32", -3)}), "`w` is not a vector")
    refused(join({"w": ["f32", 3]}), "no memory buffer")
    refused(join({"w": ("i64", 3)}), "`w` has no mean", "use a sum")
    refused(join(optimizer=Sgd(lr=-1.0)), "`lr` is -1", "0 or more")
    refused(join(optimizer=Sgd(nesterov=True)), "needs a `momentum`")
    refused(join({"w": ("f16", 3)}, optimizer=Sgd()), "optimizers need f32 or f64")
    # The limits that the command line uses are those of the hub.
    refused(join(chunk=CHUNKS[0] - 1), f"it must be {CHUNKS[0]} to {CHUNKS[-1]}")
    refused(join(chunk=CHUNKS[-1] + 1), f"it must be {CHUNKS[0]} to {CHUNKS[-1]}")
    refused(join({"w": ("f32", 16 * MAX_CHUNKS + 1)}, chunk=64), f"more than {MAX_CHUNKS} chunks")
    refused(join(job="a\x1b[31m"), "no control characters")
    refused(join(interval_s=3.0, silence_s=10.0), "`interval_s` to at most half")
    refused(lambda: Hub.join([hubs[0], hubs[0]], KEYS, rank=0, world=1), "listed twice")
    refused(join(policy="carry on"), "carry on", "fail")
    refused(join(world=0), "0 ranks")
    refused(join(rank=-1), "-1")
    refused(join(rank=3), "rank 3 does not exist: the job has 1 ranks")
    refused(lambda: Hub.join("no.such.host.invalid", KEYS, rank=0, world=1), "the host's address cannot be found")
    refused(lambda: Hub.join("192.0.2.1", KEYS, rank=0, world=1), "anybody who reaches this address", "key_file")
    absent = refused(join(world=2), "rank 1 has not joined")
    assert (absent.exit_status, absent.diagnostics[0]["code"]) == (6, "SL1201")


def test_buffers_that_do_not_match_a_vector_are_reported(hubs):
    with Hub.join(hubs, KEYS, rank=0, world=1) as hub:
        refused(lambda: hub.push("weigths", array("f", [0.0])), "did you mean `weights`?")
        refused(lambda: hub.push("bias", array("f", [0.0] * 4)), "4 f32", "3 f32")
        refused(lambda: hub.push("bias", array("d", [0.0] * 3)), "3 f64", "3 f32")
        refused(lambda: hub.push("bias", b"abc"), "must be writable")
        refused(lambda: hub.set_learning_rate(0.1), "no optimizer")
    refused(lambda: hub.push("bias", array("f", [0.0] * 3)), "closed")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are pinned on Linux only")
def test_each_core_of_a_pinned_hub_has_a_cpu():
    whole = sorted(os.sched_getaffinity(0))
    with Service(port=0, resources=HubResources(cores=len(whole), pin=True)) as service:
        with Hub.join(service.addresses[0], {"vector": ("f32", 100_000)}, rank=0, world=1) as hub:
            hub.push_pull("vector", array("f", [1.0] * 100_000)).wait()  # cores are at work
        tasks = {task.name: (task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
        pinned = [os.sched_getaffinity(int(task)) for task, name in tasks.items() if name.startswith("core ")]
        assert sorted(pinned, key=min) == [{cpu} for cpu in whole]
        refused(
            lambda: Service(port=0, resources=HubResources(cores=len(whole) + 1, pin=True)),
            f"no CPU for each of its {len(whole) + 1} cores",
        )


def test_invalid_arguments_of_a_hub_are_reported():
    with Service(port=0, resources=HubResources(cores=1)) as service:
        port = int(service.addresses[0].rpartition(":")[2])
        refused(lambda: Service(port=port), "cannot listen", str(port))
    refused(
        lambda: Service(["127.0.0.1", "127.0.0.2"], port=0, resources=HubResources(cores=1)), "2 interfaces for 1 cores"
    )
    refused(lambda: Service(["127.0.0.1:99999"]), "the port is not valid", "0 to 65535")
    refused(lambda: Service(["192.0.2.7"], port=0), "anybody who reaches this address")
    refused(lambda: Service(port=0, resources=HubResources(congestion="no such")), "congestion control")
    refused(lambda: status("127.0.0.1:1", wait_s=0.2), "cannot be reached")


def test_two_levels_pay_on_a_thin_core_network():
    thin = two_levels(2, 8, hub_rate=10e9, core_rate=1.25e9, worker_rate=1.25e9)
    assert thin.pays
    assert math.isclose(thin.flat, 3.2e-9)
    assert math.isclose(thin.two_level, 1.2e-9)
    assert not two_levels(2, 8, hub_rate=10e9, core_rate=1.25e9, worker_rate=1.25e9, between=3e-9).pays
    refused(lambda: two_levels(2, 8, hub_rate=0, core_rate=1, worker_rate=1), "more than 0")
