"""``syncline validate``."""

from __future__ import annotations

from pathlib import Path

from syncline.input.problem import require_writable
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import console, say, show, show_json


def collectives(
    folder: str | None,
    machines: list[str],
    operations: list[str],
    *,
    left_out: bool,
    simulated: bool,
    plot: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Compares measured collectives with predictions; returns the exit status."""
    from syncline.validation import collectives as rows_and_errors
    from syncline.validation import collectives_drawing, collectives_screen

    if plot is not None:
        collectives_drawing.check(plot)
        require_writable(plot, force=force)
    rows = rows_and_errors.rows_of(Path(folder) if folder is not None else rows_and_errors.FOLDER)
    with Waiting(quiet=quiet or as_json) as progress:
        groups = rows_and_errors.validate(
            rows, machines, operations, left_out=left_out, simulated=simulated, progress=progress
        )
    if plot is not None:
        collectives_drawing.draw(groups, plot)
    if as_json:
        show_json({"exit_status": 0, "groups": [each.as_dict() for each in groups]})
    else:
        show(*collectives_screen.screen(groups, console().width))
    if plot is not None and not quiet:
        say(f"Wrote {plot}")
    return 0
