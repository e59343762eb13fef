"""Checks whether this machine has what a hub needs."""

from __future__ import annotations

import os
import resource
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from syncline import _core
from syncline.errors import SynclineError
from syncline.findings import Finding, State
from syncline.hub.service import PORT, status
from syncline.runtime import security
from syncline.runtime.addresses import resolve, with_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")
ENOUGH_FILES = 4096

SOON_S = 3 * 86_400
"""A certificate that expires within this time is ``poor``: it may expire before a long job ends."""


def findings(
    address: str | None, listen: Sequence[str] | None, port: int, key_file: str | None, tls: str | None = None
) -> Iterator[Finding]:
    """Checks this machine, and the hub at ``address`` if one is given."""
    yield Finding(State.OK, "CPUs", f"{os.cpu_count()}: a hub sums on all of them, unless --cores sets another number")
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = files == resource.RLIM_INFINITY or files >= ENOUGH_FILES
    detail = f"{files}; each rank needs one per core of the hub, and one more"
    yield Finding(
        State.OK if enough else State.POOR,
        "open files",
        detail if enough else f"{detail}: run ulimit -n {ENOUGH_FILES}",
    )
    yield _congestion()
    if key_file is not None:
        yield _attempt(
            "key", lambda: f"{key_file}: {len(security.read_key(key_file))} bytes, readable by the owner only"
        )
    if tls is not None:
        yield from _certificates(tls)
    for each in listen or ([] if address else ["127.0.0.1"]):
        yield _listens(each, port)
    if address is not None:
        yield _attempt(f"hub {address}", lambda: _answers(address, key_file, tls))


def _certificates(folder: str) -> Iterator[Finding]:
    """Reports each certificate in a folder: its names, and when it expires."""
    found = sorted(path.stem for path in Path(folder).glob("*.pem") if path.stem != "ca")
    for name in found or ["rank"]:
        try:
            read = security.Certificates.of(folder, (name,)).read()
        except SynclineError as error:
            yield Finding(State.BROKEN, f"certificate {name}", " ".join(str(error).split()))
            continue
        ends = min(read.ends)
        soon = ends - time.time() < SOON_S
        detail = f"for {', '.join(read.names)}; ends on {_core.certificate_date(ends)}"
        yield Finding(
            State.POOR if soon else State.OK, f"certificate {name}", detail + (", within 3 days" if soon else "")
        )


def _congestion() -> Finding:
    try:
        name = CONGESTION.read_text().strip()
    except OSError:
        return Finding(State.OK, "congestion control", "the system's default")
    if name == "bbr":
        return Finding(
            State.POOR, "congestion control", "bbr, which delays bursts of gradients: use --congestion cubic"
        )
    return Finding(State.OK, "congestion control", name)


def _listens(host: str, port: int) -> Finding:
    what = f"port {port} of {host}"
    try:
        name, number = resolve(host, port)
        family = socket.AF_INET6 if ":" in name else socket.AF_INET
        with socket.create_server((name, number), family=family):
            return Finding(State.OK, what, "is free")
    except SynclineError as error:
        return Finding(State.BROKEN, what, str(error))
    except OSError as error:
        return Finding(State.BROKEN, what, error.strerror or str(error))


def _answers(address: str, key_file: str | None, tls: str | None) -> str:
    began = time.perf_counter()
    found = status(address, security=security.Security(key_file=key_file, tls=tls))
    took = time.perf_counter() - began
    host, port = resolve(address, PORT)
    jobs = f"{len(found['jobs'])} jobs" if len(found["jobs"]) != 1 else "1 job"
    return f"{with_port(host, port)} answers in {1e3 * took:.1f} ms: {found['cores']} cores, {jobs}"


def _attempt(what: str, attempt: Callable[[], str]) -> Finding:
    try:
        return Finding(State.OK, what, attempt())
    except SynclineError as error:
        return Finding(State.BROKEN, what, " ".join(str(error).split()))
