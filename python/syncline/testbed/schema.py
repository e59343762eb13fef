"""The JSON schema of a testbed's file, for editors."""

from __future__ import annotations

from syncline.config.schema import as_text, build_of
from syncline.testbed import spec
from syncline.testbed.traffic import spec as traffic

FILE = "syncline-testbed.schema.json"
"""Name of the schema's file at the root of the project."""


def text() -> str:
    """Returns the text of the schema's file."""
    return as_text(build_of(spec.Spec, "syncline testbed", (spec, traffic)))
