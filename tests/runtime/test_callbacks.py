"""Callbacks of operations: each is called, their exceptions are reported, and none keeps a process from ending."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

from tests.runtime.jobs import free_port
from tests.runtime.test_collectives import run


def alone(body):
    """Runs ``body`` as the only rank of a job; returns the completed process."""
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": f"127.0.0.1:{free_port()}"}
    head = "import threading, time\nfrom array import array\nfrom syncline.runtime import Communicator\n"
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(body)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_every_callback_is_called_on_the_callbacks_thread():
    body = """
        import threading
        with Communicator.join() as ranks:
            said, last = [], threading.Event()
            for number in range(50):
                pending = ranks.all_reduce(array("f", [1.0] * 1000))
                pending.then(lambda error, number=number: said.append((number, error)))
                pending.then(lambda error, number=number: said.append((number, threading.current_thread().name)))
            ranks.barrier().wait()
            pending.wait()
            pending.then(lambda error: last.set())  # the operation is over already
            assert last.wait(10)
            expected = {(number, None) for number in range(50)}
            assert set(said) == expected | {(number, "syncline callbacks") for number in range(50)}, said
            print(len(said))
    """
    assert run(2, body) == ["100"] * 2


def test_memory_is_kept_until_the_operation_is_over_and_no_longer():
    body = """
        import threading, weakref
        class Values(array): pass
        with Communicator.join() as ranks:
            values, over = Values("f", [1.0] * 1_000_000), threading.Event()
            gone = weakref.ref(values)
            ranks.all_reduce(values).then(lambda error: over.set())
            del values
            assert over.wait(30)
            print(gone() is None)
    """
    assert run(2, body) == ["True"] * 2


def test_an_exception_in_a_callback_is_reported_and_others_are_called():
    done = alone("""
        with Communicator.join() as ranks:
            over = threading.Event()
            ranks.barrier().then(lambda error: 1 / 0)
            ranks.barrier().then(lambda error: over.set())
            assert over.wait(10)
    """)
    assert done.returncode == 0
    assert "ZeroDivisionError" in done.stderr and "syncline callbacks" in done.stderr


def test_an_exiting_process_calls_outstanding_callbacks():
    body = """
        ranks = Communicator.join(limits=TimeLimits(wait_s=20))
        if ranks.rank == 0:
            values = array("f", [1.0] * 1000)
            ranks.all_reduce(values).then(lambda error: print("told", error.diagnostics[0]["code"], flush=True))
        else:
            import time
            time.sleep(1)
    """
    assert run(2, body) == ["told SL1202", ""]


def test_a_callback_that_never_returns_does_not_keep_the_process_from_ending():
    began = time.monotonic()
    done = alone("""
        ranks = Communicator.join()
        began = threading.Event()
        ranks.barrier().then(lambda error: (began.set(), time.sleep(1000)))
        assert began.wait(10)
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 30
