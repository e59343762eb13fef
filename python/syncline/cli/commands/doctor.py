"""``syncline doctor``."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from syncline import _core
from syncline.errors import ExitStatus
from syncline.findings import Finding, State
from syncline.terminal.streams import show, show_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.table import Table

_NEEDED = ("pydantic", "rich", "typer")
_OPTIONAL = {
    "pandas": "data frames from Result.frame()",
    "polars": "data frames from Result.frame()",
    "torch": "models from PyTorch modules, syncline profile",
}


def doctor(*, as_json: bool) -> int:
    """Checks everything that a simulation needs; returns the exit status."""
    return report(_findings(), as_json=as_json)


def report(findings: Iterable[Finding], *, as_json: bool) -> int:
    """Prints findings, one a line or as JSON; returns the exit status: 1 if anything is broken."""
    found = list(findings)
    broken = any(each.state is State.BROKEN for each in found)
    status = ExitStatus.PROBLEM if broken else ExitStatus.DONE
    if as_json:
        show_json({"exit_status": status, "findings": [each.as_dict() for each in found]})
    else:
        show(_table(found))
    return status


def _table(findings: Iterable[Finding]) -> Table:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for each in findings:
        style = {State.OK: None, State.BROKEN: "bold red"}.get(each.state, "yellow")
        grid.add_row(each.state, each.what, each.detail, style=style)
    return grid


def _findings() -> Iterator[Finding]:
    python = platform.python_version()
    yield Finding(
        State.OK if sys.version_info >= (3, 11) else State.BROKEN, "Python", f"{python}, 3.11 or newer is needed"
    )
    yield Finding(State.OK, "platform", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs")
    yield _same_version()
    for name in _NEEDED:
        try:
            yield Finding(State.OK, name, version(name))
        except PackageNotFoundError:
            yield Finding(State.BROKEN, name, f"not installed: pip install {name}")
    for name, use in _OPTIONAL.items():
        yield Finding(State.OK if find_spec(name) else State.ABSENT, name, f"optional: {use}")
    yield _attempt("simulation", _simulation)
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    yield Finding(State.OK, "terminal", f"{encoding}, {'colours' if sys.stdout.isatty() else 'no terminal'}")


def _same_version() -> Finding:
    core = _core.version()
    try:
        package = version("syncline")
    except PackageNotFoundError:
        return Finding(
            State.ABSENT, "syncline", f"core {core}; the package is imported from its source and not installed"
        )
    if package != core:
        return Finding(State.BROKEN, "syncline", f"core {core}, package {package}: reinstall syncline")
    return Finding(State.OK, "syncline", core)


def _attempt(what: str, attempt: Callable[[], str]) -> Finding:
    try:
        return Finding(State.OK, what, attempt())
    except Exception as error:  # noqa: BLE001 - a doctor reports whatever is wrong
        return Finding(State.BROKEN, what, " ".join(str(error).split()))


def _simulation() -> str:
    """Simulates an all-reduce on a ring of two, whose time is known by hand: two rounds of 1 us + 1 us."""
    from syncline.api import simulate

    result = simulate(
        workload={"collective": "all_reduce", "bytes": "2kB"},
        fabric={"dims": [{"name": "pair", "shape": "ring", "size": 2, "rate": "1GB/s", "latency": "1us"}]},
        collectives={"chunks": 1},
    )
    found = result.summary.total_time_s
    expected = 2 * (1e-6 + 1e-6)
    if abs(found - expected) > 1e-12:
        raise ValueError(f"a test simulation took {found} s instead of {expected} s")
    return "a test simulation gave the known answer"
