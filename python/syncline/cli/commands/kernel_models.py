"""``syncline kernels fit`` and ``syncline kernels show``."""

from __future__ import annotations

from dataclasses import dataclass

from syncline.files import write_whole
from syncline.input.problem import bad_value, cannot_write, raise_errors, require_writable
from syncline.terminal.streams import console, say, show_json
from syncline.terminal.streams import show as print_parts


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of ``syncline kernels fit``, as the user gives them."""

    tables: list[str]
    out: str
    accelerator: str | None
    force: bool
    quiet: bool


def fit(options: FitOptions) -> int:
    """Fits models, and writes their file; returns the exit status."""
    from syncline.kernels.fitting import document, packages, rows
    from syncline.kernels.models import load

    packages.require()
    if not options.out.endswith(".json"):
        raise bad_value("not a valid name for a file of models", options.out, allowed="a name that ends in .json")
    require_writable(options.out, force=options.force)
    measured = rows.read(options.tables, options.accelerator)
    text = document.fit(measured, (lambda _: None) if options.quiet else say)
    try:
        write_whole(options.out, text)
    except OSError as problem:
        raise_errors(cannot_write(options.out, problem))
    # Read it back: whoever uses it will.
    load(options.out)
    if not options.quiet:
        say(f"Wrote {options.out}")
    return 0


def show(models: str, *, as_json: bool) -> int:
    """Shows models; returns the exit status."""
    from syncline.kernels.models import load
    from syncline.kernels.screen import about, screen

    found = load(models)
    if as_json:
        show_json({"exit_status": 0, "models": about(found)})
    else:
        print_parts(screen(found, console().width))
    return 0
