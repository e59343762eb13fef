"""What the tests of experiments share: every figure, and each studied once in full."""

from __future__ import annotations

from functools import cache

from experiments.harness import library
from experiments.harness.study import study

EXPERIMENTS = [each for paper in library.papers() for each in library.find(paper, [])]


def title(experiment):
    """A figure as tests name it."""
    return f"{experiment.paper}/{experiment.name}"


@cache
def studied(paper, name):
    """A figure under full settings."""
    (experiment,) = library.find(paper, [name])
    return study(experiment, "queued", quick=False)


@cache
def quickly(paper, name):
    """A figure under quick settings."""
    (experiment,) = library.find(paper, [name])
    return study(experiment, "queued", quick=True)
