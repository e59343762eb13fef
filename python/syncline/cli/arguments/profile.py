"""The arguments of ``profile``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Quiet

app = typer.Typer()


@app.command()
def profile(
    factory: Annotated[
        str, typer.Argument(metavar="PKG:FACTORY", help="A function or class that returns a PyTorch module.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="The table to write: .yaml or .csv.")],
    argument: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An argument of the factory. May be repeated.")
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="SHAPE",
            help="Shape of one sample of an input, such as 3x224x224 or 128:int64. Give it once per input, in order.",
        ),
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Number of samples in an iteration (default: 32).")] = None,
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="Where to measure: cpu, cuda or cuda:N.")
    ] = "cpu",
    repeats: Annotated[
        int, typer.Option(min=1, max=10**6, help="Number of timed runs of each pass of each layer.")
    ] = 10,
    warm_up: Annotated[int, typer.Option(min=0, max=10**6, help="Number of untimed runs before the timed ones.")] = 2,
    quiet: Quiet = False,
) -> int:
    """Measure the layers of a PyTorch module, and write a table of times for the compute model `table`.

    Exit status: 0 done, 2 configuration error, 3 the table cannot be written, 130 Ctrl-C.
    """
    from syncline.cli.commands.profile import ProfileOptions
    from syncline.cli.commands.profile import profile as call

    return call(
        ProfileOptions(
            factory=factory,
            out=out,
            arguments=argument or [],
            inputs=input_ or [],
            batch=batch,
            device=device,
            repeats=repeats,
            warm_up=warm_up,
            quiet=quiet,
        )
    )
