"""``syncline testbed``."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from syncline import _core
from syncline.cli.options import overrides
from syncline.cli.progress import Waiting
from syncline.cli.streams import complain, say, show, show_json
from syncline.config.problem import error, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from syncline.errors import Diagnostic
    from syncline.testbed.layout import Layout
    from syncline.testbed.spec import Request

OFF_SPEC = 1


def up(spec: str, sets: Iterable[str], *, as_json: bool, quiet: bool) -> int:
    """Brings a testbed up; gives the exit status."""
    from syncline.testbed import lifecycle
    from syncline.testbed.layout import layout
    from syncline.testbed.spec import read

    request = read(spec, overrides(sets, {}))
    told = _warn(request, layout(request), quiet=quiet or as_json)
    made = lifecycle.up(request)
    if as_json:
        show_json({"exit_status": 0, "testbed": made.plain(), "diagnostics": told})
        return 0
    from syncline.testbed.screen import hosts

    if not quiet:
        show(*hosts(made))
        say(f"Run a command on all hosts: syncline testbed run {made.name} -- COMMAND")
    return 0


def down(which: Sequence[str], *, every: bool) -> int:
    """Takes testbeds down; gives the exit status."""
    from syncline.testbed import kernel, lifecycle, state

    kernel.require()
    if not which and not every:
        refuse(error("SL0103", "no testbed is named", help="syncline testbed down NAME, or --all"))
    names = state.names() if every else [_name(each) for each in which]
    for name in names:
        if lifecycle.down(name):
            say(f"{name} is down")
        elif not every:
            state.known(name)
    return 0


def status(which: str | None, *, as_json: bool) -> int:
    """Lists testbeds, or one with its hosts; gives the exit status."""
    from syncline.testbed import screen, state

    if which is not None:
        layout = state.known(_name(which)).layout
        if as_json:
            show_json({"exit_status": 0, "testbed": layout.plain()})
        else:
            show(*screen.hosts(layout))
        return 0
    found = {name: state.find(name) for name in state.names()}
    if as_json:
        up_now = [each.layout.plain() for each in found.values() if each is not None and each.complete]
        left = [name for name, each in found.items() if each is None or not each.complete]
        show_json({"exit_status": 0, "testbeds": up_now, "left_over": left})
        return 0
    for name, known in found.items():
        if known is not None and known.complete:
            show(f"{name}  {screen.overview(known.layout)}")
        else:
            show(f"{name}  left over; remove it: syncline testbed down {name}")
    if not found:
        say("There is no testbed. Bring one up: syncline testbed up SPEC.yaml")
    return 0


def run(which: str, command: Sequence[str], hosts: str | None, timeout: str | None, sets: Iterable[str]) -> int:
    """Runs a command on the hosts of a testbed; gives the exit status."""
    from syncline.testbed import processes

    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        refuse(error("SL0103", "no command is given", help=f"syncline testbed run {which} -- COMMAND"))
    order = None if hosts is None else _numbers(hosts)
    timeout_s = None if timeout is None else _seconds(timeout)
    with _testbed(which, sets, quiet=False) as (layout, _):
        processes.run(layout, command, order, timeout_s=timeout_s)
    return 0


def check(which: str, sets: Iterable[str], save: str | None, *, as_json: bool, quiet: bool) -> int:
    """Measures a testbed, and host costs where they are to be saved; gives the exit status."""
    from syncline.testbed import costs
    from syncline.testbed.check import check as measure

    host_costs = None
    silent = quiet or as_json
    with _testbed(which, sets, quiet=silent) as (layout, told), Waiting(quiet=silent) as progress:
        found = measure(layout, tell=progress)
        if save is not None:
            progress(1.0, "measuring host costs")
            host_costs = costs.measure(layout, found)
            host_costs.save(Path(save))
    outcome = 0 if found.holds else OFF_SPEC
    if as_json:
        rates = [rate.plain() for rate in found.rates]
        latencies = [asdict(latency) for latency in found.latencies]
        shown = {"exit_status": outcome, "name": layout.name, "rates": rates, "latencies": latencies}
        shown["diagnostics"] = told
        show_json(shown | ({} if host_costs is None else {"host_costs": host_costs.plain()}))
    else:
        from syncline.testbed.screen import checked

        show(*checked(found, layout, os.cpu_count() or 1, host_costs))
        if save is not None:
            say(f"Host costs are in {save}")
    return outcome


@contextlib.contextmanager
def _testbed(which: str, sets: Iterable[str], *, quiet: bool) -> Iterator[tuple[Layout, list[Diagnostic]]]:
    """A testbed by its name, or by a file: one that is up, or one that is there only for now; and a file's warnings."""
    from syncline.testbed import kernel, lifecycle, state
    from syncline.testbed.layout import layout
    from syncline.testbed.spec import read

    kernel.require()
    if not _is_file(which):
        if list(sets):
            refuse(error("SL0102", "only a file has values to be changed", key="--set", found=which))
        yield state.known(which).layout, []
        return
    request = read(which, overrides(sets, {}))
    asked = layout(request)
    told = _warn(request, asked, quiet=quiet)
    there = state.find(request.name)
    if there is not None and there.complete:
        state.same(there, asked)
        yield asked, told
        return
    with lifecycle.temporary(request) as made:
        yield made, told


def _warn(request: Request, made: Layout, *, quiet: bool) -> list[Diagnostic]:
    """Says what of the file a testbed does not do."""
    from syncline.testbed.fidelity import warnings

    told = list(warnings(request, made))
    if not quiet:
        complain(told)
    return told


def _is_file(which: str) -> bool:
    return "/" in which or which.endswith((".yaml", ".yml", ".json")) or Path(which).is_file()


def _name(which: str) -> str:
    """Of a testbed, from its name or its file."""
    if not _is_file(which):
        return which
    from syncline.testbed.spec import read

    return read(which).name


def _numbers(text: str) -> list[int]:
    """Hosts in the order of ranks: ``0,4,1`` or ``0-3,8``."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            refuse(error("SL0102", "not a list of hosts", key="--hosts", found=text, allowed="such as 0,4,1,5 or 0-3"))
        found += range(int(first), int(last if dash else first) + 1)
    return found


def _seconds(text: str) -> float:
    try:
        return float(_core.parse_quantity("time", text)) / 1e12
    except ValueError as problem:
        message, remedy = problem.args
        refuse(error("SL0104", message, key="--timeout", found=text, help=remedy))
