"""Single changes of a job: each is a job that can be written, and better than the one it changes."""

from __future__ import annotations

import json

import pytest

from syncline.jobs import estimate, faster
from tests.conftest import Cli
from tests.jobs.test_estimate import DENSE, EXPERTS, changed, outcome, read

SLOW = changed(DENSE, parallel__virtual_stages=1, recompute="full", overlap={})
TOO_LARGE = changed(DENSE, parallel__pipeline=1, parallel__virtual_stages=1, parallel__zero=0)


@pytest.mark.parametrize("base", [DENSE, EXPERTS, SLOW, changed(DENSE, cluster__accelerator="B200")])
def test_each_change_is_what_the_changed_file_gives(base):
    """Written into the job file, each change gives the step and memory that are promised."""
    found = estimate(read(base))
    for each in faster(found):
        path = each.key.replace(".", "__")
        assert outcome(changed(base, **{path: each.value}))[:2] == (each.estimate.step_s, each.estimate.memory_bytes)


@pytest.mark.parametrize("base", [SLOW, EXPERTS])
def test_changes_of_a_job_that_fits_are_faster_and_fit(base):
    found = estimate(read(base))
    better = faster(found)
    assert better
    assert all(each.estimate.step_s < 0.99 * found.step_s and each.estimate.fits for each in better)
    steps = [each.estimate.step_s for each in better]
    assert steps == sorted(steps)


def test_what_makes_a_job_slow_is_among_the_faster():
    named = {each.key for each in faster(estimate(read(SLOW)))}
    assert "recompute" in named


def test_a_job_that_does_not_fit_has_changes_that_make_it_fit_instead():
    found = estimate(read(TOO_LARGE))
    assert not found.fits and not faster(found) and found.changes


def test_the_command_lists_them(cli: Cli):
    from syncline.input.dump import dump

    cli.write("job.yaml", dump(SLOW))
    found = cli("estimate", "job.yaml")
    assert "a single change" in found.stdout and "recompute=none" in found.stdout
    listed = json.loads(cli("estimate", "job.yaml", "--json").stdout)["estimate"]["faster"]
    assert listed[0]["step_s"] < estimate(read(SLOW)).step_s
