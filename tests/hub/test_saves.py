"""Saves of jobs on hubs: a hub that is killed and started again goes on from the last one."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from array import array
from contextlib import contextmanager

import pytest

from syncline.errors import SynclineError
from syncline.hub import Adam, Hub, HubResources, Saves, Service, Sgd, Terms, save
from syncline.runtime import TimeLimits
from tests.hub.test_exchange import refused, together
from tests.runtime.jobs import free_port

COMMAND = [sys.executable, "-m", "syncline", "hub"]
ADAM = Adam(lr=0.01, weight_decay=0.1)
SGD = Sgd(lr=0.1, momentum=0.9, nesterov=True)
KEYS = {"a": ("f64", 5000), "b": ("f64", 300)}
TERMS = Terms(chunk=4096, in_order=True, together=("a", "b"))
RATES = {4: 0.005, 9: 0.02}
"""The learning rate of `a` from some steps on."""


@contextmanager
def served(folder, port, *, every="0.2s", cores=2):
    """Runs a hub that saves its jobs; yields its process."""
    command = [
        *COMMAND,
        "serve",
        "--port",
        str(port),
        "--cores",
        str(cores),
        "--save",
        str(folder),
        "--save-every",
        every,
    ]
    with subprocess.Popen([*command, "--log", "json"], stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline()
            assert "listening" in line, line + process.stderr.read()
            yield process
        finally:
            process.kill()


def gradients(rank, step):
    """A rank's gradients of a step: the same in every run."""
    numbers = random.Random(1000 * rank + step)
    return {name: array("d", [numbers.uniform(-1, 1) for _ in range(size)]) for name, (_, size) in KEYS.items()}


def first():
    """The parameters with which the job begins."""
    numbers = random.Random(7)
    return {name: array("d", [numbers.uniform(-1, 1) for _ in range(size)]) for name, (_, size) in KEYS.items()}


def train(hub, steps, seen, hold=None):
    """Takes part in a job until it has done ``steps``. Returns the parameters, and notes each step in ``seen``."""
    parameters = first()
    hub.start(parameters)
    for step in range(hub.steps["a"], steps):
        if hub.rank == 0 and step + 1 in RATES:
            hub.set_learning_rate(RATES[step + 1], "a")
        parameters = gradients(hub.rank, step)
        for each in [hub.push_pull(name, vector) for name, vector in parameters.items()]:
            each.wait()
        seen.append(step)
        if hold is not None:
            hold(step)
    return parameters


def reference(steps):
    """The same training without hubs: Adam and SGD written out again from their papers and PyTorch's documentation."""
    parameters = first()
    moments = {name: ([0.0] * size, [0.0] * size) for name, (_, size) in KEYS.items()}
    rate = ADAM.lr
    for step in range(steps):
        rate = RATES.get(step + 1, rate)
        given = [gradients(rank, step) for rank in range(2)]
        for i, p in enumerate(parameters["a"]):
            g = (given[0]["a"][i] + given[1]["a"][i]) / 2 + ADAM.weight_decay * p
            m, v = moments["a"]
            m[i] += (1 - ADAM.beta1) * (g - m[i])
            v[i] = ADAM.beta2 * v[i] + (1 - ADAM.beta2) * g * g
            unbiased = m[i] / (1 - ADAM.beta1 ** (step + 1)), v[i] / (1 - ADAM.beta2 ** (step + 1))
            parameters["a"][i] = p - rate * unbiased[0] / (unbiased[1] ** 0.5 + ADAM.eps)
        for i, p in enumerate(parameters["b"]):
            g = (given[0]["b"][i] + given[1]["b"][i]) / 2
            m = moments["b"][0]
            m[i] = SGD.momentum * m[i] + g
            parameters["b"][i] = p - SGD.lr * (g + SGD.momentum * m[i])
    return parameters


