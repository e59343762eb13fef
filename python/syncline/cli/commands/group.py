"""``syncline group``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncline.grouping.packages import needed
from syncline.input.problem import bad_value, require_writable
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import console, say, show, show_json


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """Options of ``syncline group``, as the user gives them."""

    measurements: str
    groups: str
    balance: float | None
    dimensions: int
    alpha: float
    heights: bool
    by: Literal["rtt", "rate"]
    seed: int
    out: str | None
    force: bool
    plot: str | None
    as_json: bool
    quiet: bool


def group(options: GroupOptions) -> int:
    """Finds groups, prints them, and writes what is asked for; returns the exit status."""
    needed("numpy", "numpy")
    from syncline.distances import read
    from syncline.grouping import drawing, files
    from syncline.grouping.search import Settings, find

    settings = Settings(
        groups=_count(options.groups),
        balance=options.balance,
        dimensions=options.dimensions,
        alpha=options.alpha,
        heights=options.heights,
        by=options.by,
        seed=options.seed,
    )
    if options.plot is not None:
        drawing.check(options.plot)
        require_writable(options.plot, force=options.force)
    if options.out is not None:
        require_writable(options.out, force=options.force)
    measured = read(options.measurements)
    with Waiting(quiet=options.quiet or options.as_json) as progress:
        found = find(measured, settings, progress)
    if options.out is not None:
        files.save(found, options.out)
    if options.plot is not None:
        drawing.draw(found, options.plot)
    if options.as_json:
        show_json({"exit_status": 0, "grouping": found.as_dict()})
    else:
        from syncline.grouping.screen import screen

        show(screen(found, console().width))
    if not options.quiet:
        for file in (options.out, options.plot):
            if file is not None:
                say(f"Wrote {file}")
    return 0


def _count(text: str) -> int | Literal["auto", "sqrt"]:
    if text == "auto":
        return "auto"
    if text == "sqrt":
        return "sqrt"
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise bad_value("not a valid number of groups", text, allowed="a whole number, auto or sqrt")
    return int(text)
