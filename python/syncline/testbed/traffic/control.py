"""Starts the traffic of a testbed's tenants, switches tenants on and off, and reads their counters."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors
from syncline.testbed import kernel
from syncline.testbed.traffic.generator import Counters, End, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from syncline.testbed.layout import Layout

PATIENCE_S = 20.0
"""How long the process that sends may take to start, or to answer."""


@dataclass(frozen=True)
class TenantState:
    """What a tenant is doing, and what it has sent."""

    name: str
    on_for_s: float | None
    """For how long its traffic has been on, in seconds; ``None`` if it is off."""
    open: int
    """Flows that run now."""
    counters: Counters

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as data for JSON."""
        return {"name": self.name, "on_for_s": self.on_for_s, "open": self.open, **vars(self.counters)}


def start(layout: Layout, path: Path, on: Sequence[str] | None = None) -> None:
    """Starts the process that sends, if there are tenants; those in ``on`` are on from the beginning, else all.

    ``path`` is the Unix socket at which it answers. Raises :class:`SynclineError` if it cannot start.
    """
    if not layout.traffic:
        return
    used = {number for tenant in layout.traffic for number in (*tenant.senders, *tenant.receivers)}

    def namespace(name: str) -> str:
        return str(kernel.NAMESPACES / name)

    plan = Plan(
        home=namespace(layout.fabric_namespace),
        socket=str(path),
        ends={
            number: End(namespace(layout.namespace(number)), layout.everything[number].nics[0].address)
            for number in sorted(used)
        },
        tenants=list(layout.traffic),
        on=[tenant.name for tenant in layout.traffic] if on is None else list(on),
    )
    program = [sys.executable, "-m", "syncline.testbed.traffic.generator"]
    command = ["ip", "netns", "exec", layout.fabric_namespace, *program]
    try:
        # In its own session, the process does not get Ctrl-C.
        done = subprocess.run(  # noqa: S603
            command,
            check=False,
            input=plan.as_json() + "\n",
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=PATIENCE_S,
        )
        said = [] if done.returncode == 0 else done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    except subprocess.TimeoutExpired:
        said = [f"no answer within {PATIENCE_S:.0f} seconds"]
    if said:
        raise_errors(error(Code.HOST_FAILED, "the traffic of tenants cannot start", found=layout.name, notes=said[-1:]))


def states(path: Path) -> list[TenantState] | None:
    """Returns the states of all tenants; ``None`` if the process that sends does not run, or only root may ask it."""
    return _ask(path, {})


def switch(layout: Layout, path: Path, names: Sequence[str], *, on: bool) -> list[TenantState]:
    """Switches tenants on, from the beginning of their schedules, or off; all of them if ``names`` is empty.

    Returns the states of all tenants, or an empty list if the traffic is off as a whole and nothing sends. Raises
    :class:`SynclineError` if there is no such tenant.
    """
    chosen = _require(layout, names)
    found = _ask(path, {"on" if on else "off": chosen})
    if found is None and on:
        start(layout, path, chosen)
        found = states(path)
    return found or []


def require_off(layout: Layout, path: Path) -> None:
    """Raises :class:`SynclineError` if tenants are on, because their traffic would distort a measurement."""
    on = [state.name for state in states(path) or [] if state.on_for_s is not None]
    if on:
        raise_errors(
            error(
                Code.WHICH_TESTBED,
                "the links cannot be measured while tenants use them",
                found=", ".join(on),
                help=f"syncline testbed traffic {layout.name} off",
            )
        )


def _require(layout: Layout, names: Sequence[str]) -> list[str]:
    """Returns the named tenants, or all; refuses names that no tenant has."""
    known = [tenant.name for tenant in layout.traffic]
    if not known:
        raise_errors(
            error(
                Code.WHICH_TESTBED,
                "this testbed has no tenants",
                found=layout.name,
                help="add `traffic` to its file, take it down, and bring it up again",
            )
        )
    for name in names:
        if name not in known:
            raise_errors(
                error(
                    Code.WHICH_TESTBED,
                    "there is no such tenant",
                    found=name,
                    allowed=", ".join(known),
                    nearest=nearest(name, known),
                )
            )
    return list(names) or known


def _ask(path: Path, request: dict[str, list[str]]) -> list[TenantState] | None:
    """Sends a request to the process that sends; returns its answer, or ``None`` if it does not run."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(PATIENCE_S)
        try:
            sock.connect(str(path))
            sock.send(json.dumps(request).encode())
            answer = sock.recv(1 << 20)
        except OSError:
            return None
    return [_state(each) for each in json.loads(answer)] if answer else None


def _state(plain: dict[str, Any]) -> TenantState:
    counters = {key: plain[key] for key in Counters.__dataclass_fields__}
    return TenantState(plain["name"], plain["on_for_s"], plain["open"], Counters(**counters))
