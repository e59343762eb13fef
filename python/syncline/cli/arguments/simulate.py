"""The arguments of ``simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syncline.cli.arguments.shared import Json, Network, NoColour, Quiet, Scenario, Set

app = typer.Typer()


def machine_at(name: str | None) -> str | None:
    """The name of a machine, or the absolute path of its file: paths in scenarios are relative to the scenario."""
    return name if name is None or not name.endswith((".yaml", ".yml")) else Path(name).absolute().as_posix()


@app.command()
def simulate(
    scenario: Scenario,
    network: Network = None,
    nccl: Annotated[
        str | None,
        typer.Option(
            metavar="MACHINE",
            help="Carry out collectives as NCCL on this machine, such as h100-sxm, or that of a file by `calibrate`.",
        ),
    ] = None,
    set_: Set = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results (default: runs/NAME).")
    ] = None,
    json: Json = False,
    max_events: Annotated[str | None, typer.Option(metavar="N", help="Stop after N simulated events.")] = None,
    max_sim_time: Annotated[
        str | None, typer.Option(metavar="T", help="Stop after simulated time T, such as 10ms.")
    ] = None,
    max_wall: Annotated[
        str | None, typer.Option(metavar="T", help="Stop after wall-clock time T, such as 60s.")
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Seed of all random choices (default: 0).")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Simulate with N seeds, counting up from --seed, and print median and range."),
    ] = None,
    no_symmetry: Annotated[
        bool,
        typer.Option(
            "--no-symmetry", metavar="", help="Simulate every rank and iteration, even those that equal others."
        ),
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", metavar="", help="Do not write report.html.")] = False,
    quiet: Quiet = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", metavar="", help="Print more details of the run.")
    ] = False,
    no_color: NoColour = False,
) -> int:
    """Simulate a scenario: step time, exposed communication, bottleneck.

    Writes the results into a folder.

    Exit status: 0 done, 2 configuration error, 3 unreadable input, 4 deadlock, 5 limit reached, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.simulate import SimulateOptions
    from syncline.cli.commands.simulate import simulate as call

    changes = {
        "--network": ("network", network),
        "--nccl": ("collectives.nccl", machine_at(nccl)),
        "--max-events": ("limits.events", max_events),
        "--max-sim-time": ("limits.sim_time", max_sim_time),
        "--max-wall": ("limits.wall", max_wall),
        "--seed": ("seed", seed),
        "--no-symmetry": ("symmetry", "false" if no_symmetry else None),
        "--no-report": ("report", "false" if no_report else None),
    }
    return call(
        SimulateOptions(
            scenario=scenario,
            sets=set_ or [],
            changes=changes,
            out=out,
            seeds=seeds,
            as_json=json,
            quiet=quiet,
            verbose=verbose,
        )
    )
