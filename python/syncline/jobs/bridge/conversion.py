"""Converts the YAML files of Megatron-Bridge into job files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.jobs.bridge.mapping import SPELLED, keys, megatron
from syncline.jobs.bridge.mapping.adapters import adapters
from syncline.jobs.bridge.mapping.recipes import DEGREES, recipe
from syncline.jobs.converted import Converted, convert
from syncline.jobs.given import Given
from syncline.jobs.keys import known
from syncline.jobs.megatron.mapping import map_settings
from syncline.jobs.python_code import refuse_code
from syncline.jobs.settings import Settings
from syncline.jobs.yaml_settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Sequence


_SIZES = frozenset(("model.num_layers", "model.hidden_size", "model.num_attention_heads"))


def convert_bridge(
    path: str,
    *,
    gpus: int | None = None,
    accelerator: str | None = None,
    vocab: int | None = None,
    model: str | None = None,
    ignored: Sequence[str] = (),
) -> Converted:
    """The job file of a YAML file.

    :param gpus: the number of accelerators, which the file does not say.
    :param accelerator: their name; without it, H100.
    :param vocab: the size of the vocabulary, where only the tokenizer knows it.
    :param model: a model's name or the path of its ``config.json``, if the file has no sizes.
    :param ignored: keys to leave out, though they are unknown or refused.
    :raises SynclineError: with all keys that cannot be used, each with its place.
    """
    refuse_code(path, "Megatron-Bridge", "convert run_config.yaml, which the job writes beside its checkpoints")
    found = known(read_settings(path), keys(), ignored, "Megatron-Bridge")
    if model is None and not found.problems and not _SIZES & found.found.keys():
        raise_errors(
            error(
                Code.MISSING_KEY,
                "this file overrides a recipe, which has the sizes of the model",
                mark=Mark(Text(path, ()), 0, 0, 0),
                key="--model",
                help="add --model NAME, such as llama3-70b, or the path of its config.json; or convert run_config.yaml",
            )
        )
    # A file without sizes overrides a recipe.
    overrides = model is not None and "model.num_layers" not in found.found
    defaults = recipe(found.found) if overrides else {}
    given = Settings({**defaults, **found.found}, "Megatron-Bridge")
    settings = Settings(megatron(given), "Megatron-Bridge", SPELLED)
    options = Given.of(accelerator, gpus, vocab=vocab, model=model)
    map_settings(settings, options)
    experts = options.architecture is not None and options.architecture.experts is not None
    if any(name.startswith("peft.") and not each.off for name, each in found.found.items()):
        adapters(given, settings, experts=experts)
    if overrides:
        _note_degrees(given, settings, experts=experts)
    problems = [*found.problems, *given.problems]
    if gpus is None:
        problems.append(
            error(
                Code.MISSING_KEY,
                "the number of accelerators is not in the file",
                mark=Mark(Text(path, ()), 0, 0, 0),
                key="--gpus",
                help="add --gpus N",
            )
        )
    mapped = [each.said for name, each in found.found.items() if name in given.used]
    return convert(Path(path).stem, Path(path).name, settings, found.left_out(given), problems, mapped=mapped)


def _note_degrees(given: Settings, settings: Settings, *, experts: bool) -> None:
    """Says which degrees of parallelism the file does not have, though its recipe may."""
    degrees = DEGREES if experts else DEGREES[:-1]
    if absent := [each.removeprefix("model.") for each in degrees if not given.has(each)]:
        settings.warnings.append(f"absent degrees count as 1, whatever the recipe says: {', '.join(absent)}")
