"""Makes the JSON schema of a search's spec, for editors."""

from __future__ import annotations

from typing import Any

from syncline.config.schema import as_text, build_of
from syncline.design.bandwidth import spec

FILE = "syncline-design.schema.json"
"""Name of the file at the root of the project."""


def text() -> str:
    """The text of the schema's file."""
    return as_text(build())


def build() -> dict[str, Any]:
    """The schema. It accepts anything in sections that have the form of a scenario's sections."""
    return build_of(spec.Spec, "syncline design", (spec,))
