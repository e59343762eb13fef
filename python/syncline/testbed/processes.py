"""Runs commands on hosts: one process for each rank, which gets its rank and addresses in environment variables."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.quantity import counted
from syncline.testbed import cleanup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.errors import Diagnostic
    from syncline.testbed.layout import Layout

PORT = 29_500
"""Port at which rank 0 listens, by PyTorch's convention."""
GRACE_S = 5.0
"""How long processes have to end after one of them failed, and again after SIGTERM."""
MAX_RANKS = 4_096
"""Maximum number of ranks of a command: each is a process of this machine."""
LONGEST_LINE = 65_536
"""Longer lines are printed in pieces of this many bytes."""


def environment(layout: Layout, hosts: Sequence[int], rank: int, port: int = PORT) -> dict[str, str]:
    """Returns the environment variables for the process of a rank. ``hosts`` has the host of each rank."""
    host = layout.hosts[hosts[rank]]
    nodes = list(dict.fromkeys(hosts))
    by_rank = [layout.hosts[each] for each in hosts]
    first = host.nics[0].interface
    # Hosts that are joined directly reach each other at the address of the first interface alone.
    nics = host.nics[:1] if layout.paths else host.nics
    told = {
        "RANK": rank,
        "WORLD_SIZE": len(hosts),
        "LOCAL_RANK": hosts[:rank].count(host.number),
        "LOCAL_WORLD_SIZE": hosts.count(host.number),
        "GROUP_RANK": nodes.index(host.number),
        "GROUP_WORLD_SIZE": len(nodes),
        "MASTER_ADDR": by_rank[0].nics[0].address,
        "MASTER_PORT": port,
        # Defaults for torchrun's options. Each of our processes may be a torchrun that starts one rank and sets the
        # variables above itself. Several ranks on a host are several nodes to torchrun.
        "PET_NNODES": len(hosts),
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": 1,
        "PET_MASTER_ADDR": by_rank[0].nics[0].address,
        "PET_MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": first,
        "TP_SOCKET_IFNAME": first,
        "NCCL_SOCKET_IFNAME": first,
        "SYNCLINE_TESTBED": layout.name,
        "SYNCLINE_HOST": host.number,
        "SYNCLINE_RACK": host.rack,
        "SYNCLINE_LOCAL_RANK": hosts[:rank].count(host.number),
        "SYNCLINE_LOCAL_WORLD_SIZE": hosts.count(host.number),
        "SYNCLINE_INTERFACES": ",".join(nic.interface for nic in nics),
        "SYNCLINE_ADDRESSES": ",".join(nic.address for nic in nics),
        "SYNCLINE_PEERS": ",".join(each.nics[0].address for each in by_rank),
        "SYNCLINE_RACKS": ",".join(str(each.rack) for each in by_rank),
    }
    return {name: str(value) for name, value in told.items()}


