"""The arguments of ``reorder``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, Measurements, NoColour, Quiet, Seed

app = typer.Typer()


@app.command()
def reorder(
    measurements: Measurements,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="All-reduce to order ranks for: ring, halving_doubling, double_binary_tree or bcube(base=B).",
        ),
    ] = "ring",
    bytes_: Annotated[
        str, typer.Option("--bytes", metavar="SIZE", help="Size of the all-reduce, where rates were measured.")
    ] = "25MB",
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", metavar="FILE", help="The present order, as a hostfile; may be some of the hosts."),
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
    """Order hosts so that an all-reduce of any framework travels short distances, and write a host file.

    Exit status: 0 done, 2 configuration error, 3 unreadable input or unwritable output, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.reorder import Options, reorder

    options = Options(algorithm, bytes_, hosts, slots, tuple(write or ()), seed, proposals, limit)
    return reorder(measurements, options, explain=explain, force=force, as_json=json, quiet=quiet)
