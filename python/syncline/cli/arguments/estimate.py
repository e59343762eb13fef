"""The arguments of ``estimate``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, NoColour, Quiet, Report, Set

app = typer.Typer()


@app.command()
def estimate(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job file, or - for standard input.")],
    set_: Set = None,
    report: Report = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", metavar="", help="Also simulate the job, with contention on the network.")
    ] = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Estimate how long a step of a training job takes, and how much memory it needs.

    Exit status: 0 done, 1 it does not fit into memory, 2 configuration error, 3 unreadable input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.estimate import estimate as call

    return call(job, set_ or [], report=report, simulate=simulate, force=force, as_json=json)
