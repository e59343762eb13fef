"""The arguments of ``probe``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, NoColour, Quiet, Seed

app = typer.Typer()


class What(StrEnum):
    """What is measured."""

    RTT = "rtt"
    RATE = "rate"
    BOTH = "both"


class ScheduleName(StrEnum):
    """Which pairs are measured."""

    FULL = "full"
    SAMPLED = "sampled"


@app.command()
def probe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[HOSTS]...", help="Names of hosts, as the launch command knows them.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", metavar="FILE", help="File of hosts: NAME [address=IP] on each line; # comments."),
    ] = None,
    launch: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Command that runs Python on {host} (default: ssh -oBatchMode=yes {host} python3 -).",
        ),
    ] = None,
    job: Annotated[
        bool,
        typer.Option(
            "--job",
            metavar="",
            help="Join the job that RANK, WORLD_SIZE and MASTER_ADDR describe, and probe its ranks.",
        ),
    ] = False,
    what: Annotated[What, typer.Option(help="Measure round trips, rates or both.")] = What.RTT,
    schedule: Annotated[
        ScheduleName, typer.Option(help="Measure every pair, or few pairs that suffice to find groups.")
    ] = ScheduleName.FULL,
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", help="Echoes of each pair (default: 1000, or what the budget allows)."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="T", help="Time for everything, such as 10s.")
    ] = None,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="File to write: .parquet, or .csv.")
    ] = "probe.parquet",
    force: Force = False,
    seed: Seed = 0,
    port: Annotated[
        int,
        typer.Option("--port", metavar="N", min=0, max=65535, help="UDP and TCP port of agents; 0 for any free ones."),
    ] = 0,
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", metavar="", help="Exit with status 0 although hosts or pairs failed."),
    ] = False,
    key_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --job: file with the 32-byte key of the job.")
    ] = None,
    tls: Annotated[
        str | None,
        typer.Option("--tls", metavar="DIR", help="With --job: folder of certificates made by `syncline hub certs`."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", metavar="", help="With --job: join without authentication.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Measure round trips and rates between the hosts of a cluster, and write them to a file.

    Exit status: 0 done, 2 usage error, 3 a file cannot be read or written, 5 the budget ended the probe, 6 a host or
    pair failed (the file holds the others), 130 Ctrl-C (the file holds what was measured).
    """
    from syncline.cli.commands.probe import ProbeOptions
    from syncline.cli.commands.probe import probe as call

    return call(
        ProbeOptions(
            names=names or [],
            hosts=hosts,
            launch=launch,
            job=job,
            rtt=what != What.RATE,
            rate=what != What.RTT,
            sampled=schedule == ScheduleName.SAMPLED,
            samples=samples,
            budget=budget,
            out=out,
            force=force,
            seed=seed,
            port=port,
            allow_missing=allow_missing,
            key_file=key_file,
            tls=tls,
            insecure=insecure,
            as_json=json,
            quiet=quiet,
        )
    )