def join(address, rank, **options):
    given = {"optimizer": {"a": ADAM, "b": SGD}, "terms": TERMS, "limits": TimeLimits(wait_s=60.0), **options}
    return Hub.join(address, KEYS, rank=rank, world=2, **given)


def near(found, wanted):
    """The largest difference of parameters."""
    return max(abs(x - y) for name in KEYS for x, y in zip(found[name], wanted[name], strict=True))


def test_moments_and_steps_of_a_killed_hub_go_on_from_its_save(tmp_path):
    """Fault: a hub with `--save` is killed and started again -> ranks that join again go on from its last save"""
    port, steps = free_port(), 16
    address = f"127.0.0.1:{port}"
    ready, results, noted = threading.Barrier(3), {}, {0: [], 1: []}

    def act(rank):
        def hold(step):
            # The hub is killed after step 12, at which it has saved an earlier one.
            if step == 5:
                ready.wait()
                ready.wait()
            elif step == 11:
                ready.wait()

        with pytest.raises(SynclineError, match="hub 0 at"), join(address, rank) as hub:
            train(hub, 10**6, noted[rank], hold)
        ready.wait()
        before = len(noted[rank])
        with join(address, rank) as hub:
            behind = hub.steps
            results[rank] = behind, before, train(hub, steps, noted[rank])
        return True

    threads = [threading.Thread(target=act, args=(rank,), daemon=True) for rank in range(2)]
    with served(tmp_path, port, every="3600s") as hub:
        for thread in threads:
            thread.start()
        ready.wait()
        found = save(address)
        assert found == [{"job": "job", "step": 6, "why": None}]
        ready.wait()
        ready.wait()
        hub.send_signal(signal.SIGKILL)
        hub.wait()
    with served(tmp_path, port, every="3600s") as hub:
        ready.wait()
        for thread in threads:
            thread.join(60)
        assert json.loads(hub.stderr.readline())["event"] == "job_opened"
    wanted = reference(steps)
    for rank in range(2):
        behind, before, parameters = results[rank]
        # Ranks that were ahead learn that the hub is at step 6, and do the steps after it again.
        assert behind == {"a": 6, "b": 6} and before >= 12
        assert noted[rank][before:] == list(range(6, steps))
        assert near(parameters, wanted) < 1e-12
    assert results[0][2] == results[1][2]


def test_a_hub_that_continues_from_a_save_does_what_it_would_have_done(tmp_path):
    def run(resources, saves, steps, begins=0):
        with Service(port=0, resources=resources, saves=saves) as hub:

            def act(rank):
                with join(hub.addresses[0], rank) as job:
                    assert job.steps == {"a": begins, "b": begins}
                    found = train(job, steps, [])
                    # What one rank pushes beyond the last complete step is not part of a save.
                    if rank == 1 and saves is not None:
                        job.push("b", array("d", [9.0]) * 300).wait()
                    elif saves is not None:
                        assert save(hub.addresses[0])[0]["step"] == steps
                    return found

            return together(2, act)

    wanted = run(HubResources(cores=1), None, 12)
    # Hubs with other numbers of cores distribute the same chunks differently.
    for cores, steps, begins in ((1, 5, 0), (3, 9, 5)):
        run(HubResources(cores=cores), Saves(tmp_path, None), steps, begins)
    assert run(HubResources(cores=2), Saves(tmp_path, None), 12, 9) == wanted


