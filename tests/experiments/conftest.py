"""Shared helpers for tests of experiments: all figures, each studied only once."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from experiments.harness import library
from experiments.harness.store import Store
from experiments.harness.study import study

EXPERIMENTS = [each for paper in library.papers() for each in library.find(paper, [])]


LONG = {
    "astra2020/fig17",
    "hier2021/fig13",
    "hier2021/fig14",
    "hier2021/fig16",
    "topoopt2022/fig12",
    "topoopt2022/fig13",
    "topoopt2022/fig14",
    "topoopt2022/fig15",
    "topoopt2022/fig16",
    "topoopt2022/fig21",
}
"""Figures whose full settings take long: 128 NPUs, or hundreds of runs, under each reading. So do those with runs side
by side."""
STORE = Store(Path(os.environ["KEPT"]) if "KEPT" in os.environ else None, os.cpu_count() or 1)
"""Store of full runs: figures share runs. ``KEPT`` names a folder of results that a command has left."""
QUICK = Store()
"""Store of quick runs, which are simulated in this process."""


def title(experiment):
    """The name of a figure in test ids."""
    return f"{experiment.paper}/{experiment.name}"


def slow(takes_long):
    """Marks for a test that takes long: ``slow``, and a timeout of four hours."""
    return [pytest.mark.slow, pytest.mark.timeout(4 * 3600)] if takes_long else []


def takes_long(experiment, *, quick=False):
    """Whether a figure takes long under full settings, or even under quick ones."""
    return title(experiment) in LONG or (bool(experiment.cases) and not quick)


def figures_with_slow_ones(*, quick=False):
    """Every figure; those that take long are marked slow."""
    return [pytest.param(each, id=title(each), marks=slow(takes_long(each, quick=quick))) for each in EXPERIMENTS]


def papers_with_slow_ones():
    """Every paper; those with figures that take long are marked slow."""
    long = {each.paper for each in EXPERIMENTS if takes_long(each)}
    return [pytest.param(paper, marks=slow(paper in long)) for paper in library.papers()]


@cache
def judged(paper, name):
    """The verdicts of a figure under full settings, without other readings."""
    (experiment,) = library.find(paper, [name])
    return study(experiment, choices=False, store=STORE).verdicts


@cache
def studied(paper, name):
    """A figure under full settings."""
    (experiment,) = library.find(paper, [name])
    return study(experiment, store=STORE)


@cache
def quickly(paper, name):
    """A figure under quick settings."""
    (experiment,) = library.find(paper, [name])
    return study(experiment, quick=True, store=QUICK)
