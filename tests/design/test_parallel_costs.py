"""The search by dollars and energy: against arithmetic by hand, configurations one by one, and data sheets."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from syncline.design.parallel import Costs, Objective, Request, search, sweep
from syncline.design.parallel.objective import COMPUTING, hours
from syncline.design.parallel.search_configurations import batch_of
from syncline.design.parallel.sizes_screen import why
from syncline.errors import SynclineError
from syncline.estimate import machine
from syncline.models.hugging_face.architecture import architecture
from tests.conftest import Cli
from tests.design.test_parallel import LLAMA_70B

COSTS = Costs(board_w=700, usd_per_h=2.5)


def request(gpus=512, **changes):
    given = {"sequence": 8192, "global_batch": 1024, **changes}
    return Request(architecture(LLAMA_70B, "a model"), machine("H100"), gpus, **given)


def requests(*counts, **changes):
    return [request(each, **changes) for each in counts]


def test_a_step_costs_the_price_of_all_accelerators_for_its_time():
    best = search(request()).best[0]
    assert COSTS.usd(best) == pytest.approx(512 * 2.5 * best.step_s / 3600)
    assert Costs(700).usd(best) is None


def test_a_step_takes_board_power_while_it_computes_and_half_of_it_while_it_waits():
    best = search(request()).best[0]
    # No pipeline has equal stages here: the mean computes at most as long as the slowest one.
    slowest = sum(best.parts[name] for name in COMPUTING)
    assert 0.9 * slowest < best.computing_s <= slowest * (1 + 1e-12)
    expected = 512 * (700 * best.computing_s + 350 * (best.step_s - best.computing_s))
    assert COSTS.joules(best) == pytest.approx(expected)
    assert Costs(700, waiting=1.0).joules(best) == pytest.approx(512 * 700 * best.step_s)


@pytest.mark.parametrize("objective", list(Objective))
def test_parts_add_up_to_what_is_least(objective):
    for each in search(request(keep=30)).best:
        assert sum(COSTS.parts(each, objective).values()) == pytest.approx(COSTS.score(each, objective))


def test_stages_that_are_alike_compute_all_the_time_that_is_computed():
    """Without a pipeline there is one stage."""
    alone = [each for each in search(request(keep=1000)).best if each.job["pipeline"] == 1]
    assert alone
    for each in alone:
        assert each.computing_s == pytest.approx(sum(each.parts[name] for name in COMPUTING))


def test_the_configuration_with_least_energy_is_the_least_of_all():
    every = search(request(keep=10_000, variants=True)).best
    found = sweep(requests(512, keep=20), Objective.ENERGY, COSTS)
    energies = [COSTS.joules(each) for each in found.best.best]
    assert energies == sorted(energies)
    assert energies[0] == pytest.approx(min(COSTS.joules(each) for each in every), rel=1e-9)
    assert found.best.best[0].step_s >= every[0].step_s


def test_more_accelerators_are_faster_and_cost_more():
    found = sweep(requests(128, 256, 512, 1024), Objective.DOLLARS, COSTS)
    steps = [each.best[0].step_s for each in found.founds]
    dollars = [COSTS.usd(each.best[0]) for each in found.founds]
    assert steps == sorted(steps, reverse=True)
    cheapest = min(range(4), key=lambda at: dollars[at])
    assert found.best is found.founds[cheapest]
    fastest = sweep(requests(128, 256, 512, 1024), Objective.TIME, COSTS)
    assert fastest.best.request.gpus == 1024


def test_nothing_beats_what_is_on_the_frontier():
    found = sweep(requests(128, 192, 256, 384, 512, global_batch=1536), Objective.TIME, COSTS)
    points = [(each.best[0].step_s, hours(each.best[0])) for each in found.founds]
    on = [(each.best[0].step_s, hours(each.best[0])) for each in found.frontier]
    for point in points:
        beaten = any(a <= point[0] and b <= point[1] and (a, b) != point for a, b in points)
        assert (point in on) != beaten
    assert on == sorted(on, reverse=True)


def test_numbers_with_which_nothing_fits_are_listed_with_the_reason():
    found = sweep(requests(8, 512), Objective.TIME, COSTS)
    assert [each.request.gpus for each in found.founds] == [512]
    assert found.refused[0].gpus == 8 and "fits into memory" in found.refused[0].reason
    with pytest.raises(SynclineError, match="fits into memory"):
        sweep(requests(4, 8), Objective.TIME, COSTS)


def test_a_batch_for_several_numbers_divides_among_each():
    assert batch_of([256, 512, 1024], 8192) == 1024
    for counts in ([96, 160, 512], [72, 144, 576], [1, 7]):
        batch = batch_of(counts, 8192)
        assert all(batch % each == 0 for each in counts) and batch >= 512


def test_the_reason_names_the_winner_by_each_objective():
    found = sweep(requests(256, 512), Objective.DOLLARS, COSTS)
    assert "costs" in (why(found) or "") and "more" in (why(found) or "")
    assert "takes" in (why(replace(found, objective=Objective.TIME)) or "")
    assert "energy" in (why(replace(found, objective=Objective.ENERGY)) or "")


def test_the_command_shows_the_frontier(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    given = ("design", "parallel", "config.json", "--gpus", "256,512,1024", "--price", "$2.50", "--best-by", "dollars")
    found = cli(*given)
    assert found.returncode == 0, found.stderr
    assert "dollars" in found.stdout and "700 W" in found.stdout and "best" in found.stdout
    told = json.loads(cli(*given, "--json").stdout)["parallel"]["costs"]
    assert [each["gpus"] for each in told["numbers"]] == [256, 512, 1024]
    for each in told["numbers"]:
        assert each["usd"] == pytest.approx(2.5 * each["gpus"] * each["step_s"] / 3600)
    assert told["best_gpus"] == min(told["numbers"], key=lambda each: each["usd"])["gpus"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--best-by", "dollars"], ["--best-by dollars", "--price 2.50"]),
        (["--price", "0"], ["--price", "found `0`", "from 0.001 to"]),
        (["--price", "-2"], ["--price", "found `-2`"]),
        (["--price", "2,50"], ["--price", "found `2,50`"]),
        (["--price", "nan"], ["--price", "found `nan`"]),
        (["--price", "1e3"], ["--price"]),
        (["--power", "700 V"], ["--power", "700W"]),
        (["--power", "0W"], ["--power", "1 W to 100 kW"]),
        (["--power", "101kW"], ["--power", "1 W to 100 kW"]),
        (["--gpus", "512,"], ["--gpus", "256,512,1024"]),
        (["--gpus", "0"], ["--gpus", "found `0`"]),
        (["--gpus", "512,x"], ["--gpus", "found `x`"]),
        (["--gpus", "1000001"], ["--gpus", "1,000,000"]),
        (["--gpus", ",".join(map(str, range(1, 40)))], ["--gpus", "at most 32"]),
        (["--gpus", "999983,999979"], ["--gpus", "--global-batch"]),
    ],
)
def test_bad_prices_powers_and_numbers_are_refused(cli: Cli, options, words):
    cli.write("config.json", json.dumps(LLAMA_70B))
    given = [] if "--gpus" in options else ["--gpus", "512"]
    found = cli("design", "parallel", "config.json", *given, *options)
    assert found.returncode == 2
    assert all(word in found.stderr for word in words), found.stderr


def test_a_power_in_kilowatts_is_one_in_watts(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    given = ("design", "parallel", "config.json", "--gpus", "512", "--json", "--power")
    kilo, watts = (json.loads(cli(*given, text).stdout)["parallel"]["costs"] for text in ("1.3kW", "1300W"))
    assert kilo == watts and kilo["board_w"] == 1300
