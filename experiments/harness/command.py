"""The command line: ``python -m experiments PAPER [FIGURE...]``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from experiments.harness import files, library, show
from experiments.harness.processes import LostError
from experiments.harness.store import Store
from experiments.harness.study import Study, study
from experiments.harness.testbed import PATIENCE_S, ROUNDS, Live
from syncline import SynclineError
from syncline.cli import streams
from syncline.cli.progress import Waiting

INTERRUPTED = 130
UNWRITABLE = 3
LOST = 6
"""Exit status where a process was lost."""
KEPT = "kept"
"""Folder of the results that a later command takes."""


def run(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Such as astra2020.")],
    figure: Annotated[
        list[str] | None, typer.Argument(metavar="[FIGURE]...", help="Such as fig09, or 9. Without it, all.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option("--network", metavar="MODEL", help="Network model, in place of the one of the scenarios."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where files go.")] = Path("runs/experiments"),
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="Fewer points, and no other choices: for tests.")
    ] = False,
    choices: Annotated[
        bool, typer.Option("--choices/--no-choices", metavar="", help="Judge claims under other readings too.")
    ] = True,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, metavar="N", help="Long runs at a time. Without it: one a core.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", metavar="", help="Simulate everything, even what an earlier command has.")
    ] = False,
    plot: Annotated[bool, typer.Option("--plot/--no-plot", metavar="", help="Draw the figures.")] = True,
    recorded: Annotated[
        bool,
        typer.Option("--recorded", metavar="", help="Run nothing on the testbed: take what the pages' records have."),
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", metavar="", help="Write what the testbed measures into the pages' records.")
    ] = False,
    patient: Annotated[
        bool,
        typer.Option("--patient", metavar="", help="Wait for an idle machine before each run, ten minutes at most."),
    ] = False,
    gloo: Annotated[
        str | None, typer.Option("--gloo", metavar="PYTHON", help="A Python that has PyTorch, where this one has not.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.")] = False,
) -> None:
    """Runs a paper's figures again, and says which of its claims hold.

    Figures that run on the testbed need root, and take minutes; where that is missing they say so and predict. A claim
    that does not hold is a result: the exit status is 0 all the same.
    """
    try:
        found = library.find(paper, figure or [])
    except library.UnknownError as unknown:
        raise typer.BadParameter(str(unknown)) from None
    if plot and not files.can_draw():
        plot = False
        streams.say("Without pictures: matplotlib is not installed (pip install matplotlib)")
    for experiment in found:
        if network is not None and network not in experiment.networks:
            known = ", ".join(experiment.networks)
            raise typer.BadParameter(f"{experiment.name} is not for the network model {network!r}, only {known}.")
    store = Store(out / KEPT, jobs or os.cpu_count() or 1, fresh)
    store.place.mkdir(parents=True, exist_ok=True)
    studies: list[Study] = []
    try:
        for experiment in found:
            with Waiting(quiet=False) as tell:
                patience = PATIENCE_S if patient else 0.0
                # Quick runs measure once; those that are recorded show what the record has.
                live = Live(lambda what: streams.say(f"testbed: {what}"), 1 if quick else ROUNDS, gloo, patience)
                bench = live if experiment.runs and not recorded else None
                done = study(experiment, network, quick=quick, choices=choices, store=store, bench=bench, tell=tell)
            if bench is not None and record:
                live.write(experiment.folder)
            folder = files.save(done, out, pictures=plot)
            studies.append(done)
            if not as_json:
                streams.show(*([""] if len(studies) > 1 else []), *show.report(done), "")
                streams.say(f"Files are in {folder}")
    except KeyboardInterrupt:
        streams.say(
            f"interrupted: {len(studies)} of {len(found)} figures are kept, and every run that was finished; "
            "the same command goes on from there"
        )
        raise typer.Exit(INTERRUPTED) from None
    streams.say(store.effort.told())
    if as_json:
        streams.show_json({"experiments": [files.form(done) for done in studies]})
    elif len(studies) > 1:
        streams.show("", *show.overview(studies))


def main() -> None:
    """Runs the command line; what is wrong ends in a message and an exit status."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(run)
    try:
        app(prog_name="python -m experiments")
    except SynclineError as wrong:
        streams.complain(wrong.diagnostics)
        raise SystemExit(wrong.exit_status) from None
    except LostError as wrong:
        streams.say(f"error: {wrong}")
        raise SystemExit(LOST) from None
    except OSError as wrong:
        streams.say(f"error: {wrong.filename}: {wrong.strerror}")
        raise SystemExit(UNWRITABLE) from None
