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
    which: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A testbed whose hosts and links to list.")
    ] = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """List all testbeds, or the hosts and links of one testbed and what its tenants have sent.

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
def shape(
    which: Annotated[str, typer.Argument(metavar="NAME", help="A testbed that is up, by its name or its file.")],
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET[=R]...",
            help="A host (h3), an interface (h3.eth0), the uplinks of a rack (rack1), or a link (leaf0-spine0); "
            "with a rate of its own, such as h3=200Mb/s.",
        ),
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="R", help="Rate of the targets without their own, such as 200Mb/s.")
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(
            "--direction", metavar="out|in", help="Change only links from the targets, or to them (default: both)."
        ),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore", metavar="", help="Give the targets the rates in the file; without targets, all links."
        ),
    ] = False,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="T", help="Wait for this time, such as 10s, or for Ctrl-C; then undo the change."
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Change the rates of links while a testbed is up, without dropping queued packets.

    Needs root. Exit status: 0 done, 2 configuration error, or no such testbed or link, 3 unreadable input, 130 Ctrl-C.
    """
    from syncline.cli.commands.testbed import shape as call

    return call(which, targets or [], rate, direction, for_, restore=restore, as_json=json, quiet=quiet)


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
