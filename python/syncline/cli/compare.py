"""``syncline compare``."""

from __future__ import annotations

from syncline.cli.streams import console, show, show_json


def compare(a: str, b: str, *, as_json: bool) -> int:
    """Prints what differs between two runs."""
    from syncline.comparison.comparison import compare as compared

    found = compared(a, b)
    if as_json:
        show_json(found.json())
    else:
        from syncline.comparison.screen import screen

        show(screen(found, console().width))
    return 0
