"""``syncline testbed``."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.cli.commands.options import overrides, rate, seconds
from syncline.codes import Code
from syncline.errors import ExitStatus, SynclineError
from syncline.input.problem import error, raise_errors, require_writable, shown
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import print_diagnostics, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from syncline.errors import Diagnostic
    from syncline.testbed.layout import Layout
    from syncline.testbed.links import Link
    from syncline.testbed.spec import TestbedRequest
    from syncline.testbed.state import TestbedState


def up(spec: str, sets: Iterable[str], *, as_json: bool, quiet: bool) -> int:
    """Brings a testbed up; returns the exit status."""
    from syncline.testbed import lifecycle
    from syncline.testbed.layout import layout
    from syncline.testbed.spec import read

    request = read(spec, overrides(sets, {}))
    cautions = _warn(request, layout(request), quiet=quiet or as_json)
    made = lifecycle.up(request)
    if as_json:
        show_json({"exit_status": 0, "testbed": made.as_dict(), "diagnostics": cautions})
        return 0
    from syncline.testbed.screen import hosts, tenants

    if not quiet:
        show(*hosts(made), *tenants(made))
        say(f"Run a command on all hosts: syncline testbed run {made.name} -- COMMAND")
    return 0


def down(which: Sequence[str], *, every: bool) -> int:
    """Takes testbeds down; returns the exit status."""
    from syncline.testbed import kernel, lifecycle, state

    kernel.require()
    if not which and not every:
        raise_errors(error(Code.MISSING_KEY, "no testbed is named", help="syncline testbed down NAME, or --all"))
    names = state.names() if every else [_name(each) for each in which]
    for name in names:
        if lifecycle.down(name):
            say(f"{name} is down")
        elif not every:
            state.require(name)
    return 0


def status(which: str | None, *, as_json: bool) -> int:
    """Lists all testbeds, or the hosts and tenants of one; returns the exit status."""
    from syncline.testbed import screen, state
    from syncline.testbed.traffic import control

    if which is not None:
        known = state.require(_name(which))
        layout = known.now
        tenants = control.states(state.traffic_socket(layout.name)) or []
        if as_json:
            told = {"testbed": layout.as_dict(), "tenants": [tenant.as_dict() for tenant in tenants]}
            show_json({"exit_status": 0, **told, "changed": known.changes()})
        else:
            show(*screen.hosts(layout), *screen.trunks(layout))
            if known.changed:
                show("", *screen.changed(known))
            show(*screen.tenants(layout))
            if os.geteuid() == 0:
                show(*screen.counters(layout, tenants))
            elif layout.traffic:
                say("What tenants have sent is shown to root.")
        return 0
    found = {name: state.find(name) for name in state.names()}
    if as_json:
        up_now = [each.now.as_dict() for each in found.values() if each is not None and each.complete]
        left = [name for name, each in found.items() if each is None or not each.complete]
        show_json({"exit_status": 0, "testbeds": up_now, "left_over": left})
        return 0
    for name, there in found.items():
        if there is not None and there.complete:
            others = f", {screen.changes(len(there.changed))}" if there.changed else ""
            show(f"{name}  {screen.overview(there.layout)}{others}")
        else:
            show(f"{name}  left over; remove it: syncline testbed down {name}")
    if not found:
        say("There is no testbed. Bring one up: syncline testbed up SPEC.yaml")
    return 0


def traffic(which: str, wanted: str, names: Sequence[str], *, as_json: bool, quiet: bool) -> int:
    """Switches tenants of a testbed on or off; returns the exit status."""
    from syncline.testbed import kernel, screen, state
    from syncline.testbed.traffic import control

    if wanted not in ("on", "off"):
        raise_errors(error(Code.BAD_VALUE, "value not allowed", found=shown(wanted), allowed="on or off"))
    kernel.require()
    with state.locked():
        layout = state.require(_name(which)).layout
        tenants = control.switch(layout, state.traffic_socket(layout.name), names, on=wanted == "on")
    if as_json:
        show_json({"exit_status": 0, "tenants": [tenant.as_dict() for tenant in tenants]})
    elif not quiet:
        show(*screen.counters(layout, tenants))
    return 0


def shape(
    which: str,
    targets: Sequence[str],
    common: str | None,
    direction: str | None,
    duration: str | None,
    *,
    restore: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Changes the rates of links of a testbed, or restores them; returns the exit status.

    ``common`` is the rate of targets that have none of their own, as in ``h3=200Mb/s``. With ``duration``, links have
    their former rates afterwards.
    """
    from syncline.testbed import kernel, screen
    from syncline.testbed.shape import change, temporary

    kernel.require()
    choose = _rates(targets, common, direction, restore=restore)
    for_s = None if duration is None else seconds("--for", duration)
    silent = as_json or quiet

    def tell(known: TestbedState) -> None:
        if not silent and known.changed:
            show(*screen.changed(known))
        elif not silent:
            say(f"All links of {known.layout.name} have the rates in the file")

    status = ExitStatus.DONE
    if for_s is None:
        known, _ = change(_name(which), choose)
        tell(known)
    else:
        with temporary(_name(which), choose) as known:
            tell(known)
            try:
                time.sleep(for_s)
            except KeyboardInterrupt:
                status = ExitStatus.INTERRUPTED
        if not silent:
            say("These links have their former rates again")
    if as_json:
        show_json({"exit_status": status, "changed": known.changes()})
    return status


