"""The arguments of ``design``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Json, NoColour, Quiet, Report, Set


class Precision(StrEnum):
    """Data types of linear layers."""

    BF16 = "bf16"
    FP8 = "fp8"
    MXFP8 = "mxfp8"
    NVFP4 = "nvfp4"


class BestBy(StrEnum):
    """What is best."""

    TIME = "time"
    DOLLARS = "dollars"
    ENERGY = "energy"


class Schedule(StrEnum):
    """Orders in which the stages of a pipeline work."""

    GPIPE = "gpipe"
    ONE_FORWARD_ONE_BACKWARD = "1f1b"
    ZB_H1 = "zb-h1"
    ZB_V = "zb-v"
    DUALPIPE = "dualpipe"
    DUALPIPE_V = "dualpipe-v"


class Graphs(StrEnum):
    """Kernels that CUDA graphs launch."""

    NONE = "none"
    PARTIAL = "partial"
    FULL = "full"


class Dispatcher(StrEnum):
    """What sends tokens to experts."""

    ALL_TO_ALL = "all_to_all"
    FUSED = "fused"


app = typer.Typer(name="design", no_args_is_help=True, help="Search for a better cluster.")


@app.command()
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

    Exit status: 0 done, 1 no solution, 2 configuration error, 3 unreadable input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.design import bandwidth as call

    return call(spec, set_ or [], out, as_json=json, quiet=quiet)


@app.command()
def joint(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A file with the model, servers and links.")],
    set_: Set = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the results (default: runs/design-NAME)."),
    ] = None,
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate/--no-simulate",
            help="Simulate the answer on its links and routes (the default; `--no-simulate` skips it).",
        ),
    ] = True,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Find a parallelisation strategy and a topology of direct links together, and compare the result with a fat-tree.

    Exit status: 0 done, 1 no strategy fits into memory, 2 configuration, 3 input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.design import joint as call

    return call(spec, set_ or [], out, with_simulation=simulate, as_json=json, quiet=quiet)


class Gradients(StrEnum):
    """Data types in which gradients are summed."""

    FP32 = "fp32"
    BF16 = "bf16"


class Offloaded(StrEnum):
    """What a search may move to the host's memory."""

    ACTIVATIONS = "activations"
    OPTIMIZER = "optimizer"


class Moments(StrEnum):
    """Data types of Adam's moments."""

    FP32 = "fp32"
    BF16 = "bf16"
    EIGHT_BITS = "8bit"


