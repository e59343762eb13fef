"""Configurations that a search found, as training jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.design.parallel.assumptions import FRAMEWORK
from syncline.jobs import TrainingJob

if TYPE_CHECKING:
    from syncline.design.parallel.search_configurations import Configuration, Request


def training_job(request: Request, configuration: Configuration) -> TrainingJob:
    """The job of a configuration."""
    architecture = request.architecture
    return TrainingJob(
        architecture.source, architecture, request.machine, configuration.how, FRAMEWORK, request.constants
    )
