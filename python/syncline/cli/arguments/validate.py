"""The arguments of ``validate``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, NoColour, Quiet

app = typer.Typer(name="validate", no_args_is_help=True, help="Compare predictions with measurements.")


@app.callback()
def _group() -> None:
    """Compare predictions with measurements."""


@app.command()
def collectives(
    machines: Annotated[
        list[str] | None, typer.Option("--machine", "-m", metavar="NAME", help="Only this machine. May be repeated.")
    ] = None,
    operations: Annotated[
        list[str] | None,
        typer.Option("--operation", metavar="NAME", help="Only this operation, such as all_reduce. May be repeated."),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="DIR", help="Folder with measured rows (default: validation/collectives)."),
    ] = None,
    left_out: Annotated[
        bool,
        typer.Option(
            "--left-out/--no-left-out", help="Also calibrate without half of the sizes, and without a number of GPUs."
        ),
    ] = True,
    simulated: Annotated[
        bool, typer.Option("--simulated", metavar="", help="Also simulate each call with the constants of its machine.")
    ] = False,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw measured and predicted times: .svg or .png.")
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Compare measured collectives with predictions: in sample, with sizes left out, with numbers of GPUs left out.

    Exit status: 0 done, 2 configuration error, 3 unreadable input or unwritable output, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.validate import collectives as call

    return call(
        rows,
        machines or [],
        operations or [],
        left_out=left_out,
        simulated=simulated,
        plot=plot,
        force=force,
        as_json=json,
        quiet=quiet,
    )


@app.command()
def runs(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Measured runs: .csv (default: validation/runs.csv)."),
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Write a page with plots: .html.")
    ] = None,
    figures: Annotated[
        str | None,
        typer.Option("--figures", metavar="FILE", help="Exit with status 1 if a figure is worse than in this file."),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", metavar="", help="Write the file of --figures instead of comparing with it.")
    ] = False,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out/--in-sample", help="Fit the constants of Megatron again for each model, without its own rows."
        ),
    ] = True,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Compare measured training runs with predictions, by groups.

    Exit status: 0 done, 1 a figure got worse, 2 configuration error, 3 unreadable input or unwritable output, 70 bug,
    130 Ctrl-C.
    """
    from syncline.cli.commands.validate_runs import RunsOptions
    from syncline.cli.commands.validate_runs import runs as call

    return call(
        RunsOptions(
            file=file,
            report=report,
            figures=figures,
            update=update,
            held_out=held_out,
            force=force,
            as_json=json,
            quiet=quiet,
        )
    )


@app.command()
def constants(
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="The file of constants to write: .yaml.")],
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Measured runs: .csv (default: validation/runs.csv)."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Fit the constants of training software to measured runs, and write them.

    Exit status: 0 done, 2 configuration error, 3 unreadable input or unwritable output, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.validate_runs import constants as call

    return call(file, out, force=force, quiet=quiet)
