"""The arguments of ``testbed``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Json, NoColour, Quiet, Set

app = typer.Typer(name="testbed", no_args_is_help=True, help="Emulate a cluster on this machine.")


Testbed = Annotated[
    str,
    typer.Argument(
        metavar="NAME|SPEC", help="A testbed that is up; or a file, whose testbed is up only while the command runs."
    ),
]


@app.command()
def up(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A fabric: a testbed's file, or a scenario.")],
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Bring a testbed up: a network namespace for each host, a bridge for each switch, links with their rates.

    Needs root. Exit status: 0 done, 2 configuration error, or no testbed can run here, 3 unreadable input, 130 Ctrl-C.
    """
    from syncline.cli.commands.testbed import up as call

    return call(spec, set_ or [], as_json=json, quiet=quiet)


@app.command()
def run(
    which: Testbed,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="The command to run on each host.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="The hosts of ranks 0, 1, .., such as 0,4,1,5 or 0-3 (default: all hosts)."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="T", help="Stop the command after this time, such as 60s.")
    ] = None,
    set_: Set = None,
) -> int:
    """Run a command on all hosts, one process per host, with the environment variables that torchrun sets.

    The environment also names addresses and interfaces. Needs root.

    Exit status: 0 done, 2 configuration error, 3 unreadable input, 6 a process failed or timed out, 130 Ctrl-C.
    """
    from syncline.cli.commands.testbed import run as call

    return call(which, command or [], hosts, timeout, set_ or [])


@app.command("check")
def check_testbed(
    which: Testbed,
    set_: Set = None,
    save: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also measure host costs, and write them to FILE (.yaml or .json)."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Measure rates and latencies within a rack and across racks, and compare them with the file.

    Needs root. Exit status: 0 they match, 1 they do not, 2 configuration error, 3 a file cannot be read or written,
    6 a host failed, 130 Ctrl-C.
    """
    from syncline.cli.commands.testbed import check as call

    return call(which, set_ or [], save, as_json=json, quiet=quiet)


@app.command()
def status(
    which: Annotated[str | None, typer.Argument(metavar="NAME", help="A testbed whose hosts to list.")] = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """List all testbeds, or the hosts of one testbed and what its tenants have sent.

    Exit status: 0 done, 2 no such testbed, 3 unreadable input.
    """
    from syncline.cli.commands.testbed import status as call

    return call(which, as_json=json)


@app.command()
def traffic(
    which: Annotated[str, typer.Argument(metavar="NAME", help="A testbed that is up, by its name or its file.")],
    state: Annotated[str, typer.Argument(metavar="on|off", help="Whether tenants send.")],
    tenants: Annotated[
        list[str] | None, typer.Argument(metavar="TENANT...", help="Names of tenants (default: all tenants).")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Switch the traffic of emulated tenants off; or on, from the beginning of its schedule.

    Needs root. Exit status: 0 done, 2 no such testbed or tenant, 3 unreadable input, 6 the traffic cannot start.
    """
    from syncline.cli.commands.testbed import traffic as call

    return call(which, state, tenants or [], as_json=json, quiet=quiet)


@app.command()
def down(
    which: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Names or files of testbeds.")] = None,
    all_: Annotated[
        bool, typer.Option("--all", metavar="", help="Remove all testbeds, and what crashed ones left over.")
    ] = False,
) -> int:
    """Remove testbeds, and kill everything that runs on their hosts.

    Needs root. Exit status: 0 done, 2 no such testbed, or this process runs on one of its hosts, 3 unreadable input,
    130 Ctrl-C.
    """
    from syncline.cli.commands.testbed import down as call

    return call(which or [], every=all_)
