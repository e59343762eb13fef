"""The arguments of ``group``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from syncline.cli.arguments.shared import Force, Json, Measurements, NoColour, Quiet, Seed

app = typer.Typer()


@app.command()
def group(
    measurements: Measurements,
    groups: Annotated[
        str, typer.Option("--groups", metavar="K", help="Number of groups: a number, auto, or sqrt of the hosts.")
    ] = "auto",
    balance: Annotated[
        float | None,
        typer.Option(
            "--balance",
            metavar="X",
            help="How far sizes may be from equal ones: 0.25 is 25 % (default: any with auto).",
        ),
    ] = None,
    dimensions: Annotated[int, typer.Option("--dimensions", metavar="D", help="Dimensions of the embedding.")] = 16,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="A", help="Exponent of embedded distances, from 1 to 2.")
    ] = 1.0,
    heights: Annotated[
        bool, typer.Option("--heights", metavar="", help="Hosts have delays of their own, such as slow network stacks.")
    ] = False,
    by: Annotated[Literal["rtt", "rate"], typer.Option("--by", help="Group by round trips, or by rates.")] = "rtt",
    seed: Seed = 0,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="Write the groups: a YAML file.")
    ] = None,
    force: Force = False,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw measurements and hosts: .svg or .png.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Find which hosts share a rack, from measured round trips.

    Exit status: 0 done, with or without groups; 2 configuration, 3 input or output, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.group import GroupOptions
    from syncline.cli.commands.group import group as call

    return call(
        GroupOptions(
            measurements=measurements,
            groups=groups,
            balance=balance,
            dimensions=dimensions,
            alpha=alpha,
            heights=heights,
            by=by,
            seed=seed,
            out=out,
            force=force,
            plot=plot,
            as_json=json,
            quiet=quiet,
        )
    )
