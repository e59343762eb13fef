"""The arguments of the commands that convert the jobs of other software, such as ``convert megatron``."""

from __future__ import annotations

from typing import Annotated

import typer

from syncline.cli.arguments.shared import Force, Quiet

app = typer.Typer()

Out = Annotated[
    str, typer.Option("--out", "-o", metavar="FILE", help="The job file to write, for `syncline estimate`.")
]
Gpus = Annotated[
    int | None,
    typer.Option("--gpus", metavar="N", min=1, max=1 << 20, help="Number of accelerators (default: as launched)."),
]
AcceleratorName = Annotated[
    str | None,
    typer.Option("--accelerator", "-a", metavar="NAME", help="A100, H100, H200, B200 or GB200 (default: H100)."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="NAME", help="Leave out a setting that is unknown or refused. May be repeated."),
]


Vocab = Annotated[
    int | None,
    typer.Option(
        "--vocab", metavar="TOKENS", min=1, max=1 << 24, help="Size of the vocabulary, if it is in the tokenizer."
    ),
]


Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The model by name, or its config.json, if the file has no sizes."),
]


@app.command("convert megatron")
def megatron(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT",
            help="A shell script that starts Megatron-LM, a file of arguments, YAML with them below MODEL_ARGS, or the "
            "arguments themselves after --.",
        ),
    ],
    out: Out,
    gpus: Gpus = None,
    accelerator: AcceleratorName = None,
    vocab: Vocab = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME=VALUE", help="A variable that the script or YAML file is given. May be repeated."
        ),
    ] = None,
    ignore: Ignore = None,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Convert a job of Megatron-LM, a script or its arguments, into a job file for `syncline estimate`.

    Every argument becomes a key, is listed in the file, or is an error. The script is not run.

    Exit status: 0 done, 2 configuration error, 3 unreadable input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.convert_jobs import JobOptions
    from syncline.cli.commands.convert_jobs import megatron as call

    options = JobOptions(out, gpus, accelerator, tuple(ignore or ()), force=force, quiet=quiet)
    return call(source, options, vocab, env or [])


@app.command("convert nemo")
def nemo(
    source: Annotated[str, typer.Argument(metavar="YAML", help="A YAML file of NeMo 1, as its launcher has them.")],
    out: Out,
    gpus: Gpus = None,
    accelerator: AcceleratorName = None,
    vocab: Vocab = None,
    model: Model = None,
    ignore: Ignore = None,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Convert a job of NeMo 1, a YAML file, into a job file for `syncline estimate`.

    Every key becomes a key of the job file, is listed in it, or is an error.

    Exit status: 0 done, 2 configuration error, 3 unreadable input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.convert_jobs import JobOptions
    from syncline.cli.commands.convert_jobs import nemo as call

    options = JobOptions(out, gpus, accelerator, tuple(ignore or ()), force=force, quiet=quiet)
    return call(source, options, vocab, model)


@app.command("convert bridge")
def bridge(
    source: Annotated[str, typer.Argument(metavar="YAML", help="A YAML file of Megatron-Bridge: run_config.yaml.")],
    out: Out,
    gpus: Gpus = None,
    accelerator: AcceleratorName = None,
    vocab: Vocab = None,
    model: Model = None,
    ignore: Ignore = None,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Convert a job of Megatron-Bridge, a YAML file, into a job file for `syncline estimate`.

    Every key becomes a key of the job file, is listed in it, or is an error.

    Exit status: 0 done, 2 configuration error, 3 unreadable input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.convert_jobs import JobOptions
    from syncline.cli.commands.convert_jobs import bridge as call

    options = JobOptions(out, gpus, accelerator, tuple(ignore or ()), force=force, quiet=quiet)
    return call(source, options, vocab, model)


@app.command("convert torchtitan")
def torchtitan(
    source: Annotated[str, typer.Argument(metavar="TOML", help="A TOML file of torchtitan.")],
    out: Out,
    gpus: Gpus = None,
    accelerator: AcceleratorName = None,
    model: Model = None,
    ignore: Ignore = None,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Convert a job of torchtitan, a TOML file, into a job file for `syncline estimate`.

    Every key becomes a key of the job file, is listed in it, or is an error.

    Exit status: 0 done, 2 configuration error, 3 unreadable input, 70 bug, 130 Ctrl-C.
    """
    from syncline.cli.commands.convert_jobs import JobOptions
    from syncline.cli.commands.convert_jobs import torchtitan as call

    options = JobOptions(out, gpus, accelerator, tuple(ignore or ()), force=force, quiet=quiet)
    return call(source, options, model)
