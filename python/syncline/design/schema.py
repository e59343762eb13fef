"""The JSON schema of what is asked of a search, for editors."""

from __future__ import annotations

from typing import Any

from syncline.config.schema import as_text, build_of
from syncline.design import spec

FILE = "syncline-design.schema.json"
"""Name of the file at the root of the project."""


def text() -> str:
    """The schema as a file holds it."""
    return as_text(build())


def build() -> dict[str, Any]:
    """The schema; its sections that are those of a scenario take anything."""
    return build_of(spec.Spec, "syncline design", (spec,))