@app.command()
def parallel(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A model's config.json, as Hugging Face has it, or a name, such as llama3-70b."
        ),
    ],
    gpus: Annotated[
        str, typer.Option("--gpus", metavar="N[,N...]", help="Number of accelerators, or several: 256,512,1024.")
    ],
    accelerator: Annotated[
        str | None,
        typer.Option(
            "--accelerator",
            "-a",
            metavar="NAME",
            help="Such as A100, H100, H200, B200 or GB200, or a .json file of `syncline kernels fit` (default: H100).",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="NAME", help="A known cluster, such as selene or eos, with its accelerators."
        ),
    ] = None,
    sequence: Annotated[
        int | None,
        typer.Option(
            "--sequence",
            metavar="TOKENS",
            min=1,
            max=1 << 24,
            help="Tokens of a sequence (default: 8192, or fewer if that is the longest one of the model).",
        ),
    ] = None,
    global_batch: Annotated[
        int | None,
        typer.Option(
            "--global-batch",
            metavar="N",
            min=1,
            max=1_000_000,
            help="Sequences of a step (default: about four million tokens).",
        ),
    ] = None,
    precision: Annotated[Precision, typer.Option("--precision", help="Data type of linear layers.")] = Precision.BF16,
    nic_rate: Annotated[
        str | None,
        typer.Option(
            "--nic-rate",
            metavar="RATE",
            help="Rate of the network for each accelerator, such as 400Gb/s (default: that of the usual servers).",
        ),
    ] = None,
    domain: Annotated[
        int | None,
        typer.Option("--domain", metavar="N", min=1, max=100_000, help="Accelerators that NVLink joins."),
    ] = None,
    schedule: Annotated[
        list[Schedule] | None,
        typer.Option("--schedule", help="Order in which pipeline stages work; repeatable (default: 1f1b)."),
    ] = None,
    graphs: Annotated[
        Graphs, typer.Option("--graphs", help="Kernels that CUDA graphs launch; partial: all but experts and dispatch.")
    ] = Graphs.NONE,
    dispatcher: Annotated[
        Dispatcher, typer.Option("--dispatcher", help="What sends tokens to experts; fused: DeepEP or HybridEP.")
    ] = Dispatcher.ALL_TO_ALL,
    gradients: Annotated[
        Gradients, typer.Option("--gradients", help="Data type in which gradients are summed.")
    ] = Gradients.FP32,
    moments: Annotated[Moments, typer.Option("--moments", help="Data type of Adam's two moments.")] = Moments.FP32,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZE", help="Memory of an accelerator, such as 80GiB (default: as it is sold)."
        ),
    ] = None,
    nccl: Annotated[
        str | None,
        typer.Option(
            "--nccl",
            metavar="NAME",
            help="Machine for times of NCCL, or a .yaml file of `syncline calibrate` (default: by the accelerator).",
        ),
    ] = None,
    constants: Annotated[
        str | None,
        typer.Option(
            "--constants",
            metavar="FILE",
            help="Constants of your own runs: a .yaml file of `syncline validate constants` (default: the package's).",
        ),
    ] = None,
    offload: Annotated[
        list[Offloaded] | None,
        typer.Option("--offload", help="What may lie in the host's memory; repeatable (default: nothing)."),
    ] = None,
    host_rate: Annotated[
        str | None,
        typer.Option(
            "--host-rate",
            metavar="RATE",
            help="Rate of copies to the host and back for each accelerator, such as 25GB/s (default: as measured).",
        ),
    ] = None,
    host_memory: Annotated[
        str | None,
        typer.Option(
            "--host-memory",
            metavar="SIZE",
            help="Memory of the host for each accelerator (default: that of the usual servers).",
        ),
    ] = None,
    host_memory_rate: Annotated[
        str | None,
        typer.Option(
            "--host-memory-rate",
            metavar="RATE",
            help="Peak rate of that memory for each accelerator (default: that of the usual servers).",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, max=1000, help="How many configurations to list.")
    ] = 10,
    best_by: Annotated[
        BestBy, typer.Option("--best-by", help="What is best: the shortest, cheapest or most frugal step.")
    ] = BestBy.TIME,
    price: Annotated[
        str | None,
        typer.Option("--price", metavar="DOLLARS", help="What an accelerator costs for an hour, such as 2.50."),
    ] = None,
    power: Annotated[
        str | None,
        typer.Option(
            "--power", metavar="WATTS", help="What a computing accelerator draws, such as 700W (default: its board)."
        ),
    ] = None,
    simulate: Annotated[
        int,
        typer.Option(
            "--simulate", metavar="N", min=0, max=100, help="Simulate the best N configurations, with contention."
        ),
    ] = 0,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="FILE", help="Write the best one as a job file, for `syncline estimate`: .yaml."),
    ] = None,
    report: Report = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
    no_color: NoColour = False,
) -> int:
    """Find the best parallel configuration of a language model, by estimates of all that fit into memory.

    Exit status: 0 done, 2 configuration error or nothing fits, 3 unreadable input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.design_parallel import ParallelOptions
    from syncline.cli.commands.design_parallel import parallel as call

    return call(
        model,
        ParallelOptions(
            gpus=gpus,
            accelerator=accelerator,
            cluster=cluster,
            sequence=sequence,
            global_batch=global_batch,
            precision=precision.value,
            schedules=tuple(each.value for each in schedule or [Schedule.ONE_FORWARD_ONE_BACKWARD]),
            graphs=graphs.value,
            dispatcher=dispatcher.value,
            gradients=gradients.value,
            moments=moments.value,
            nic_rate=nic_rate,
            domain=domain,
            memory=memory,
            nccl=nccl,
            constants=constants,
            offload=tuple(each.value for each in offload or []),
            host_rate=host_rate,
            host_memory=host_memory,
            host_memory_rate=host_memory_rate,
            top=top,
            best_by=best_by.value,
            price=price,
            power=power,
            simulate=simulate,
            job=job,
            report=report,
            force=force,
            as_json=json,
            quiet=quiet,
        ),
    )
