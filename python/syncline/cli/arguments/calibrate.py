"""The arguments of ``calibrate``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, NoColour, Quiet

app = typer.Typer()


@app.command()
def calibrate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Output of nccl-tests, such as that of all_reduce_perf.")
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the machine (default: that of the first file)."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="File to write (default: NAME.yaml).")
    ] = None,
    operation: Annotated[
        str | None,
        typer.Option(
            "--operation", metavar="NAME", help="What was measured, if the files do not say it, such as all_reduce."
        ),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", min=2, help="GPUs in all nodes, if the files do not say it.")
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", metavar="N", min=1, help="Nodes, if they are not the hosts that the files name."),
    ] = None,
    nics: Annotated[
        int | None,
        typer.Option("--nics", metavar="N", min=1, help="Network interfaces of a node, for times between nodes."),
    ] = None,
    nic_rate: Annotated[
        str | None, typer.Option("--nic-rate", metavar="RATE", help="Rate of an interface, such as 400Gb/s.")
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Find the constants of a machine from the output of its nccl-tests, and write them to a file.

    Exit status: 0 done, 2 configuration error, 3 unreadable input or unwritable output, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.calibrate import CalibrateOptions
    from syncline.cli.commands.calibrate import calibrate as call

    return call(
        CalibrateOptions(
            files=files,
            name=name,
            out=out,
            operation=operation,
            gpus=gpus,
            nodes=nodes,
            nics=nics,
            nic_rate=nic_rate,
            force=force,
            as_json=json,
            quiet=quiet,
        )
    )