def test_several_hubs_continue_from_the_newest_save_that_all_have(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]

    def run(act):
        with (
            Service(port=0, resources=HubResources(cores=1), saves=Saves(folders[0], None)) as one,
            Service(port=0, resources=HubResources(cores=2), saves=Saves(folders[1], None)) as two,
        ):
            addresses = [one.addresses[0], two.addresses[0]]
            return together(2, lambda rank: act(addresses, rank))

    def train_on(job, steps):
        for step in range(job.steps["a"], steps):
            for each in [job.push_pull(name, vector) for name, vector in gradients(job.rank, step).items()]:
                each.wait()

    def again(addresses, rank):
        with join(addresses, rank) as job:
            return job.steps["a"]

    def whole(addresses, rank):
        with join(addresses, rank, job="whole") as job:
            job.start(first())
            train_on(job, 4)
            mine = first()
            for name, vector in mine.items():
                job.pull(name, vector).wait()
        with join(addresses, rank) as job:
            theirs = first()
            job.start(theirs)
            return job.steps["a"], mine == theirs

    def start_and_save(addresses, rank):
        with join(addresses, rank) as job:
            job.start(first())
            for steps in (4, 7):
                train_on(job, steps)
                if rank == 0:
                    assert [save(address)[0]["step"] for address in addresses] == [steps, steps]
                meet.wait()
            return True

    meet = threading.Barrier(2)
    assert all(run(start_and_save))
    for folder in folders:
        assert len(list((folder / "job").glob("*.save"))) == 2
    assert run(again) == [7, 7]
    # One hub loses its newest save: both continue from the one before.
    newest = max((folders[1] / "job").glob("*.save"), key=lambda file: int(file.stem))
    newest.unlink()
    assert run(whole) == [(4, True)] * 2
    # One hub has none: ranks do not mix old and new.
    for file in (folders[1] / "job").glob("*.save"):
        file.unlink()

    def refuses(addresses, rank):
        refused(lambda: join(addresses, rank), "has a save of the job, and the hub", "has none")
        return True

    assert all(run(refuses))


def test_a_save_is_what_its_format_says(tmp_path):
    with Service(port=0, resources=HubResources(cores=2), saves=Saves(tmp_path, None)) as hub:

        def act(rank):
            with join(hub.addresses[0], rank) as job:
                found = train(job, 5, [])
                if rank == 0:
                    assert save(hub.addresses[0]) == [{"job": "job", "step": 5, "why": None}]
                meet.wait()
                return found

        meet = threading.Barrier(2)
        parameters = together(2, act)[0]
    (file,) = (tmp_path / "job").glob("*.save")
    content = file.read_bytes()
    assert content[:18] == b"syncline hub save\n" and content[18:22] == (1).to_bytes(4, "little")
    length = int.from_bytes(content[22:26], "little")
    header = json.loads(content[26 : 26 + length])
    assert (header["job"], header["step"], header["bytes"]) == ("job", 5, len(content))
    assert hashlib.sha256(content[:-32]).digest() == content[-32:]
    # The values of all chunks, one after the other, are the parameters.
    at, values = 26 + length, array("d")
    for number in range(header["chunks"]):
        assert int.from_bytes(content[at : at + 4], "little") == number
        rates, vectors = (int.from_bytes(content[at + i : at + i + 4], "little") for i in (16, 20))
        # `a` has ten chunks, cut evenly, and two vectors of moments; `b` has one chunk and its momentum.
        elements = 500 if vectors == 2 else 300
        begin = at + 24 + 16 * rates
        values.frombytes(content[begin : begin + 8 * elements])
        at = begin + 8 * elements * (1 + vectors)
    assert at == len(content) - 32
    assert values == parameters["a"] + parameters["b"]


