"""``syncline estimate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.cli.commands.options import overrides
from syncline.errors import ExitStatus
from syncline.terminal.streams import console, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterable


def estimate(path: str, sets: Iterable[str], *, as_json: bool) -> int:
    """Estimates the job of a file, and prints what was found; returns the exit status."""
    from syncline.jobs import estimate as estimated
    from syncline.jobs import read_job
    from syncline.jobs.screen import as_dict, screen

    found = estimated(read_job(path, overrides(sets, {})))
    status = ExitStatus.DONE if found.fits else ExitStatus.PROBLEM
    if as_json:
        show_json({"exit_status": int(status), "estimate": as_dict(found)})
    else:
        show(screen(found, console().width))
    return int(status)
