"""``syncline simulate``."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from syncline.cli.commands.folder import chosen, of_name
from syncline.cli.commands.options import overrides
from syncline.cli.guard import INTERRUPTED
from syncline.config.load import load
from syncline.errors import Interrupted
from syncline.terminal.progress import Progress
from syncline.terminal.streams import ascii_only, complain, console, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType

    from syncline.config.load import Loaded
    from syncline.errors import Diagnostic
    from syncline.result import Result


_STATUSES = {"finished": 0, "limit_reached": 5, "interrupted": INTERRUPTED}


def simulate(
    scenario: str,
    sets: Iterable[str],
    options: Mapping[str, tuple[str, str | None]],
    out: str | None,
    *,
    seeds: int | None = None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Simulates a scenario, saves the results, prints the answer; returns the exit status."""
    from syncline.api import run

    loaded = load(scenario, overrides(sets, options))
    if seeds is not None:
        return _several(loaded, seeds, chosen(out, of_name(f"{loaded.name}-seeds")), as_json=as_json, quiet=quiet)
    folder = chosen(out, of_name(loaded.name))
    interrupted = False
    told: list[Diagnostic] = []

    def warn(found: str) -> None:
        """Prints warnings before the simulation starts, so that the user can stop a long run."""
        told.extend(json.loads(found))
        if not quiet:
            complain(map(loaded.origins.placed, told))

    with _second_interrupt_kills(), Progress(quiet=quiet or as_json) as progress:
        try:
            result = run(loaded, progress, warn)
        except Interrupted as stopped:
            result, interrupted = stopped.result, True
    files = result.save(folder)
    status = INTERRUPTED if interrupted else _STATUSES[result.summary.ended]
    if as_json:
        show_json(_json(result, folder, status))
    else:
        show(_answer(result))
    if not quiet:
        complain(loaded.origins.placed(each) for each in result.warnings if each not in told)
        say(f"Results are in {folder}")
        if verbose:
            say(f"  {', '.join(files)}")
            say(f"  {result.summary.events} events, {result.summary.messages} messages")
    return status


def _several(loaded: Loaded, seeds: int, folder: str, *, as_json: bool, quiet: bool) -> int:
    """Simulates once for each seed; returns the exit status."""
    from syncline.ensembles.folder import SUMMARY_FILE, TABLE_FILE
    from syncline.ensembles.runs import run
    from syncline.ensembles.screen import answer

    with _second_interrupt_kills(), Progress(quiet=quiet or as_json) as progress:
        made = run(loaded, seeds, out=folder, progress=progress)
    statuses = [_STATUSES[each.ended] for each in made.summaries]
    status = INTERRUPTED if made.interrupted else max(statuses, default=0)
    if as_json:
        told = [loaded.origins.placed(each) for each in made.warnings]
        show_json({"exit_status": status, "folder": folder, "ensemble": made.as_dict(), "diagnostics": told})
    else:
        show(answer(made))
    if not quiet:
        complain(loaded.origins.placed(each) for each in made.warnings)
        say(f"Results are in {folder}: {SUMMARY_FILE}, {TABLE_FILE}, and a folder for each seed")
    return status


def _answer(result: Result) -> Any:
    from syncline.report.terminal.answer import answer

    return answer(result, console().width, ascii_only=ascii_only(sys.stdout))


def _json(result: Result, folder: str, status: int) -> dict[str, Any]:
    return {
        "exit_status": status,
        "folder": folder,
        "summary": result.summary.as_dict(),
        "diagnostics": result.warnings,
    }


@contextmanager
def _second_interrupt_kills() -> Iterator[None]:
    """Within it, a first Ctrl-C stops the simulation and keeps partial results; a second one ends the process."""
    seen = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            sys.stderr.write("\ninterrupted twice: no results were saved\n")
            sys.stderr.flush()
            import os

            os._exit(INTERRUPTED)
        seen = True
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
