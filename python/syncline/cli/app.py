"""The commands and their options. Other modules of this package do the work; each is imported when it is called."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
import typer.core

from syncline.terminal.streams import no_colour


class Log(StrEnum):
    """Formats of the hub's log."""

    TEXT = "text"
    JSON = "json"


class CtrlC(Exception):  # noqa: N818 - nothing is wrong
    """Stands in for a KeyboardInterrupt, which Typer would silently turn into an exit status."""


class _Commands(typer.core.TyperGroup):
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
    help="The communication of distributed training: simulated, designed and run.",
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


def _no_colour(value: bool) -> None:
    if value:
        no_colour()


Scenario = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A scenario file, - for standard input, or the folder of a run.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value: fabric.dims.2.rate=50GB/s. May be repeated."),
]
Network = Annotated[
    str | None, typer.Option("--network", metavar="MODEL", help="Network model: analytical, queued, flow, packet.")
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.")]
NoColour = Annotated[
    bool, typer.Option("--no-color", metavar="", callback=_no_colour, expose_value=False, help="Print without colours.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print only the answer and errors.")]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Replace a file that already exists.")]


class Part(StrEnum):
    """The parts of a scenario that ``show`` can print."""

    fabric = "fabric"
    workload = "workload"
    plan = "plan"


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", "-V", metavar="", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Set up what all commands share."""


@app.command()
def simulate(
    scenario: Scenario,
    network: Network = None,
    set_: Set = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results (default: runs/NAME).")
    ] = None,
    json: Json = False,
    max_events: Annotated[str | None, typer.Option(metavar="N", help="Stop after N events.")] = None,
    max_sim_time: Annotated[str | None, typer.Option(metavar="T", help="Stop after simulated time T: 10ms.")] = None,
    max_wall: Annotated[str | None, typer.Option(metavar="T", help="Stop after wall-clock time T: 60s.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Seed of everything random.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Simulate N times, with seeds counting up from --seed; print median and range."),
    ] = None,
    no_quotient: Annotated[
        bool,
        typer.Option("--no-quotient", metavar="", help="Simulate every rank and iteration, even those that are equal."),
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", metavar="", help="Do not write report.html.")] = False,
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", metavar="", help="Print more about the run.")] = False,
    no_color: NoColour = False,
) -> int:
    """Simulate a scenario: step time, exposed communication, bottleneck.

    Writes the results into a folder.

    Exit status: 0 done, 2 configuration, 3 input, 4 deadlock, 5 limit, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.simulate import simulate as call

    options = {
        "--network": ("network", network),
        "--max-events": ("limits.events", max_events),
        "--max-sim-time": ("limits.sim_time", max_sim_time),
        "--max-wall": ("limits.wall", max_wall),
        "--seed": ("seed", seed),
        "--no-quotient": ("quotient", "false" if no_quotient else None),
        "--no-report": ("report", "false" if no_report else None),
    }
    return call(scenario, set_ or [], options, out, seeds=seeds, as_json=json, quiet=quiet, verbose=verbose)


@app.command()
def check(
    scenarios: Annotated[list[str], typer.Argument(metavar="SCENARIO...", help="Scenario files.")],
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """List every error in scenarios, without simulating them.

    Exit status: 0 no errors, 1 errors, 3 a file cannot be read.
    """
    from syncline.cli.check import check as call

    return call(scenarios, set_ or [], as_json=json, quiet=quiet)


@app.command()
def show(
    part: Annotated[Part, typer.Argument(help="What to show.")],
    scenario: Scenario,
    network: Network = None,
    set_: Set = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write a picture of the fabric to FILE, as SVG.")
    ] = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """List and draw a part of a scenario: its fabric, its workload, or the plans of its collectives."""
    from syncline.cli.show import show as call

    return call(part.value, scenario, set_ or [], network, svg, as_json=json)


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The scenario's name; the file is NAME.yaml.")] = "scenario",
    template: Annotated[
        str,
        typer.Option(
            "--template",
            "-t",
            metavar="TEMPLATE",
            help="The template to copy: all-reduce-3d, dlrm, resnet50-torus or transformer-hybrid.",
        ),
    ] = "resnet50-torus",
    list_: Annotated[bool, typer.Option("--list", metavar="", help="List the templates.")] = False,
    force: Force = False,
) -> int:
    """Write a scenario to start from, and the JSON schema that editors use to complete it."""
    from syncline.cli.init import init as call

    return call(name, template, listing=list_, force=force)


@app.command()
def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="A scenario, a table in a run's folder, a plan or an ASTRA-sim 1 text.")
    ],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; its ending selects the format.")],
    dims: Annotated[
        str | None,
        typer.Option(metavar="MxN..", help="Sizes of the dimensions for an ASTRA-sim 1 text, lowest first: 2x4x4."),
    ] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Iterations for an ASTRA-sim 1 text.")] = None,
    force: Force = False,
) -> int:
    """Convert a scenario, a table of a run, a plan or an ASTRA-sim 1 text into another format, such as Chakra."""
    from syncline.cli.convert import convert as call

    return call(source, target, dims, iterations, force=force)


@app.command()
def profile(
    factory: Annotated[
        str, typer.Argument(metavar="PKG:FACTORY", help="A function or class that returns a PyTorch module.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="The table to write: .yaml or .csv.")],
    argument: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An argument of the factory. May be repeated.")
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="SHAPE",
            help="Shape of one sample of an input: 3x224x224 or 128:int64. Once for each input, in order.",
        ),
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Samples in an iteration (default: 32).")] = None,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="Where to measure: cpu, cuda or cuda:N.")] = "cpu",
    repeats: Annotated[
        int, typer.Option(min=1, max=10**6, help="Timed runs of each pass of each layer (default: 10).")
    ] = 10,
    warm_up: Annotated[
        int, typer.Option(min=0, max=10**6, help="Untimed runs before the timed ones (default: 2).")
    ] = 2,
    quiet: Quiet = False,
) -> int:
    """Measure the layers of a PyTorch module into a table of times, for the compute model `table`.

    Exit status: 0 done, 2 configuration, 3 the table cannot be written, 130 Ctrl-C.
    """
    from syncline.cli.profile import profile as call

    return call(
        factory,
        out,
        arguments=argument or [],
        inputs=input_ or [],
        batch=batch,
        device=device,
        repeats=repeats,
        warm_up=warm_up,
        quiet=quiet,
    )


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The folder of a run.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The folder of another run.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="Also write the comparison to FILE, as HTML.")
    ] = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Explain why two runs differ: which part of a step, which layers and phases, and what was changed.

    Exit status: 0 done, 2 the runs cannot be compared, 3 the results cannot be read or the page cannot be written.
    """
    from syncline.cli.compare import compare as call

    return call(a, b, out, as_json=json)


@app.command()
def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|COLUMN|CODE",
            help="The folder of a run, a name in the results such as queue_delay_s, or an error code such as SL0104.",
        ),
    ],
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Explain a run in sentences, a column or key of its results, or an error code.

    Exit status: 0 done, 2 unknown name, 3 the results cannot be read.
    """
    from syncline.cli.explain import explain as call

    return call(what, as_json=json)


_design = typer.Typer(no_args_is_help=True, help="Search for a better cluster.", cls=_Commands)
app.add_typer(_design, name="design")


@_design.command()
def bandwidth(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A file with the jobs, shapes and budget.")],
    set_: Set = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the results (default: runs/design-NAME)."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Divide a budget among the dimensions of a fabric: bandwidth, dollars, or both.

    Exit status: 0 done, 1 no solution meets all constraints, 2 configuration, 3 input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.design import bandwidth as call

    return call(spec, set_ or [], out, as_json=json, quiet=quiet)


_hub = typer.Typer(no_args_is_help=True, help="Run a parameter hub, or inspect one.", cls=_Commands)
app.add_typer(_hub, name="hub")

KeyFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File with the 32-byte key that hubs and ranks share.")
]

Tls = Annotated[str | None, typer.Option("--tls", metavar="DIR", help="Certificates that `syncline hub certs` made.")]


@_hub.command()
def serve(
    listen: Annotated[
        str, typer.Option(metavar="ADDRESSES", help="Addresses to listen at, one for each interface, comma-separated.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 29420,
    cores: Annotated[
        int | None, typer.Option(min=1, max=256, help="Threads that sum (default: one for each CPU).")
    ] = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Pin each of these threads to its own CPU; for a host that only runs the hub.")
    ] = False,
    key_file: KeyFile = None,
    tls: Tls = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve every client that can connect.")] = False,
    congestion: Annotated[str | None, typer.Option(metavar="NAME", help="TCP's congestion control: cubic.")] = None,
    most_jobs: Annotated[int, typer.Option("--max-jobs", min=1, help="Most jobs at once.")] = 64,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most memory for all jobs (default: half of the machine's).")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help="Serve metrics for Prometheus at this address.")
    ] = None,
    log: Annotated[Log, typer.Option(help="Format of the log on stderr.")] = Log.TEXT,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long running jobs may continue after SIGTERM.")
    ] = 30.0,
) -> int:
    """Serve jobs until SIGTERM or Ctrl-C: then refuse new jobs, and exit once the running ones end.

    Exit status: 0 all jobs ended, 2 usage, 6 an address is not available or jobs were cut off, 130 Ctrl-C twice.
    """
    from syncline.cli.hub import serve as call

    options = {
        "pin": pin,
        "key_file": key_file,
        "tls": tls,
        "insecure": insecure,
        "congestion": congestion,
        "most_jobs": most_jobs,
        "memory": memory,
    }
    return call(listen.split(","), port, cores, options, metrics=metrics, as_json=log == Log.JSON, drain_s=drain)


Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="Address of the hub: HOST or HOST:PORT.")]


@_hub.command("status")
def hub_status(
    address: Address = "127.0.0.1",
    key_file: KeyFile = None,
    tls: Tls = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Show a hub's jobs, their ranks, and the bytes moved.

    Exit status: 0 done, 2 usage, 6 the hub does not answer.
    """
    from syncline.cli.hub import status as call

    return call(address, key_file, tls, as_json=json)