def test_saves_that_cannot_be_used_are_named_and_left_alone(tmp_path):
    with Service(port=0, resources=HubResources(cores=1), saves=Saves(tmp_path, None)) as hub:
        assert save(hub.addresses[0]) == []

        def act(rank):
            with join(hub.addresses[0], rank) as job:
                train(job, 3, [])
                if rank == 0:
                    save(hub.addresses[0])
                meet.wait()
                return True

        meet = threading.Barrier(2)
        together(2, act)
        with pytest.raises(SynclineError, match="another hub uses this folder"):
            Service(port=0, saves=Saves(tmp_path))
    (file,) = (tmp_path / "job").glob("*.save")
    content = file.read_bytes()
    with Service(port=0, resources=HubResources(cores=1), saves=Saves(tmp_path, None)) as hub:

        def refuse(*words, **options):
            refused(lambda: join(hub.addresses[0], 0, **options), *words)

        refuse("with different terms", optimizer={"a": ADAM, "b": Sgd(lr=0.2)})
        refuse("with different terms", "`chunk`", terms=Terms(chunk=8192, in_order=True, together=("a", "b")))
        for changed, words in (
            (content[:-1], "was not written or copied completely"),
            (b"PK" + content[2:], "is not a save of a hub"),
            (content[:18] + b"\x09" + content[19:], "has format 9, and this hub reads format 1"),
            (content[:-40] + bytes([content[-40] ^ 1]) + content[-39:], None),
        ):
            file.write_bytes(changed)
            if words is not None:
                refuse(f"because its save {file}", words, "move it away")
            else:

                def damaged(rank):
                    refused(lambda: join(hub.addresses[0], rank), "its checksum does not match its contents")
                    return True

                assert all(together(2, damaged))
            assert file.read_bytes() == changed
        file.write_bytes(content)

        def good(rank):
            with join(hub.addresses[0], rank) as job:
                return job.steps["a"]

        assert together(2, good) == [3, 3]


def test_a_hub_whose_disk_is_full_goes_on_and_keeps_its_earlier_save(tmp_path):
    small = tmp_path / "disk"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "none", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs root, to make a small disk")
    try:
        with Service(port=0, resources=HubResources(cores=1), saves=Saves(small, None)) as hub:

            def act(rank):
                with join(hub.addresses[0], rank) as job:
                    train(job, 3, [])
                    if rank == 0:
                        assert save(hub.addresses[0])[0]["step"] == 3
                        (small / "ballast").write_bytes(bytes(150_000))
                    meet.wait()
                    train(job, 6, [])
                    if rank == 0:
                        (found,) = save(hub.addresses[0])
                        assert found["step"] == 3 and "No space left on device" in found["why"], found
                        (job_status,) = hub.status()["jobs"]
                        assert "free some space there" in job_status["save_failure"], job_status
                        (small / "ballast").unlink()
                        assert save(hub.addresses[0]) == [{"job": "job", "step": 6, "why": None}]
                    meet.wait()
                    return True

            meet = threading.Barrier(2)
            assert all(together(2, act))
            assert [event["event"] for event in hub.events()].count("save_failed") == 1
        names = sorted(file.name for file in (small / "job").iterdir())
        assert len(names) <= 2 and all(name.endswith(".save") for name in names), names
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_hub_saves_at_the_interval_and_only_what_can_be_lost(tmp_path):
    enough = threading.Event()
    with Service(port=0, resources=HubResources(cores=1), saves=Saves(tmp_path, 0.1)) as hub:

        def act(rank):
            sums = Hub.join(hub.addresses[0], {"w": ("f32", 10)}, rank=rank, world=2, job="sums")
            with sums, join(hub.addresses[0], rank) as job:
                job.start(first())
                for step in range(10_000):
                    # Both ranks end after the same step.
                    vector = array("f", [float(enough.is_set())]) * 10
                    sums.push_pull("w", vector).wait()
                    if vector[0] > 0:
                        return step
                    for each in [job.push_pull(name, given) for name, given in gradients(rank, step).items()]:
                        each.wait()
            return None

        found = []
        thread = threading.Thread(target=lambda: found.extend(together(2, act)), daemon=True)
        thread.start()
        until = time.monotonic() + 60
        while len({file.name for file in tmp_path.glob("job/*.save")}) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        enough.set()
        thread.join(60)
    assert len(set(found)) == 1 and found[0] is not None
    assert len(list(tmp_path.glob("job/*.save"))) == 2 and not (tmp_path / "sums").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--save-every", "1s"], "add --save FOLDER"),
        (["serve", "--save", "saves", "--save-every", "soon"], "--save-every"),
        (["serve", "--save", "saves", "--save-every", "1ms"], "at least 0.1s"),
    ],
)
def test_invalid_arguments_are_reported(arguments, words):
    found = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 2 and words in found.stderr, found


