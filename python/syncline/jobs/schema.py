"""Makes the JSON schema of a job file, for editors."""

from __future__ import annotations

from typing import Any

from syncline.config.schema import as_text, build_of
from syncline.estimate import job
from syncline.jobs import job_file
from syncline.models import architecture

FILE = "syncline-job.schema.json"
"""Name of the file at the root of the project."""


def text() -> str:
    """The text of the schema's file."""
    return as_text(build())


def build() -> dict[str, Any]:
    """The schema of a job file."""
    return build_of(job_file.JobFile, "syncline job", (job_file, job, architecture))
