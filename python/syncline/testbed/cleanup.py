"""Cleans up after a process that was killed: a separate *cleanup process* waits for the end of a pipe.

It reads from stdin what to clean up: lines ``testbed NAME MAKER``, ``group GROUP`` and ``rates NAME MAKER RATES``, and
``done`` once nothing is left to clean up. If the pipe ends without ``done``, its owner has died.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from syncline.testbed.links import Link

GRACE_S = 2.0


class Watch:
    """The pipe to a cleanup."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def testbed(self, name: str) -> None:
        """Makes the cleanup process take a testbed down if this process dies."""
        self._say(f"testbed {name} {os.getpid()}")

    def group(self, number: int) -> None:
        """Makes the cleanup process end a process group if this process dies."""
        self._say(f"group {number}")

    def rates(self, name: str, maker: int, rates: Mapping[Link, int]) -> None:
        """Makes the cleanup process give links of a testbed these rates, in bits per second, if this process dies."""
        self._say(f"rates {name} {maker} {json.dumps([[*link, bits] for link, bits in rates.items()])}")

    def done(self) -> None:
        """Says that nothing is left to clean up. Without it, the cleanup process cleans up when the block ends."""
        self._say("done")

    def _say(self, line: str) -> None:
        # If the cleanup process is gone, the owner still cleans up after itself.
        with contextlib.suppress(OSError):
            self._pipe.write(f"{line}\n".encode())
            self._pipe.flush()


@contextlib.contextmanager
def watch() -> Iterator[Watch]:
    """Runs a cleanup process for as long as the block runs."""
    command = [sys.executable, "-m", "syncline.testbed.cleanup"]
    child = subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdin is not None  # noqa: S101 - it was asked for
    line = Watch(child.stdin)
    try:
        yield line
    finally:
        with contextlib.suppress(OSError):
            child.stdin.close()
        child.wait()


def main(lines: IO[str]) -> None:
    """Runs the cleanup process: reads lines until the pipe ends, and cleans up unless ``done`` was among them."""
    testbeds, groups, shaped = [], [], []
    for line in lines:
        word, _, value = line.strip().partition(" ")
        if word == "done":
            return
        if word == "testbed":
            name, _, pid = value.partition(" ")
            testbeds.append((name, int(pid)))
        elif word == "group":
            groups.append(int(value))
        elif word == "rates":
            name, pid, listed = value.split(" ", 2)
            shaped.append((name, int(pid), {(a, b): bits for a, b, bits in json.loads(listed)}))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        if number == signal.SIGTERM and groups:
            time.sleep(GRACE_S)
    if testbeds:
        from syncline.testbed.lifecycle import down

        for name, maker in testbeds:
            down(name, maker)
    if shaped:
        from syncline.testbed.shape import give_back

        for name, maker, rates in shaped:
            give_back(name, maker, rates)


if __name__ == "__main__":
    # Ctrl-C is meant for the owner.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(sys.stdin)
