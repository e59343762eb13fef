"""The arguments of ``reorder``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, Measurements, NoColour, Quiet, Seed, Set

app = typer.Typer()


@app.command()
def reorder(
    measurements: Measurements,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="All-reduce to order ranks for, by its closed form: ring, halving_doubling, double_binary_tree or "
            "bcube(base=B) (default: ring).",
        ),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan", metavar="PLAN", help="All-reduce to order ranks for, by simulations: any algorithm or plan file."
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option("--scenario", metavar="FILE", help="Job to order ranks for, by simulations: a scenario file."),
    ] = None,
    set_: Set = None,
    bytes_: Annotated[
        str | None,
        typer.Option("--bytes", metavar="SIZE", help="Size of the all-reduce, where rates count (default: 25MB)."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="Rate of each host's interface in simulations, such as 25Gb/s."),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", metavar="FILE", help="The present order, as a hostfile; may be some of the hosts."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="FILE",
            help="Groups of hosts, as `syncline group` writes them: medians between groups count, not single pairs.",
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", metavar="N", min=1, help="Ranks on each host, for files of launchers.")
    ] = None,
    write: Annotated[
        list[str] | None,
        typer.Option(
            "--write",
            "-w",
            metavar="FORMAT=FILE",
            help="Write the order as hosts, openmpi, rankfile, mpich, slurm or torchrun. May be repeated.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", metavar="", help="List the exchanges that the new order avoids.")
    ] = False,
    proposals: Annotated[
        int | None,
        typer.Option("--proposals", metavar="N", min=1, max=10**12, help="How many changes each chain tries."),
    ] = None,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="TIME", help="Longest search, such as 60s; the best so far counts.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Order hosts so that an all-reduce of any framework, or a whole job, takes less time, and write a host file.

    Exit status: 0 done, 2 configuration error, 3 unreadable input or unwritable output, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.reorder import Options, reorder

    options = Options(
        algorithm,
        plan,
        scenario,
        tuple(set_ or ()),
        bytes_,
        rate,
        hosts,
        groups,
        slots,
        tuple(write or ()),
        seed,
        proposals,
        limit,
    )
    return reorder(measurements, options, explain=explain, force=force, as_json=json, quiet=quiet)