def run(which: str, command: Sequence[str], hosts: str | None, timeout: str | None, sets: Iterable[str]) -> int:
    """Runs a command on the hosts of a testbed; returns the exit status."""
    from syncline.testbed import processes

    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        raise_errors(error(Code.MISSING_KEY, "no command is given", help=f"syncline testbed run {which} -- COMMAND"))
    chosen = None if hosts is None else _ranges(hosts)
    timeout_s = None if timeout is None else seconds("--timeout", timeout)
    order: list[int] = []

    def choose(layout: Layout) -> None:
        order.extend(range(len(layout.hosts)) if chosen is None else _numbers(layout, chosen))

    with _testbed(which, sets, choose, quiet=False) as (layout, _):
        processes.run(layout, command, order, timeout_s=timeout_s)
    return 0


def check(which: str, sets: Iterable[str], save: str | None, *, as_json: bool, quiet: bool) -> int:
    """Measures a testbed, and with ``save`` its host costs; returns the exit status."""
    from syncline.quantity import duration
    from syncline.testbed import check as testing
    from syncline.testbed import costs, state
    from syncline.testbed.traffic import control

    host_costs, unsaved = None, None
    changed: list[dict[str, Any]] = []
    silent = quiet or as_json

    def expect(layout: Layout) -> None:
        whole = testing.require(layout)
        control.require_off(layout, state.traffic_socket(layout.name))
        if save is not None:
            require_writable(save)
        if not silent:
            say(
                f"Measuring takes about {duration(whole)}, or {testing.TRIES} times as long if rates never match "
                "the file."
            )

    with (
        _testbed(which, sets, expect, quiet=silent, traffic=False) as (layout, cautions),
        Waiting(quiet=silent) as progress,
    ):
        if (known := state.find(layout.name)) is not None:
            changed += known.changes()
        found = testing.check(layout, tell=progress)
        if save is not None:
            progress(1.0, "measuring host costs")
            host_costs = costs.measure(layout, found)
    if save is not None and host_costs is not None:
        try:
            host_costs.save(Path(save))
        except SynclineError as problem:
            # Show the measurements even though the costs could not be saved.
            unsaved = problem
    outcome = unsaved.exit_status if unsaved is not None else ExitStatus.DONE if found.holds else ExitStatus.PROBLEM
    if as_json:
        diagnostics = [*cautions, *(unsaved.diagnostics if unsaved is not None else [])]
        whole = {"exit_status": outcome, "name": layout.name, **found.as_dict()}
        whole |= {"changed": changed, "diagnostics": diagnostics}
        show_json(whole | ({} if host_costs is None else {"host_costs": host_costs.as_dict()}))
    else:
        from syncline.testbed.screen import checked

        show(*checked(found, layout, os.cpu_count() or 1, host_costs, len(changed)))
    if unsaved is not None:
        print_diagnostics(unsaved.diagnostics)
    elif save is not None and not as_json:
        say(f"Host costs are in {save}")
    return outcome


@contextlib.contextmanager
def _testbed(
    which: str, sets: Iterable[str], expect: Callable[[Layout], None], *, quiet: bool, traffic: bool = True
) -> Iterator[tuple[Layout, list[Diagnostic]]]:
    """Finds a testbed by its name, or by its file; gives its layout, and the warnings about the file.

    A file's testbed that is not up is brought up for the duration of the context, with the traffic of its tenants if
    ``traffic`` is true. ``expect`` is called before that, and raises if the testbed cannot do what the command needs.
    """
    from syncline.testbed import kernel, lifecycle, state
    from syncline.testbed.layout import layout
    from syncline.testbed.links import with_rates
    from syncline.testbed.spec import read

    kernel.require()
    if not _is_file(which):
        if list(sets):
            raise_errors(error(Code.BAD_VALUE, "--set needs a testbed's file, not its name", key="--set", found=which))
        there = state.require(which)
        expect(there.now)
        yield there.now, []
        return
    request = read(which, overrides(sets, {}))
    wanted = layout(request)
    cautions = _warn(request, wanted, quiet=quiet)
    up_now = state.find(request.name)
    if up_now is not None and up_now.complete:
        state.require_same(up_now, wanted)
        there_now = with_rates(wanted, up_now.changed)
        expect(there_now)
        yield there_now, cautions
        return
    expect(wanted)
    with lifecycle.temporary(request, traffic=traffic) as made:
        yield made, cautions


