"""``syncline doctor``."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from syncline import _core
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
    """Checks everything that a simulation needs and prints one line for each; exit status 1 if anything is broken."""
    findings = list(_findings())
    broken = [what for state, what, _ in findings if state == "broken"]
    if as_json:
        rows = [{"state": state, "what": what, "detail": detail} for state, what, detail in findings]
        show_json({"exit_status": int(bool(broken)), "findings": rows})
        return int(bool(broken))
    show(table(findings))
    return int(bool(broken))


def table(findings: Iterable[tuple[str, str, str]]) -> Table:
    """Findings as a table: state (``ok``, ``absent``, ``poor``, ``broken``), what was checked, what was found."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for state, what, detail in findings:
        style = {"ok": "green", "broken": "bold red"}.get(state, "yellow")
        grid.add_row(state, what, detail, style=None if state == "ok" else style)
    return grid


def _findings() -> Iterator[tuple[str, str, str]]:
    """State (``ok``, ``absent``, ``broken``), what was checked, what was found."""
    python = platform.python_version()
    yield ("ok" if sys.version_info >= (3, 11) else "broken"), "Python", f"{python}, 3.11 or newer is needed"
    yield "ok", "platform", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    yield _same_version()
    for name in _NEEDED:
        try:
            yield "ok", name, version(name)
        except PackageNotFoundError:
            yield "broken", name, f"not installed: pip install {name}"
    for name, use in _OPTIONAL.items():
        yield ("ok" if find_spec(name) else "absent"), name, f"optional: {use}"
    yield _attempt("simulation", _simulation)
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    yield "ok", "terminal", f"{encoding}, {'colours' if sys.stdout.isatty() else 'no terminal'}"


def _same_version() -> tuple[str, str, str]:
    core = _core.version()
    try:
        package = version("syncline")
    except PackageNotFoundError:
        return "absent", "syncline", f"core {core}; the package is imported from its source and not installed"
    state = "ok" if package == core else "broken"
    return state, "syncline", core if state == "ok" else f"core {core}, package {package}: reinstall syncline"


def _attempt(what: str, attempt: Callable[[], str]) -> tuple[str, str, str]:
    try:
        return "ok", what, attempt()
    except Exception as error:  # noqa: BLE001 - a doctor reports whatever is wrong
        return "broken", what, " ".join(str(error).split())


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
