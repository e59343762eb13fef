"""Arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.terminal.streams import no_colour


def _no_colour(value: bool) -> None:
    if value:
        no_colour()


Scenario = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A scenario file, - for standard input, or the folder of a run.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a value of the input file, such as fabric.dims.2.rate=50GB/s. May be repeated.",
    ),
]
Network = Annotated[
    str | None, typer.Option("--network", metavar="MODEL", help="Network model: analytical, queued, flow or packet.")
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print the output as one JSON object.")]
NoColour = Annotated[
    bool, typer.Option("--no-color", metavar="", callback=_no_colour, expose_value=False, help="Print without colours.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print only the result and errors.")]
Seed = Annotated[
    int,
    typer.Option("--seed", metavar="N", min=0, max=2**31 - 1, help="Seed of random numbers: another may find more."),
]
Measurements = Annotated[
    str,
    typer.Argument(
        metavar="MEASUREMENTS",
        help="Measurements between hosts: .parquet of `syncline probe`, or .csv of pairs or a matrix.",
    ),
]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Replace a file that already exists.")]
Report = Annotated[
    str | None, typer.Option("--report", metavar="FILE", help="Write a page with the step in detail: .html.")
]
