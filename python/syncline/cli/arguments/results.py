"""The arguments of the commands that compare and explain results."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Json, NoColour

app = typer.Typer()


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The folder of a run.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The folder of another run.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="Also write the comparison to FILE, as HTML.")
    ] = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Explain why two runs differ: which part of a step, which layers and phases, and what was changed.

    Exit status: 0 done, 2 the runs cannot be compared, 3 the results cannot be read or the page cannot be written.
    """
    from syncline.cli.commands.compare import compare as call

    return call(a, b, out, as_json=json)


@app.command()
def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|COLUMN|CODE",
            help="The folder of a run, a name in the results such as queue_delay_s, or an error code such as SL0104.",
        ),
    ],
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Explain a run in sentences, a column or key of its results, or an error code.

    Exit status: 0 done, 2 unknown name, 3 the results cannot be read.
    """
    from syncline.cli.commands.explain import explain as call

    return call(what, as_json=json)
