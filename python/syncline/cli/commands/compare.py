"""``syncline compare``."""

from __future__ import annotations

from syncline.input.problem import cannot_write, raise_errors
from syncline.terminal.streams import console, say, show, show_json


def compare(a: str, b: str, out: str | None, *, as_json: bool) -> int:
    """Prints what differs between two runs, and writes it to the HTML page ``out`` if given."""
    from syncline.comparison.comparison import compare as compared

    found = compared(a, b)
    if out is not None:
        try:
            found.save(out)
        except OSError as problem:
            raise_errors(cannot_write(out, problem))
    if as_json:
        show_json(found.json())
    else:
        from syncline.comparison.screen import screen

        show(screen(found, console().width))
    if out is not None:
        say(f"Wrote the comparison to {out}")
    return 0
