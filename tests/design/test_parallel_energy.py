"""Dollars and energy from first principles: kernels' seconds, price an hour, power of a board. No formula is shared."""

from __future__ import annotations

import json
import random
import re

import pytest

from syncline.design.parallel import Costs, Request, search
from syncline.estimate import Job, machine
from syncline.jobs.detail import detail
from syncline.jobs.training_job import TrainingJob
from syncline.models.hugging_face.architecture import architecture
from tests.conftest import Cli
from tests.design.test_parallel import LLAMA_70B

MODEL = architecture(LLAMA_70B, "a model")
GPUS, SEQUENCE, BATCH = 256, 8192, 512


_ROW = r"^ *(\d+) .*? ([\d.]+) s .*? ([\d.,]+) +\$([\d,.]+)( M)? +([\d.]+) ([GM])Wh"
"""A line of the table: accelerators, step, days, dollars, energy."""


@pytest.fixture(scope="module")
def found():
    return search(Request(MODEL, machine("H100"), GPUS, sequence=SEQUENCE, global_batch=BATCH, keep=4000)).best


def kernels(job):
    """Seconds of all kernels of a rank of the slowest stage, one by one, and those of its optimizer."""
    made = detail(TrainingJob("a job", MODEL, machine("H100"), Job.model_validate(job), "megatron"))
    return sum(each.times * each.each_s for each in made.kernels), made.update_s


def alike(job):
    """What must be equal for two pipelines to have the same kernels in all."""
    return tuple(
        str(job[name]) for name in ("tensor", "context", "micro_batch", "recompute", "sequence_parallel", "overlap")
    )


def test_one_stage_computes_as_long_as_its_kernels_take(found):
    alone = [each for each in found if each.job["pipeline"] == 1][:12]
    assert len(alone) > 3
    for each in alone:
        assert each.computing_s == pytest.approx(kernels(each.job)[0], rel=1e-9)


def test_stages_together_compute_what_one_stage_does(found):
    """A pipeline divides the work, and makes none: each rank has as many more micro-batches as it has fewer layers."""
    alone = {alike(each.job): each.job for each in found if each.job["pipeline"] == 1}
    pairs = 0
    for each in found:
        if each.job["pipeline"] > 1 and (other := alone.get(alike(each.job))) is not None:
            whole, update = kernels(other)
            assert each.computing_s == pytest.approx(whole - update + kernels(each.job)[1], rel=1e-6)
            pairs += 1
    assert pairs > 2


def test_energy_is_board_power_by_seconds_of_kernels_and_a_part_of_it_for_the_rest(found):
    draw = random.Random(1)
    for each in draw.sample([one for one in found if one.job["pipeline"] == 1], 4):
        watts, part = draw.uniform(100, 2000), draw.uniform(0, 1)
        busy = kernels(each.job)[0]
        by_hand = sum((watts * busy, watts * part * (each.step_s - busy))) * GPUS
        assert Costs(watts, waiting=part).joules(each) == pytest.approx(by_hand, rel=1e-9)


def test_energy_is_between_that_of_waiting_alone_and_that_of_computing_alone(found):
    """It grows with power, with the part while waiting, and not faster than either."""
    draw = random.Random(2)
    for each in draw.sample(list(found), 40):
        watts, part = draw.uniform(100, 2000), draw.uniform(0, 1)
        all_day = GPUS * watts * each.step_s
        used = Costs(watts, waiting=part).joules(each)
        assert part * all_day <= used <= all_day
        assert Costs(2 * watts, waiting=part).joules(each) == pytest.approx(2 * used)
        assert Costs(watts, waiting=1).joules(each) == pytest.approx(all_day)
        assert Costs(watts, waiting=min(1, part + 0.1)).joules(each) >= used


@pytest.mark.parametrize("seed", range(3))
def test_what_the_command_prints_for_a_trillion_tokens_is_price_by_time(cli: Cli, seed):
    """Of printed numbers: days follow from the step, dollars from days; energy is between waiting and computing."""
    draw = random.Random(seed)
    cli.write("config.json", json.dumps(LLAMA_70B))
    price, watts = round(draw.uniform(0.5, 12), 2), draw.randrange(300, 1500)
    gpus = draw.sample([128, 192, 256, 384, 512], 2)
    given = ("--gpus", ",".join(map(str, sorted(gpus))), "--price", f"{price:.2f}", "--power", f"{watts}W")
    found = cli("design", "parallel", "config.json", *given, "--global-batch", "1536", "--best-by", "energy")
    assert found.returncode == 0, found.stderr
    rows = re.findall(_ROW, found.stdout, re.M)
    assert sorted(int(row[0]) for row in rows) == sorted(gpus), found.stdout
    for count, step, days, dollars, millions, energy, unit in rows:
        seconds = float(step) * 1e12 / (1536 * 8192)
        assert float(days.replace(",", "")) == pytest.approx(seconds / 86_400, rel=2e-3)
        assert float(dollars.replace(",", "")) * (1e6 if millions else 1) == pytest.approx(
            int(count) * price * seconds / 3600, rel=2e-3
        )
        joules = float(energy) * 3600 * {"M": 1e6, "G": 1e9}[unit]
        assert 0.75 < joules / (int(count) * watts * seconds) < 1
