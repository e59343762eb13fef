"""``syncline convert megatron`` and its siblings: jobs of other software as job files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.files import write_whole
from syncline.input.problem import cannot_write, error, raise_errors, require_writable
from syncline.quantity import counted
from syncline.terminal.prose import lines
from syncline.terminal.streams import console, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.jobs.converted import Converted


@dataclass(frozen=True)
class JobOptions:
    """Options of all these commands, as the user gives them."""

    out: str
    gpus: int | None
    accelerator: str | None
    ignore: tuple[str, ...]
    force: bool = False
    quiet: bool = False


def megatron(source: Sequence[str], options: JobOptions, vocab: int | None, env: Sequence[str]) -> int:
    """Converts a script or arguments of Megatron-LM; returns the exit status."""
    from syncline.jobs.megatron.conversion import convert_megatron

    return _converted(convert_megatron, source, options, vocab=vocab, environment=dict(map(_variable, env)))


def nemo(source: str, options: JobOptions, vocab: int | None, model: str | None) -> int:
    """Converts a YAML file of NeMo; returns the exit status."""
    from syncline.jobs.nemo.conversion import convert_nemo

    return _converted(convert_nemo, source, options, vocab=vocab, model=model)


def bridge(source: str, options: JobOptions, vocab: int | None, model: str | None) -> int:
    """Converts a YAML file of Megatron-Bridge; returns the exit status."""
    from syncline.jobs.bridge.conversion import convert_bridge

    return _converted(convert_bridge, source, options, vocab=vocab, model=model)


def torchtitan(source: str, options: JobOptions, model: str | None) -> int:
    """Converts a TOML file of torchtitan; returns the exit status."""
    from syncline.jobs.torchtitan.conversion import convert_torchtitan

    return _converted(convert_torchtitan, source, options, model=model)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise_errors(
            error(Code.BAD_VALUE, "not of the form NAME=VALUE", key="--env", found=text, help="write --env TP=8")
        )
    return name, value


def _from_folder(model: str, folder: Path) -> str:
    """A model as a job file in ``folder`` names it: its name, or the path of a file that is found from there."""
    from syncline.config.model_file import names_file

    here = folder.resolve() == Path.cwd()
    return model if here or not names_file(model) else str(Path(model).resolve())


def _converted(convert: Callable[..., Converted], source: str | Sequence[str], options: JobOptions, **more: Any) -> int:
    """Converts a source, writes the job file, and says what of the settings is not in it."""
    from syncline.jobs.converted import WITHOUT_EFFECT

    require_writable(options.out, force=options.force)
    if more.get("model") is not None:
        more["model"] = _from_folder(more["model"], Path(options.out).parent)
    found = convert(source, gpus=options.gpus, accelerator=options.accelerator, ignored=options.ignore, **more)
    try:
        write_whole(options.out, found.text)
    except OSError as problem:
        raise_errors(cannot_write(options.out, problem))
    if not options.quiet:
        width = console(error=True).width
        for title, each in found.left_out.items():
            if each and title != WITHOUT_EFFECT:
                say(lines(f"{title}: {'; '.join(each)}", width))
        for warning in found.warnings:
            say(lines(f"Note: {warning}", width))
        say(
            f"Mapped {counted(len(found.mapped), 'setting')}; {len(found.left_out.get(WITHOUT_EFFECT, ()))} have no "
            "effect on time and memory, and are listed in the file"
        )
    say(f"Wrote {options.out}")
    return 0
