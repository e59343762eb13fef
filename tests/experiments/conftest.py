"""What the tests of experiments share: every figure, and each studied once in full."""

from __future__ import annotations

from functools import cache

import pytest

from experiments.harness import library
from experiments.harness.runner import Runner
from experiments.harness.study import study

EXPERIMENTS = [each for paper in library.papers() for each in library.find(paper, [])]


LONG = {"astra2020/fig17"}
"""Figures whose full settings take long: 128 NPUs under each reading."""


def title(experiment):
    """A figure as tests name it."""
    return f"{experiment.paper}/{experiment.name}"


def with_slow_ones():
    """Every figure; those that take long are marked slow."""
    marks = {name: [pytest.mark.slow] for name in LONG}
    return [pytest.param(each, id=title(each), marks=marks.get(title(each), [])) for each in EXPERIMENTS]


@cache
def judged(paper, name):
    """The verdicts of a figure under full settings, without other readings."""
    (experiment,) = library.find(paper, [name])
    return experiment.measure(Runner("queued")).verdicts


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