def _warn(request: TestbedRequest, made: Layout, *, quiet: bool) -> list[Diagnostic]:
    """Warns of what the file asks for and the testbed does not emulate; returns the warnings."""
    from syncline.testbed.fidelity import warnings

    cautions = list(warnings(request, made))
    if not quiet:
        print_diagnostics(cautions)
    return cautions


def _rates(
    targets: Sequence[str], common: str | None, direction: str | None, *, restore: bool
) -> Callable[[TestbedState], dict[Link, int]]:
    """Returns a function that gives the rates of all links to change in a testbed.

    Raises :class:`SynclineError` if rates are missing or not valid; the function raises it if there are no such links.
    """
    from syncline.testbed.links import DIRECTIONS, choose, link_rates

    if direction is not None and direction not in DIRECTIONS:
        allowed = " or ".join(DIRECTIONS)
        raise_errors(
            error(Code.BAD_VALUE, "value not allowed", key="--direction", found=shown(direction), allowed=allowed)
        )
    if not targets and not restore:
        example = "syncline testbed shape NAME h3 --rate 200Mb/s; or restore all links: --restore"
        raise_errors(error(Code.MISSING_KEY, "no link is named", help=example))
    given = [(text, own if equals else common) for text, equals, own in (target.partition("=") for target in targets)]
    rated = [each for each in (common, *(own for _, own in given)) if each is not None]
    if restore and rated:
        message, remedy = "--restore takes no rate: links get those in the file", "restore and change in two calls"
        raise_errors(error(Code.BAD_VALUE, message, key="--restore", found=shown(rated[0]), help=remedy))
    asked = [(text, None if restore else _bits(text, each)) for text, each in given]

    def chosen(known: TestbedState) -> dict[Link, int]:
        in_file = link_rates(known.layout)
        if not asked:
            return {link: in_file[link] for link in known.changed}
        return {
            link: in_file[link] if bits is None else bits
            for text, bits in asked
            for link in choose(known.layout, text, direction)
        }

    return chosen


def _bits(target: str, text: str | None) -> int:
    """Parses the rate of a target, in bits per second."""
    from syncline.testbed.layout import MAX_BITS, MIN_BITS, RATES

    if text is None:
        remedy = f"--rate R is the rate of all targets without their own; or give it one: {target}=200Mb/s"
        raise_errors(error(Code.MISSING_KEY, "no rate is given", key=target, help=remedy))
    bits = rate(target, text)
    if not MIN_BITS <= bits <= MAX_BITS:
        message = "`tc` cannot shape a link to this rate"
        raise_errors(error(Code.BAD_VALUE, message, key=target, found=shown(text), allowed=RATES))
    return bits


def _is_file(which: str) -> bool:
    return "/" in which or which.endswith((".yaml", ".yml", ".json")) or Path(which).is_file()


def _name(which: str) -> str:
    """The name of a testbed that is given by its name or its file."""
    if not _is_file(which):
        return which
    from syncline.testbed.spec import read

    return read(which).name


def _ranges(text: str) -> list[tuple[int, int]]:
    """Parses ``0,4,1`` or ``0-3,8`` into ranges of hosts, each its first and last, in the order of ranks."""
    found = []
    for part in text.split(","):
        # No host has a number of more than 18 digits.
        match = re.fullmatch(r"\s*([0-9]{1,18})(?:-([0-9]{1,18}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            allowed = "such as 0,4,1,5 or 0-3"
            raise_errors(
                error(Code.BAD_VALUE, "not a list of hosts", key="--hosts", found=shown(text), allowed=allowed)
            )
        found.append((first, last))
    return found


def _numbers(layout: Layout, ranges: Iterable[tuple[int, int]]) -> list[int]:
    """The host of each rank."""
    from syncline.testbed import processes

    found: list[int] = []
    for first, last in ranges:
        processes.require_host(layout, last, key="--hosts")
        found += range(first, last + 1)
    if len(found) > processes.MAX_RANKS:
        ranks = f"{len(found)} ranks"
        allowed = f"at most {processes.MAX_RANKS}"
        raise_errors(error(Code.BAD_VALUE, "too many ranks", key="--hosts", found=ranks, allowed=allowed))
    return found
