"""The arguments of the commands that check, show, write and convert scenarios."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, Network, NoColour, Quiet, Scenario, Set

app = typer.Typer()


class Part(StrEnum):
    """The parts of a scenario that ``show`` can print."""

    fabric = "fabric"
    workload = "workload"
    plan = "plan"


@app.command()
def check(
    scenarios: Annotated[list[str], typer.Argument(metavar="SCENARIO...", help="Scenario files.")],
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """List every error in scenarios, without simulating them.

    Exit status: 0 no errors, 1 errors, 3 a file cannot be read.
    """
    from syncline.cli.commands.check import check as call

    return call(scenarios, set_ or [], as_json=json, quiet=quiet)


@app.command()
def show(
    part: Annotated[Part, typer.Argument(metavar="PART", help="The part to show: fabric, workload or plan.")],
    scenario: Scenario,
    network: Network = None,
    set_: Set = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write a picture of the fabric to FILE, as SVG.")
    ] = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """List and draw a part of a scenario: its fabric, its workload, or the plans of its collectives."""
    from syncline.cli.commands.show import show as call

    return call(part.value, scenario, set_ or [], network, svg, as_json=json)


@app.command()
def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The scenario's name; the file is NAME.yaml.")
    ] = "scenario",
    template: Annotated[
        str,
        typer.Option(
            "--template",
            "-t",
            metavar="TEMPLATE",
            help="The template to copy: all-reduce-3d, dlrm, resnet50-torus or transformer-hybrid.",
        ),
    ] = "resnet50-torus",
    list_: Annotated[bool, typer.Option("--list", metavar="", help="List the templates.")] = False,
    force: Force = False,
) -> int:
    """Write a scenario to start from, and the JSON schema that lets editors complete it."""
    from syncline.cli.commands.init import init as call

    return call(name, template, listing=list_, force=force)


@app.command()
def convert(
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help="A scenario, a table in a run's folder, a plan or an ASTRA-sim 1 workload."),
    ],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; its ending selects the format.")],
    dims: Annotated[
        str | None,
        typer.Option(
            metavar="MxN..", help="For an ASTRA-sim 1 workload: sizes of the dimensions, lowest first, such as 2x4x4."
        ),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="For an ASTRA-sim 1 workload: number of iterations.")
    ] = None,
    force: Force = False,
) -> int:
    """Convert a scenario, a table of a run, a plan or an ASTRA-sim 1 workload into another format, such as Chakra."""
    from syncline.cli.commands.convert import convert as call

    return call(source, target, dims, iterations, force=force)
