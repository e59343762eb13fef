"""``syncline validate runs``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.cli.commands.options import refuse
from syncline.cli.commands.pages import check_page, write_page
from syncline.codes import Code
from syncline.errors import ExitStatus
from syncline.input.node import Mark, Text
from syncline.input.problem import cannot_write, error, raise_errors, require_writable
from syncline.quantity import counted
from syncline.terminal.streams import console, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.estimate import Software
    from syncline.validation.checks import Row
    from syncline.validation.prediction import Predict

    Made = dict[tuple[str, str, bool], Software]


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Options of ``syncline validate runs``, as the user gives them."""

    file: str | None
    """Rows; None: those of the repository."""
    models: str | None = None
    clusters: str | None = None
    report: str | None = None
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
    from syncline.validation import alike, compare, load, recorded, validated, worse

    if options.update and options.figures is None:
        refuse({"--update": True}, "needs a file to write", "name it with --figures FILE")
    if options.report is not None:
        _writable_page(options.report, force=options.force)
    before = None
    if options.figures is not None:
        if options.update:
            require_writable(options.figures)
        else:
            before = _figures(options.figures)
    inputs = load(options.file, options.models, options.clusters)
    made: Made = {}
    chosen = predict or _predictor(inputs.rows, made, held_out=options.held_out)
    found = validated(compare(inputs.rows, chosen), inputs.runs.excluded, inputs.remarks)
    kept = ""
    if options.figures is not None:
        unseen = predict or _unseen(inputs.rows, made)
        kept = recorded(found, alike(compare(inputs.rows, unseen)))
    worsened = worse(kept, before) if before is not None else []
    status = ExitStatus.PROBLEM if worsened else ExitStatus.DONE
    if options.as_json:
        show_json({"exit_status": int(status), "worse": worsened, "validation": found.as_dict()})
    else:
        from syncline.validation.screen import screen

        show(screen(found, console().width))
    if options.report is not None:
        from syncline.validation.page import page

        write_page(options.report, page(found))
    if options.figures is not None and options.update:
        write_page(options.figures, kept)
    if not options.quiet:
        for each in (options.report, options.figures if options.update else None):
            if each is not None:
                say(f"Wrote {each}")
    for each in worsened:
        say(f"Worse: {each}")
    return int(status)


def constants(file: str | None, out: str, *, force: bool, quiet: bool) -> int:
    """Fits the constants of training software to measured runs, and writes them; returns the exit status."""
    from syncline.estimate.software import save
    from syncline.validation import load
    from syncline.validation.calibrated import calibrated
    from syncline.validation.calibration import CALIBRATIONS

    require_writable(out, force=force)
    sets = calibrated(load(file).rows)
    if not any(each.rows for each in sets.values()):
        names = ", ".join(sorted({each.rows for each in CALIBRATIONS.values() if each.rows}))
        message, help = "no row may calibrate constants", f"write one of {names} into the column `calibrates`"
        raise_errors(error(Code.BAD_VALUE, message, help=help))
    try:
        save(sets, out)
    except OSError as problem:
        raise_errors(cannot_write(out, problem))
    if not quiet:
        for name, each in sets.items():
            experts = f", {counted(each.expert_rows, 'row')} with experts" if each.expert_rows else ""
            say(f"{name}: {counted(each.rows, 'row')}{experts}")
        say(f"Wrote {out}")
    return 0


def _predictor(rows: Sequence[Row], made: Made, *, held_out: bool) -> Predict:
    from syncline.estimate import shipped
    from syncline.validation.calibrated import held_out as left_out
    from syncline.validation.estimates import predictor

    # A file of one's own may have rows of one model alone.
    return left_out(rows, shipped(), {"megatron"}, made, known=True) if held_out else predictor()


def _unseen(rows: Sequence[Row], made: Made) -> Predict:
    """The predictor of which error bars are made: no constant has seen the model of a row."""
    from syncline.estimate import shipped
    from syncline.validation.calibrated import held_out
    from syncline.validation.calibration import CALIBRATIONS

    return held_out(rows, shipped(), CALIBRATIONS, made)


def _figures(path: str) -> str:
    """The text of a file of figures.

    :raises SynclineError: it cannot be read, or holds no figures.
    """
    from syncline.input.source import read_file

    text = read_file(path)
    try:
        groups = json.loads(text)
    except (ValueError, RecursionError):
        groups = None
    if not isinstance(groups, dict) or not groups or not all(map(_is_group, groups.values())):
        help = "write one with --figures FILE --update"
        raise_errors(error(Code.BAD_SYNTAX, "not a file of figures", mark=Mark(Text(path, ()), 0, 0, 0), help=help))
    return text


def _is_group(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, int | float) for each in value.values())


def _writable_page(path: str, *, force: bool) -> None:
    from syncline.validation.drawing import needed

    check_page(path, force=force)
    needed()