@_hub.command("bench")
def hub_bench(
    address: Address = "127.0.0.1",
    world: Annotated[int, typer.Option(min=1, max=64, help="Ranks, all in this process.")] = 4,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Bytes of the vector.")] = "25MB",
    steps: Annotated[int, typer.Option(min=1, help="Timed exchanges.")] = 20,
    chunk: Annotated[str, typer.Option(metavar="SIZE", help="Bytes of a chunk.")] = "32KiB",
    key_file: KeyFile = None,
    tls: Tls = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Connect to a hub on another host without a key.")
    ] = False,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Measure how fast a hub exchanges gradients, with ranks that compute nothing.

    Exit status: 0 done, 2 usage, 6 the hub does not answer, or stops.
    """
    from syncline.cli.hub import bench as call

    return call(address, world, (size, chunk), steps, key_file, tls, insecure=insecure, as_json=json)


@_hub.command("doctor")
def hub_doctor(
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="A hub on another host; checks that it can be reached.")
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

    Exit status: 0 no problems, 1 something is broken, 2 usage.
    """
    from syncline.cli.hub import doctor as call

    return call(address, listen, port, key_file, tls, as_json=json)


@_hub.command("certs")
def hub_certs(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder to write the certificates to.")],
    job: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make certificates that are valid for this job only.")
    ] = None,
    ranks: Annotated[
        int, typer.Option(min=0, max=4096, help="Make a certificate for each of N ranks (default: one for all ranks).")
    ] = 0,
    days: Annotated[int, typer.Option(min=1, max=825, help="Days until the certificates expire.")] = 30,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """Make certificates with which hubs and ranks authenticate each other, and print where each file belongs.

    Exit status: 0 done, 2 usage, or files that already exist.
    """
    from syncline.cli.hub import certs as call

    return call(folder, job, ranks, days, force=force, as_json=json)


