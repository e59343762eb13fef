"""Converts the YAML files of NeMo 1 into job files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syncline.jobs.converted import Converted, convert
from syncline.jobs.given import Given
from syncline.jobs.keys import known, read_keys
from syncline.jobs.megatron.mapping import map_settings
from syncline.jobs.nemo.mapping import SPELLED, adapted, megatron
from syncline.jobs.python_code import refuse_code
from syncline.jobs.settings import Settings
from syncline.jobs.yaml_settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = "nemo-keys.yaml"


def convert_nemo(
    path: str,
    *,
    gpus: int | None = None,
    accelerator: str | None = None,
    vocab: int | None = None,
    model: str | None = None,
    ignored: Sequence[str] = (),
) -> Converted:
    """The job file of a YAML file.

    :param gpus: the number of accelerators; without it, ``trainer.num_nodes`` times ``trainer.devices``.
    :param accelerator: their name; without it, H100.
    :param vocab: the size of the vocabulary, where only the tokenizer knows it.
    :param model: a model's name or the path of its ``config.json``, if the file has no sizes.
    :param ignored: keys to leave out, though they are unknown or refused.
    :raises SynclineError: with all keys that cannot be used, each with its place.
    """
    refuse_code(path, "NeMo", "convert a YAML file of NeMo 1, or write a job file")
    found = known(read_settings(path), read_keys(FILE), ignored, "NeMo")
    given = Settings(found.found, "NeMo")
    nodes, devices = given.whole("trainer.num_nodes", 1) or 1, given.whole("trainer.devices", 1) or 1
    said, mark = "", None
    if gpus is None:
        gpus, said = nodes * devices, given.said("trainer.num_nodes", "trainer.devices") or "default of NeMo"
        mark = given.found["trainer.num_nodes"].mark if given.has("trainer.num_nodes") else None
    settings = Settings(megatron(given), "NeMo", SPELLED)
    map_settings(settings, Given.of(accelerator, gpus, said=said, mark=mark, vocab=vocab, model=model))
    adapted(given, settings)
    settings.problems[:0] = given.problems
    if not given.flag("model.megatron_amp_O2"):
        settings.warnings.append(
            "without megatron_amp_O2, parameters are in 32 bits; estimates count 16, and a copy in 32"
        )
    mapped = [each.said for name, each in given.found.items() if name in given.used]
    return convert(Path(path).stem, Path(path).name, settings, found.left_out(given), found.problems, mapped=mapped)