def test_a_hub_without_a_folder_says_so():
    with Service(port=0, resources=HubResources(cores=1)) as hub:
        address = hub.addresses[0]
        assert save(address) is None
        found = subprocess.run([*COMMAND, "save", address], capture_output=True, text=True, check=False, timeout=60)
        assert found.returncode == 2 and "syncline hub serve --save FOLDER" in found.stderr, found


def alone(address, name="job"):
    """Joins a job of one rank."""
    return Hub.join(address, KEYS, rank=0, world=1, job=name, optimizer={"a": ADAM, "b": SGD}, terms=TERMS)


def begins(address, name, steps=None):
    """Trains a job of one rank, saves it, and returns the steps with which it began."""
    with alone(address, name) as job:
        began = job.steps["a"]
        if steps is not None:
            train(job, began + steps, [])
            (mine,) = (each for each in save(address) if each["job"] == name)
            assert mine == {"job": name, "step": began + steps, "why": None}
        return began


def test_every_name_of_a_job_can_be_saved(tmp_path):
    names = ["lock", ".", "..", "a/b", "7.save", "x" * 200]
    with Service(port=0, resources=HubResources(cores=1), saves=Saves(tmp_path, None)) as hub:
        assert [begins(hub.addresses[0], name, 2) for name in names] == [0] * len(names)
    with Service(port=0, resources=HubResources(cores=1), saves=Saves(tmp_path, None)) as hub:
        assert [begins(hub.addresses[0], name) for name in names] == [2] * len(names)


def test_a_job_begins_with_the_save_that_was_being_written_when_it_ended(tmp_path):
    # Large enough for writing to take longer than coming back.
    size = 4_000_000
    vector = array("f", bytes(4 * size))
    with Service(port=0, resources=HubResources(cores=1), saves=Saves(tmp_path, None)) as hub:
        for steps in (0, 3, 6, 9):
            with Hub.join(hub.addresses[0], {"w": ("f32", size)}, rank=0, world=1, optimizer=ADAM) as job:
                saved = [int(file.stem) for file in tmp_path.glob("job/*.save")]
                assert job.steps["w"] == steps == max(saved, default=0)
                job.start({"w": vector})
                for _ in range(3):
                    job.push_pull("w", vector).wait()
                thread = threading.Thread(target=save, args=(hub.addresses[0],), daemon=True)
                thread.start()
                until = time.monotonic() + 30
                while not list(tmp_path.glob("job/*.part")) and time.monotonic() < until:
                    time.sleep(0.001)
        assert [event for event in hub.events() if event["event"] == "rank_refused"] == []


def test_a_folder_that_is_removed_or_cannot_be_written_is_named_and_used_again(tmp_path):
    folder = tmp_path / "saves"
    with Service(port=0, resources=HubResources(cores=1), saves=Saves(folder, None)) as hub:
        address = hub.addresses[0]
        with alone(address) as job:
            train(job, 2, [])
            assert save(address)[0]["why"] is None
            shutil.rmtree(folder / "job")
            (folder / "job").write_text("in the way")
            train(job, 3, [])
            (found,) = save(address)
            assert found["step"] == 2 and f"{folder}/job/6.save cannot be written" in found["why"], found
            (folder / "job").unlink()
            assert save(address) == [{"job": "job", "step": 3, "why": None}]


def test_a_hub_whose_folder_of_saves_cannot_be_used_does_not_start_and_says_why(tmp_path):
    (tmp_path / "file").touch()
    for folder, words in (("file", "it is not a folder"), ("file/x", "Not a directory")):
        command = [*COMMAND, "serve", "--port", str(free_port()), "--save", folder]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert found.returncode == 6 and f"the hub cannot save to {tmp_path / folder}: {words}" in found.stderr, found
        assert "help: choose a folder that this user can write to and no other hub uses" in found.stderr
