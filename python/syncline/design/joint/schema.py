"""Makes the JSON schema of a spec of the search for strategy and topology, for editors."""

from __future__ import annotations

from typing import Any

from syncline.config.schema import as_text, build_of
from syncline.design.joint import spec

FILE = "syncline-joint.schema.json"
"""Name of the file at the root of the project."""


def text() -> str:
    """The text of the schema's file."""
    return as_text(build())


def build() -> dict[str, Any]:
    """The schema. It accepts anything in sections that have the form of a scenario's sections."""
    return build_of(spec.Joint, "syncline design joint", (spec,))
