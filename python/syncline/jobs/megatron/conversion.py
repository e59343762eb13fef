"""Converts jobs of Megatron-LM into job files: scripts, files of arguments, also in YAML, and arguments themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error
from syncline.input.source import read_file
from syncline.jobs.converted import AS_ASKED, NOT_MODELLED, REPEATED, WITHOUT_EFFECT, Converted, convert
from syncline.jobs.given import Given
from syncline.jobs.launch.launcher import launch
from syncline.jobs.launch.script import read_script
from syncline.jobs.launch.words import of_arguments, of_text
from syncline.jobs.megatron.arguments import arguments, parse
from syncline.jobs.megatron.mapping import map_settings
from syncline.jobs.megatron.yaml_arguments import of_yaml
from syncline.jobs.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.errors import Diagnostic

STARTS = ("--num-layers", "--hidden-size", "--micro-batch-size", "--tensor-model-parallel-size")
"""Arguments by which the command of a training is found."""


def convert_megatron(
    source: Sequence[str],
    *,
    gpus: int | None = None,
    accelerator: str | None = None,
    vocab: int | None = None,
    environment: Mapping[str, str] | None = None,
    ignored: Sequence[str] = (),
) -> Converted:
    """The job file of a script of this path, of a file of arguments, or of arguments, of which the first has dashes.

    A ``.yaml`` file has its arguments below ``MODEL_ARGS``.

    :param gpus: the number of accelerators; without it, as the script launches them.
    :param accelerator: their name; without it, H100.
    :param vocab: the size of the vocabulary, where only the tokenizer knows it.
    :param environment: variables that the script is given.
    :param ignored: arguments to leave out, though they are unknown or refused.
    :raises SynclineError: with all arguments that cannot be used, each with its place.
    """
    said, name, origin, mark = "", "job", "arguments of Megatron-LM", None
    off: list[str] = []
    if len(source) == 1 and not source[0].startswith("--"):
        path = source[0]
        name, origin = Path(path).stem, Path(path).name
        text = read_file(path)
        if path.endswith((".yaml", ".yml")):
            read = of_yaml(path, environment or {})
            words, off = list(read.words), list(read.off)
        elif _only_arguments(text):
            words = of_text(text, path)
        else:
            started = launch(read_script(path, environment or {}), path, STARTS)
            words = list(started.arguments)
            if gpus is None:
                gpus, said, mark = started.gpus, started.said, started.mark
    elif len(source) == 1:
        words = of_text(source[0], "the arguments")
    else:
        words = of_arguments(source)
    parsed = parse(words, ignored)
    problems = list(parsed.problems)
    if gpus is None:
        problems.append(_no_count(origin))
    settings = Settings(parsed.found, "Megatron-LM")
    map_settings(settings, Given.of(accelerator, gpus, said=said, mark=mark, vocab=vocab))
    lists = {
        NOT_MODELLED: settings.rest(lambda each: each not in arguments().without_effect),
        AS_ASKED: [each.said for each in parsed.ignored],
        REPEATED: [each.said for each in parsed.repeated],
        WITHOUT_EFFECT: [*settings.rest(lambda each: each in arguments().without_effect), *off],
    }
    return convert(name, origin, settings, lists, problems)


def _only_arguments(text: str) -> bool:
    """Whether a file has arguments and nothing else."""
    lines = (line.strip() for line in text.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return first.startswith("--")


def _no_count(origin: str) -> Diagnostic:
    return error(
        Code.MISSING_KEY,
        "the number of accelerators is not known",
        mark=Mark(Text(origin, ()), 0, 0, 0),
        key="--gpus",
        help="add --gpus N",
    )