_testbed = typer.Typer(no_args_is_help=True, help="Emulate a cluster on this machine.", cls=_Commands)
app.add_typer(_testbed, name="testbed")

Testbed = Annotated[
    str, typer.Argument(metavar="NAME|SPEC", help="A testbed that is up, or a file: up only while the command runs.")
]


@_testbed.command()
def up(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A fabric: a testbed's file, or a scenario.")],
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Bring a testbed up: a network namespace for each host, a bridge for each switch, links with their rates.

    Exit status: 0 done, 2 configuration, or this machine cannot run a testbed, 3 input, 130 Ctrl-C. Needs root.
    """
    from syncline.cli.testbed import up as call

    return call(spec, set_ or [], as_json=json, quiet=quiet)


@_testbed.command()
def run(
    which: Testbed,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="What to run on each host.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="The hosts of ranks 0, 1, ..: 0,4,1,5 or 0-3 (default: all hosts)."),
    ] = None,
    timeout: Annotated[str | None, typer.Option(metavar="T", help="Stop the command after this time: 60s.")] = None,
    set_: Set = None,
) -> int:
    """Run a command on all hosts, one process each, with the environment that torchrun sets.

    The environment holds rank, addresses and interfaces. Given a file, the testbed is up only while the command runs.
    Exit status: 0 done, 2 configuration, 3 input, 6 a process failed or timed out, 130 Ctrl-C. Needs root.
    """
    from syncline.cli.testbed import run as call

    return call(which, command or [], hosts, timeout, set_ or [])


@_testbed.command("check")
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

    Exit status: 0 they match, 1 they do not, 2 configuration, 3 input, or costs that cannot be written,
    6 a host failed, 130 Ctrl-C. Needs root.
    """
    from syncline.cli.testbed import check as call

    return call(which, set_ or [], save, as_json=json, quiet=quiet)


@_testbed.command()
def status(
    which: Annotated[str | None, typer.Argument(metavar="NAME", help="A testbed whose hosts to list.")] = None,
    json: Json = False,
    no_color: NoColour = False,
) -> int:
    """List all testbeds, or the hosts of one.

    Exit status: 0 done, 2 no such testbed, 3 input.
    """
    from syncline.cli.testbed import status as call

    return call(which, as_json=json)


@_testbed.command()
def down(
    which: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Testbeds, or their files.")] = None,
    all_: Annotated[
        bool, typer.Option("--all", metavar="", help="Remove all testbeds, and what crashed ones left over.")
    ] = False,
) -> int:
    """Remove testbeds, and kill everything that runs on their hosts.

    Exit status: 0 done, 2 no such testbed, or the command runs on one of its hosts, 3 input, 130 Ctrl-C. Needs root.
    """
    from syncline.cli.testbed import down as call

    return call(which or [], every=all_)


@app.command()
def doctor(json: Json = False) -> int:
    """Check that this installation works, and list what is missing."""
    from syncline.cli.doctor import doctor as call

    return call(as_json=json)


@app.command(
    "astra-sim",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def astra_sim(context: typer.Context) -> int:
    """Run ASTRA-sim 2's inputs, with the flags of its analytical simulators (drop-in)."""
    from syncline.cli.astra_sim import astra_sim as call

    return call(context.args)
