"""The arguments of ``kernels``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, NoColour, Quiet

app = typer.Typer(
    name="kernels", no_args_is_help=True, help="Measure the kernels of training on a device, and model them."
)


class Device(StrEnum):
    """What to measure."""

    CUDA = "cuda"
    CPU = "cpu"


@app.command()
def measure(
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="The table to write: .csv.")],
    device: Annotated[Device, typer.Option(help="Device to measure: the first GPU, or the processor.")] = Device.CUDA,
    operations: Annotated[
        str,
        typer.Option(
            "--operations",
            metavar="LIST",
            help="Families of operations, comma-separated: gemm, attention, memory, grouped, optimizer, copy, launch, "
            "sustained, layers; or all.",
        ),
    ] = "all",
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", min=1, max=86400, help="Time for everything, in seconds.")
    ] = 480,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="Measure a handful of tiny shapes, to try the command.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Measure the kernels in which training spends its time, and write a table of them. Needs PyTorch.

    Rows are written as they are measured: an interrupted run leaves a table of what it has measured.

    Exit status: 0 done, 2 configuration error, 3 the table cannot be written, 130 Ctrl-C.
    """
    from syncline.cli.commands.kernels import MeasureOptions
    from syncline.cli.commands.kernels import measure as call

    return call(
        MeasureOptions(
            out=out,
            device=device.value,
            operations=operations,
            seconds=seconds,
            quick=quick,
            force=force,
            quiet=quiet,
        )
    )


@app.command()
def fit(
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE...", help="Measured kernels: .csv of `syncline kernels measure`, or .parquet."),
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="The models to write: .json.")],
    accelerator: Annotated[
        str | None,
        typer.Option("--accelerator", metavar="NAME", help="Accelerator of tables that do not name it, such as H100."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Fit models of kernels to measured ones, and write them to a file.

    Exit status: 0 done, 2 configuration error, 3 a table cannot be read or the file cannot be written, 130 Ctrl-C.
    """
    from syncline.cli.commands.kernel_models import FitOptions
    from syncline.cli.commands.kernel_models import fit as call

    return call(FitOptions(tables=tables, out=out, accelerator=accelerator, force=force, quiet=quiet))


@app.command()
def show(
    models: Annotated[
        str, typer.Argument(metavar="MODELS", help="An accelerator, such as H100, or a file of `syncline kernels fit`.")
    ],
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Show the constants of models of kernels, their ranges, and their errors on kernels that were left out.

    Exit status: 0 done, 2 configuration error, 3 the file cannot be read, 130 Ctrl-C.
    """
    from syncline.cli.commands.kernel_models import show as call

    return call(models, as_json=json)
