"""The arguments of the commands that concern the installation, or stand in for another program."""

from __future__ import annotations

import typer

from syncline.cli.arguments.shared import Json

app = typer.Typer()


@app.command()
def doctor(json: Json = False) -> int:
    """Check that this installation works, and list what is missing."""
    from syncline.cli.commands.doctor import doctor as call

    return call(as_json=json)


@app.command(
    "astra-sim",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def astra_sim(context: typer.Context) -> int:
    """Run inputs of ASTRA-sim 2: a drop-in replacement that takes the flags of its analytical simulators."""
    from syncline.cli.commands.astra_sim import astra_sim as call

    return call(context.args)
