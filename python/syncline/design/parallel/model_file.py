"""Reads the model of a search from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.config.model_file import described
from syncline.models.hugging_face.architecture import architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.models.architecture import Architecture


def read_model(path: str) -> Architecture:
    """The architecture in a ``config.json``.

    :raises SynclineError: the file cannot be read, is no JSON, or describes a model that is not known.
    """
    file = Path(path)
    # A file of this name is in a folder that is named after the model.
    name = file.resolve().parent.name if file.stem == "config" else file.stem

    def made(config: Mapping[str, Any]) -> Architecture:
        said = config.get("_name_or_path")
        return architecture(config, said if isinstance(said, str) and said else name)

    return described(path, made)