@dataclass
class _Process:
    """A running command on a host."""

    rank: int
    host: int
    child: subprocess.Popen[bytes]
    session: bool
    """Whether the command has its own session, and therefore its own process group."""
    pending: dict[int, bytearray] = field(default_factory=dict)
    """For each stream: the output after the last complete line."""

    def tell(self, number: int) -> None:
        """Sends a signal to the command, and to all processes of its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if self.session else os.kill)(self.child.pid, number)


def run(
    layout: Layout,
    command: Sequence[str],
    hosts: Sequence[int] | None = None,
    *,
    timeout_s: float | None = None,
    port: int = PORT,
) -> None:
    """Runs a command for each rank, on the hosts in ``hosts``, and waits for all of them.

    Output goes to stdout and stderr with the rank before each line; a single command gets this terminal instead. If one
    command fails, the others have :data:`GRACE_S` to end by themselves. Raises :class:`SynclineError` if a command
    failed, or ``timeout_s`` has passed.
    """
    hosts = list(range(len(layout.hosts))) if hosts is None else list(hosts)
    for host in hosts:
        require_host(layout, host)
    with cleanup.watch() as watch:
        running: list[_Process] = []
        try:
            for rank in range(len(hosts)):
                running.append(_start(layout, command, hosts, rank, port))
                if running[-1].session:
                    watch.group(running[-1].child.pid)
            problem = _wait(running, timeout_s)
        except KeyboardInterrupt:
            _end(running, signal.SIGINT)
            raise
        finally:
            _end(running, signal.SIGTERM)
            for stream in (stream for each in running for stream in (each.child.stdout, each.child.stderr)):
                if stream is not None:
                    stream.close()
            watch.done()
    if problem is not None:
        raise_errors(problem)


def require_host(layout: Layout, host: int, *, key: str | None = None) -> None:
    """Raises :class:`SynclineError` if a testbed does not have this host."""
    if not 0 <= host < len(layout.hosts):
        allowed = f"0 to {len(layout.hosts) - 1}"
        raise_errors(error(Code.WHICH_TESTBED, "there is no such host", key=key, found=str(host), allowed=allowed))


def _start(layout: Layout, command: Sequence[str], hosts: Sequence[int], rank: int, port: int) -> _Process:
    inside = ["ip", "netns", "exec", layout.namespace(hosts[rank]), *command]
    variables: Mapping[str, str] = {**os.environ, **environment(layout, hosts, rank, port)}
    alone = len(hosts) == 1
    child = subprocess.Popen(  # noqa: S603
        inside,
        env=variables,
        stdin=None if alone else subprocess.DEVNULL,
        stdout=None if alone else subprocess.PIPE,
        stderr=None if alone else subprocess.PIPE,
        # A shell on one host keeps the terminal; in its own session it would not have one.
        start_new_session=not (terminal := alone and sys.stdin.isatty()),
    )
    return _Process(rank, hosts[rank], child, session=not terminal)


def _wait(running: Sequence[_Process], timeout_s: float | None) -> Diagnostic | None:
    """Prints the output of processes until all have ended; returns the first error."""
    until = None if timeout_s is None else time.monotonic() + timeout_s
    failed: _Process | None = None
    with selectors.DefaultSelector() as selector:
        for each in running:
            for stream in (each.child.stdout, each.child.stderr):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, each)
        left = list(running)
        while left:
            for key, _ in selector.select(0.05) if selector.get_map() else ():
                if not _copy(key.data, key.fd):
                    selector.unregister(key.fileobj)
            if not selector.get_map():
                time.sleep(0.01)
            left = [each for each in left if each.child.poll() is None]
            if failed is None:
                failed = next((each for each in running if each.child.returncode), None)
                if failed is not None:
                    grace = time.monotonic() + GRACE_S
                    until = grace if until is None else min(until, grace)
            if left and until is not None and time.monotonic() > until:
                late = left
                if failed is None:
                    ranks = ", ".join(str(each.rank) for each in late)
                    found = f"still running: rank {ranks}"
                    return error(Code.HOST_FAILED, f"the command timed out after {timeout_s:g} s", found=found)
                _end(late, signal.SIGTERM)
        for key in list(selector.get_map().values()):
            _drain(key.data, key.fd)
    if failed is None:
        return None
    others = sum(1 for each in running if each.child.returncode) - 1
    were = "was" if others == 1 else "were"
    return error(
        Code.HOST_FAILED,
        f"rank {failed.rank} on host {failed.host} {_ended(failed.child.returncode or 0)}",
        notes=[f"{counted(others, 'other')} failed or {were} ended after it"] if others else [],
    )


def _ended(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _copy(process: _Process, descriptor: int, most: int = LONGEST_LINE) -> int:
    """Reads a stream once and prints complete lines; returns the number of bytes, which is 0 at the end."""
    came = os.read(descriptor, most)
    pending = process.pending.setdefault(descriptor, bytearray())
    pending += came
    _print(process, descriptor, len(pending) if len(pending) >= LONGEST_LINE else pending.rfind(b"\n") + 1)
    if not came:
        _print(process, descriptor, len(pending))
    return len(came)


def _drain(process: _Process, descriptor: int) -> None:
    """Prints what a process that has ended left in a stream, and no more: its children may write to it forever."""
    # The kernel writes an integer in the machine's byte order.
    left = int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    while left > 0 and (came := _copy(process, descriptor, min(left, LONGEST_LINE))):
        left -= came
    _print(process, descriptor, len(process.pending.get(descriptor, b"")))


def _print(process: _Process, descriptor: int, end: int) -> None:
    """Prints the first ``end`` pending bytes of a stream, with the rank before each line."""
    if not end:
        return
    pending, stdout = process.pending[descriptor], process.child.stdout
    out = sys.stdout if stdout is not None and descriptor == stdout.fileno() else sys.stderr
    text = bytes(pending[:end]).decode("utf-8", "replace")
    del pending[:end]
    out.write("".join(f"[{process.rank}] {line}\n" for line in text.removesuffix("\n").split("\n")))
    out.flush()


def _end(running: Sequence[_Process], number: int) -> None:
    """Ends processes that still run: by a signal, and after :data:`GRACE_S` by SIGKILL."""
    for each in running:
        if each.child.poll() is None:
            each.tell(number)
    until = time.monotonic() + GRACE_S
    for each in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            each.child.wait(max(0.0, until - time.monotonic()))
    for each in running:
        if each.child.poll() is None:
            each.tell(signal.SIGKILL)
            each.child.wait()
