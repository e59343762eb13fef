"""A rank that forks a process and prints the outcome as JSON. Usage: forking.py {"child": "ends" or "stays"}."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from array import array
from typing import Any

from syncline.errors import SynclineError
from syncline.runtime import Communicator


def say(**what: Any) -> None:
    """Prints a line of JSON for the test."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def use(ranks: Communicator) -> str:
    """Returns the error that a child gets if it uses its parent's communicator."""
    try:
        ranks.all_reduce(array("f", [1.0]))
    except (ValueError, SynclineError) as error:
        return str(error)
    return "nothing"


def main() -> None:
    """Joins a job, forks, and goes on in the parent."""
    how = json.loads(sys.argv[1])["child"]
    ranks = Communicator.join()
    ranks.barrier().wait()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if how == "stays":
            signal.pause()
        os.write(writing, use(ranks).encode())
        # Exit through `sys.exit`, so that exit handlers run in the child.
        ranks.close()
        sys.exit(0)
    if how == "stays":
        say(pid=child)
        try:
            while True:
                ranks.all_reduce(array("f", [1.0] * 1000)).wait()
        except SynclineError as error:
            os.kill(child, signal.SIGKILL)
            say(error=str(error), at=time.time())
        return
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    say(child=os.waitstatus_to_exitcode(ended[1]) if ended[0] else None)
    used = os.read(reading, 1 << 12).decode()
    # The parent goes on.
    ranks.barrier().wait()
    ranks.close()
    say(used=used)


main()
