"""The arguments of ``design``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Json, NoColour, Quiet, Set

app = typer.Typer(name="design", no_args_is_help=True, help="Search for a better cluster.")


@app.command()
def bandwidth(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A file with the jobs, shapes and budget.")],
    set_: Set = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the results (default: runs/design-NAME)."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Divide a budget among the dimensions of a fabric: bandwidth, dollars, or both.

    Exit status: 0 done, 1 no solution, 2 configuration error, 3 unreadable input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.design import bandwidth as call

    return call(spec, set_ or [], out, as_json=json, quiet=quiet)


@app.command()
def joint(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A file with the model, servers and links.")],
    set_: Set = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the results (default: runs/design-NAME)."),
    ] = None,
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate/--no-simulate",
            help="Simulate the answer on its links and routes (the default; `--no-simulate` skips it).",
        ),
    ] = True,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Find a parallelisation strategy and a topology of direct links together, and compare the result with a fat-tree.

    Exit status: 0 done, 1 no strategy fits into memory, 2 configuration, 3 input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.design import joint as call

    return call(spec, set_ or [], out, with_simulation=simulate, as_json=json, quiet=quiet)
