"""The arguments of ``hub``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from syncline.cli.arguments.shared import Json, NoColour

app = typer.Typer(name="hub", no_args_is_help=True, help="Run a parameter hub, or inspect one.")


class Log(StrEnum):
    """Formats of the hub's log."""

    TEXT = "text"
    JSON = "json"


KeyFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File with the 32-byte key that hubs and ranks share.")
]


Tls = Annotated[
    str | None, typer.Option("--tls", metavar="DIR", help="Folder of certificates made by `syncline hub certs`.")
]


Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="Address of the hub: HOST or HOST:PORT.")]


@app.command()
def serve(
    listen: Annotated[
        str, typer.Option(metavar="ADDRESSES", help="Addresses to listen at, one for each interface, comma-separated.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 picks a free one.")] = 29420,
    cores: Annotated[
        int | None, typer.Option(min=1, max=256, help="Number of threads that sum (default: one per CPU).")
    ] = None,
    pin: Annotated[
        bool,
        typer.Option("--pin", metavar="", help="Pin each of these threads to a CPU of its own; for a dedicated host."),
    ] = False,
    key_file: KeyFile = None,
    tls: Tls = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", metavar="", help="Serve every client, without authentication."),
    ] = False,
    congestion: Annotated[
        str | None, typer.Option(metavar="NAME", help="TCP congestion control, such as cubic (default: the system's).")
    ] = None,
    max_jobs: Annotated[
        int, typer.Option("--max-jobs", metavar="N", min=1, help="Maximum number of concurrent jobs.")
    ] = 64,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Maximum memory for all jobs together (default: half of the machine's)."),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help="Serve metrics for Prometheus at this address.")
    ] = None,
    log: Annotated[Log, typer.Option(help="Format of the log on stderr.")] = Log.TEXT,
    save: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Save jobs to this folder, and continue jobs that a hub has saved there before."
        ),
    ] = None,
    save_every: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --save: time from one save to the next (default: 60s).")
    ] = None,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Time that running jobs get to finish after SIGTERM.")
    ] = 30.0,
) -> int:
    """Serve jobs until SIGTERM or Ctrl-C. Then refuse new jobs, and exit when the running jobs have ended.

    Exit status: 0 all jobs ended, 2 usage error, 6 an address is not available or jobs were cut off, 130 Ctrl-C twice.
    """
    from syncline.cli.commands.hub import ServeOptions
    from syncline.cli.commands.hub import serve as call

    return call(
        ServeOptions(
            listen=listen.split(","),
            port=port,
            cores=cores,
            pin=pin,
            key_file=key_file,
            tls=tls,
            insecure=insecure,
            congestion=congestion,
            max_jobs=max_jobs,
            memory=memory,
            metrics=metrics,
            log_as_json=log == Log.JSON,
            drain_s=drain,
            save=save,
            save_every=save_every,
        )
    )


@app.command("status")
def hub_status(
    address: Address = "127.0.0.1",
    key_file: KeyFile = None,
    tls: Tls = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Show a hub's jobs, their ranks, and the bytes moved.

    Exit status: 0 done, 2 usage error, 6 the hub does not answer.
    """
    from syncline.cli.commands.hub import status as call

    return call(address, key_file, tls, as_json=json)


@app.command("save")
def hub_save(
    address: Address = "127.0.0.1",
    key_file: KeyFile = None,
    tls: Tls = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Let a hub save its jobs now, each at the end of the step that its ranks are in.

    Exit status: 0 all jobs are saved, 2 usage error or a hub without a folder for saves, 6 the hub does not answer, or
    a job could not be saved.
    """
    from syncline.cli.commands.hub import save as call

    return call(address, key_file, tls, as_json=json)


@app.command("bench")
def hub_bench(
    address: Address = "127.0.0.1",
    world: Annotated[int, typer.Option(min=1, max=64, help="Number of ranks; all run in this process.")] = 4,
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Size of the vector that is exchanged.")] = "25MB",
    steps: Annotated[int, typer.Option(min=1, help="Number of exchanges to time.")] = 20,
    chunk: Annotated[str, typer.Option(metavar="SIZE", help="Size of a chunk.")] = "32KiB",
    key_file: KeyFile = None,
    tls: Tls = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", metavar="", help="Connect to a hub on another host without a key.")
    ] = False,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Measure how fast a hub exchanges gradients, with ranks that compute nothing.

    Exit status: 0 done, 2 usage error, 6 the hub does not answer, or stops.
    """
    from syncline.cli.commands.hub import BenchOptions
    from syncline.cli.commands.hub import bench as call

    return call(
        BenchOptions(
            address=address,
            world=world,
            size=size,
            steps=steps,
            chunk=chunk,
            key_file=key_file,
            tls=tls,
            insecure=insecure,
            as_json=json,
        )
    )


@app.command("doctor")
def hub_doctor(
    address: Annotated[
        str | None, typer.Argument(metavar="ADDRESS", help="A hub on another host, to check that it can be reached.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="ADDRESSES", help="Addresses at which a hub will listen, comma-separated.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port at which a hub will listen.")] = 29420,
    key_file: KeyFile = None,
    tls: Tls = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Check what a hub needs on this machine, and whether a hub on another host can be reached.

    Exit status: 0 no problems, 1 something is broken, 2 usage error.
    """
    from syncline.cli.commands.hub import doctor as call

    return call(address, listen, port, key_file, tls, as_json=json)


@app.command("certs")
def hub_certs(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder to write the certificates to.")],
    job: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make certificates that are valid for this job only.")
    ] = None,
    ranks: Annotated[
        int,
        typer.Option(
            min=0, max=4096, help="Make one certificate per rank, for this many ranks; 0 makes one for all ranks."
        ),
    ] = 0,
    days: Annotated[int, typer.Option(min=1, max=825, help="Number of days until the certificates expire.")] = 30,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace existing files.")] = False,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Make the certificates by which hubs and ranks authenticate each other, and print which host needs which file.

    Exit status: 0 done, 2 usage error, or files that already exist.
    """
    from syncline.cli.commands.hub import certs as call

    return call(folder, job, ranks, days, force=force, as_json=json)
