"""``syncline validate runs``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.cli.commands.options import refuse
from syncline.errors import ExitStatus
from syncline.files import write_whole
from syncline.input.problem import bad_value, cannot_write, raise_errors, require_writable
from syncline.quantity import counted
from syncline.terminal.streams import console, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.validation.checks import Row
    from syncline.validation.prediction import Predict


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Options of ``syncline validate runs``, as the user gives them."""

    file: str | None
    """Rows; None: those of the repository."""
    models: str | None = None
    clusters: str | None = None
    page: str | None = None
    """Where to write the page."""
    figures: str | None = None
    """A file with the figures that must not get worse, or to write."""
    update: bool = False
    """Whether to write ``figures`` instead of comparing with it."""
    held_out: bool = True
    """Whether rows that calibrated constants are predicted by constants that have not seen their model."""
    force: bool = False
    as_json: bool = False
    quiet: bool = False


def runs(options: RunsOptions, predict: Predict | None = None) -> int:
    """Predicts the rows, and prints how far predictions are from measurements; returns the exit status.

    It is :attr:`ExitStatus.PROBLEM` if figures got worse. Without ``predict``, estimates with the package's constants
    count.
    """
    from syncline.validation import compare, load, recorded, validated, worse

    if options.update and options.figures is None:
        refuse({"--update": True}, "needs a file to write", "name it with --figures FILE")
    if options.page is not None:
        _writable_page(options.page, force=options.force)
    if options.figures is not None and options.update:
        require_writable(options.figures)
    inputs = load(options.file, options.models, options.clusters)
    if predict is None:
        predict = _predictor(inputs.rows, held_out=options.held_out)
    found = validated(compare(inputs.rows, predict), inputs.runs.excluded, inputs.explanations)
    worsened: list[str] = []
    if options.figures is not None and not options.update:
        from syncline.input.source import read_file

        worsened = worse(recorded(found), read_file(options.figures))
    status = ExitStatus.PROBLEM if worsened else ExitStatus.DONE
    if options.as_json:
        show_json({"exit_status": int(status), "worse": worsened, "validation": found.as_dict()})
    else:
        from syncline.validation.screen import screen

        show(screen(found, console().width))
    if options.page is not None:
        from syncline.validation.page import page

        _write(options.page, page(found))
    if options.figures is not None and options.update:
        _write(options.figures, recorded(found))
    if not options.quiet:
        for each in (options.page, options.figures if options.update else None):
            if each is not None:
                say(f"Wrote {each}")
    for each in worsened:
        say(f"Worse: {each}")
    return int(status)


def constants(file: str | None, out: str, *, force: bool, quiet: bool) -> int:
    """Fits the constants of training software to measured runs, and writes them; returns the exit status."""
    from syncline.estimate.software import save
    from syncline.validation import load
    from syncline.validation.calibration import calibrated

    require_writable(out, force=force)
    sets = calibrated(load(file).rows)
    try:
        save(sets, out)
    except OSError as problem:
        raise_errors(cannot_write(out, problem))
    if not quiet:
        for name, each in sets.items():
            say(f"{name}: {counted(each.rows, 'row')}")
        say(f"Wrote {out}")
    return 0


def _predictor(rows: Sequence[Row], *, held_out: bool) -> Predict:
    from syncline.estimate.software import shipped
    from syncline.validation.calibration import held_out as left_out
    from syncline.validation.estimates import predictor

    return left_out(rows, shipped(), "megatron") if held_out else predictor()


def _writable_page(path: str, *, force: bool) -> None:
    from syncline.validation.drawing import needed

    if Path(path).suffix.lower() != ".html":
        raise bad_value("not a name of a page", path, allowed="a name that ends in .html")
    needed()
    require_writable(path, force=force)


def _write(path: str, content: str) -> None:
    try:
        write_whole(path, content)
    except OSError as problem:
        raise_errors(cannot_write(path, problem))
