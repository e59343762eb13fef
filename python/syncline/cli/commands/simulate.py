"""``syncline simulate``."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline.cli.commands.folder import chosen, of_name
from syncline.cli.commands.options import overrides
from syncline.config.load import load
from syncline.errors import ExitStatus, Interrupted
from syncline.terminal.progress import Progress
from syncline.terminal.streams import ascii_only, console, print_diagnostics, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from syncline.config.load import Loaded
    from syncline.errors import Diagnostic
    from syncline.result import Result


_STATUSES = {
    "finished": ExitStatus.DONE,
    "limit_reached": ExitStatus.LIMIT,
    "interrupted": ExitStatus.INTERRUPTED,
}


@dataclass(frozen=True, kw_only=True)
class SimulateOptions:
    """Options of ``syncline simulate``."""

    scenario: str
    sets: Sequence[str]
    """The changes of ``--set``."""
    changes: Mapping[str, tuple[str, str | None]]
    """Other flags that change a value of the scenario: the key's path, and the value, or None without the flag."""
    out: str | None
    seeds: int | None
    as_json: bool
    quiet: bool
    verbose: bool

    @property
    def without_progress(self) -> bool:
        """Whether no progress is shown."""
        return self.quiet or self.as_json


def simulate(options: SimulateOptions) -> int:
    """Simulates a scenario, saves the results, prints the answer; returns the exit status."""
    from syncline.api import run

    loaded = load(options.scenario, overrides(options.sets, options.changes))
    if options.seeds is not None:
        return _several(loaded, options.seeds, options)
    folder = chosen(options.out, of_name(loaded.name))
    interrupted = False
    early: list[Diagnostic] = []

    def warn(found: str) -> None:
        """Prints warnings before the simulation starts, so that the user can stop a long run."""
        early.extend(json.loads(found))
        if not options.quiet:
            print_diagnostics(map(loaded.origins.placed, early))

    with _second_interrupt_kills(), Progress(quiet=options.without_progress) as progress:
        try:
            result = run(loaded, progress, warn)
        except Interrupted as stopped:
            result, interrupted = stopped.result, True
    files = result.save(folder)
    status = ExitStatus.INTERRUPTED if interrupted else _STATUSES[result.summary.ended]
    if options.as_json:
        show_json(_json(result, folder, status))
    else:
        show(_answer(result))
    if not options.quiet:
        print_diagnostics(loaded.origins.placed(each) for each in result.warnings if each not in early)
        say(f"Results are in {folder}")
        if options.verbose:
            say(f"  {', '.join(files)}")
            say(f"  {result.summary.events} events, {result.summary.messages} messages")
    return status


def _several(loaded: Loaded, seeds: int, options: SimulateOptions) -> int:
    """Simulates once for each seed; returns the exit status."""
    from syncline.ensembles.folder import SUMMARY_FILE, TABLE_FILE
    from syncline.ensembles.runs import run
    from syncline.ensembles.screen import answer

    folder = chosen(options.out, of_name(f"{loaded.name}-seeds"))
    with _second_interrupt_kills(), Progress(quiet=options.without_progress) as progress:
        made = run(loaded, seeds, out=folder, progress=progress)
    statuses = [_STATUSES[each.ended] for each in made.summaries]
    status = ExitStatus.INTERRUPTED if made.interrupted else max(statuses, default=ExitStatus.DONE)
    diagnostics = [loaded.origins.placed(each) for each in made.warnings]
    if options.as_json:
        show_json({"exit_status": status, "folder": folder, "ensemble": made.as_dict(), "diagnostics": diagnostics})
    else:
        show(answer(made))
    if not options.quiet:
        print_diagnostics(diagnostics)
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

            os._exit(ExitStatus.INTERRUPTED)
        seen = True
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
