"""The command line: ``python -m experiments PAPER [FIGURE...]``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from experiments.harness import files, library, show
from experiments.harness.experiment import Experiment
from experiments.harness.processes import LostError
from experiments.harness.store import Store
from experiments.harness.study import Study, study
from experiments.harness.testbed import PATIENCE_S, ROUNDS, Live
from syncline import ExitStatus, SynclineError, terminal

KEPT = "kept"
"""Folder of stored results, which later commands reuse."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command, beside the paper and its figures."""

    network: str | None
    out: Path
    quick: bool
    choices: bool
    jobs: int
    fresh: bool
    plot: bool
    recorded: bool
    record: bool
    patient: bool
    gloo: str | None
    as_json: bool


def run(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="The paper, such as astra2020.")],
    figure: Annotated[
        list[str] | None, typer.Argument(metavar="[FIGURE]...", help="A figure, such as fig09 or 9. Default: all.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option("--network", metavar="MODEL", help="Network model, instead of the scenario's own."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Output folder.")] = Path("runs/experiments"),
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="Fewer points, no alternative readings: for tests.")
    ] = False,
    choices: Annotated[
        bool,
        typer.Option("--choices/--no-choices", metavar="", help="Also judge claims under other readings of the paper."),
    ] = True,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, metavar="N", help="Long runs at a time. Default: one per core.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", metavar="", help="Simulate everything; do not reuse stored results.")
    ] = False,
    plot: Annotated[bool, typer.Option("--plot/--no-plot", metavar="", help="Draw the figures.")] = True,
    recorded: Annotated[
        bool,
        typer.Option("--recorded", metavar="", help="Run nothing on the testbed: show recorded measurements."),
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", metavar="", help="Save the testbed's measurements as the new records.")
    ] = False,
    patient: Annotated[
        bool,
        typer.Option("--patient", metavar="", help="Before each run, wait up to ten minutes for an idle machine."),
    ] = False,
    gloo: Annotated[
        str | None,
        typer.Option("--gloo", metavar="PYTHON", help="A Python with PyTorch and LightGBM, if this one lacks them."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.")] = False,
) -> None:
    """Reproduces a paper's figures and reports which of its claims hold.

    Figures that run on the testbed need root and take minutes; without root they show predictions only. The exit
    status is 0 even if a claim does not hold: that is a result, too.
    """
    try:
        found = library.find(paper, figure or [])
    except library.UnknownError as unknown:
        raise typer.BadParameter(str(unknown)) from None
    if plot and not files.can_draw():
        plot = False
        terminal.say("No pictures: matplotlib is not installed (pip install matplotlib)")
    for experiment in found:
        if network is not None and network not in experiment.networks:
            known = ", ".join(experiment.networks)
            raise typer.BadParameter(f"{experiment.name} does not support the network model {network!r}, only {known}.")
    options = Options(
        network=network,
        out=out,
        quick=quick,
        choices=choices,
        jobs=jobs or os.cpu_count() or 1,
        fresh=fresh,
        plot=plot,
        recorded=recorded,
        record=record,
        patient=patient,
        gloo=gloo,
        as_json=as_json,
    )
    _reproduce(found, options)


def _reproduce(experiments: Sequence[Experiment], options: Options) -> None:
    """Runs the experiments, saves their files, and prints their outcomes."""
    store = Store(options.out / KEPT, options.jobs, options.fresh)
    store.place.mkdir(parents=True, exist_ok=True)
    studies: list[Study] = []
    try:
        for experiment in experiments:
            outcome = _study(experiment, options, store)
            folder = files.save(outcome, options.out, pictures=options.plot)
            studies.append(outcome)
            if not options.as_json:
                terminal.show(*([""] if len(studies) > 1 else []), *show.report(outcome), "")
                terminal.say(f"Files are in {folder}")
    except KeyboardInterrupt:
        terminal.say(
            f"interrupted: {len(studies)} of {len(experiments)} figures are saved, and every finished run; "
            "repeat the command to continue"
        )
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    terminal.say(store.effort.summary())
    if options.as_json:
        terminal.show_json({"experiments": [files.form(each) for each in studies]})
    elif len(studies) > 1:
        terminal.show("", *show.overview(studies))


def _study(experiment: Experiment, options: Options, store: Store) -> Study:
    """Runs one experiment, on the testbed if it needs one; with ``--record``, saves the testbed's measurements."""
    # Quick runs measure once. With --recorded, figures show their recorded measurements.
    rounds, patience = 1 if options.quick else ROUNDS, PATIENCE_S if options.patient else 0.0
    live = Live(lambda what: terminal.say(f"testbed: {what}"), rounds, options.gloo, patience)
    bench = live if experiment.runs and not options.recorded else None
    with terminal.Waiting(quiet=False) as tell:
        outcome = study(
            experiment,
            options.network,
            quick=options.quick,
            choices=options.choices,
            store=store,
            bench=bench,
            tell=tell,
        )
    if bench is not None and options.record:
        live.write(experiment.folder)
    return outcome


def main() -> None:
    """Runs the command line; reports errors as a message and an exit status."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(run)
    try:
        app(prog_name="python -m experiments")
    except SynclineError as wrong:
        terminal.print_diagnostics(wrong.diagnostics)
        raise SystemExit(wrong.exit_status) from None
    except LostError as wrong:
        terminal.say(f"error: {wrong}")
        raise SystemExit(ExitStatus.PEER) from None
    except OSError as wrong:
        terminal.say(f"error: {wrong.filename}: {wrong.strerror}")
        raise SystemExit(ExitStatus.FILE) from None
