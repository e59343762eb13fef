"""Assembles the command line. The arguments of a command are imported when it is called, or listed in a help text."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core

GROUPS = {
    "simulate": ("simulate",),
    "scenarios": ("check", "show", "init", "convert"),
    "convert_jobs": ("convert megatron", "convert nemo", "convert bridge", "convert torchtitan"),
    "profile": ("profile",),
    "kernels": ("kernels",),
    "results": ("compare", "explain"),
    "installation": ("doctor", "astra-sim"),
    "estimate": ("estimate",),
    "design": ("design",),
    "probe": ("probe",),
    "group": ("group",),
    "reorder": ("reorder",),
    "validate": ("validate",),
    "calibrate": ("calibrate",),
    "hub": ("hub",),
    "testbed": ("testbed",),
}
"""The commands of each file in :mod:`syncline.cli.arguments`, in the order of the help text."""


class CtrlC(Exception):  # noqa: N818 - nothing is wrong
    """Stands in for a KeyboardInterrupt, which Typer would silently turn into an exit status."""


class _Commands(typer.core.TyperGroup):
    """Imports a command when it is needed. Lets Ctrl-C pass through Typer as :class:`CtrlC`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of the help text."""
        return [name for names in GROUPS.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Makes a command or group; None if there is none of that name."""
        file = next((file for file, names in GROUPS.items() if cmd_name in names), None)
        if file is None:
            return None
        found = typer.main.get_group(import_module(f"syncline.cli.arguments.{file}").app)
        # The file of a group holds the group; any other file holds single commands.
        return found.commands.get(cmd_name, found)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds commands of two words, such as ``convert megatron``, beside that of their first word."""
        two = " ".join(args[:2])
        if any(two in names for names in GROUPS.values()):
            return two, self.get_command(ctx, two), args[2:]
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt as interrupt:
            raise CtrlC from interrupt

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise CtrlC from interrupt


app = typer.Typer(
    cls=_Commands,
    help="Simulate, design and run the communication of distributed training.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command() -> Any:
    """The whole command line."""
    return typer.main.get_command(app)


def _version(value: bool) -> None:
    if value:
        from syncline import _core

        typer.echo(f"syncline {_core.version()}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", "-V", metavar="", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Set up what all commands share."""
