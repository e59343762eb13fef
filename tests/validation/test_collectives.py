"""``syncline validate collectives`` compares measured collectives with predictions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from syncline import nccl
from syncline.nccl.rows import COLUMNS, Row, write
from syncline.validation import collectives
from syncline.validation.outcome import Spread
from tests.conftest import Cli

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "validation" / "collectives"


@pytest.fixture(scope="module")
def rows():
    return collectives.rows_of(ROWS)


def made(sizes=range(10, 30), gpus=(2, 4, 8), machine="gb200", factor=1.0):
    """Rows with the times of a machine of the package, times a factor."""
    loaded = nccl.load(machine)
    calls = [(1 << size, 2, each, 1, 1) for each in gpus for size in sizes]
    times = loaded.times("all_gather", calls)
    return [
        Row(machine, "", "", "all_gather", "half", call[2], 1, call[0], time.seconds * factor, "made up")
        for call, time in zip(calls, times, strict=True)
    ]


def test_times_of_the_model_have_no_error():
    (two, four, eight) = collectives.validate(made())
    assert (two.gpus, four.gpus, eight.gpus) == (2, 4, 8)
    for group in (two, four, eight):
        assert group.errors("in_sample").largest < 1e-9
        assert group.errors("sizes_left_out").median < 0.01
        assert group.errors("gpus_left_out").median < 0.03


def test_simulations_have_the_errors_of_the_model():
    (group,) = collectives.validate(made(gpus=(4,), factor=1.25), left_out=False, simulated=True)
    for point in group.points:
        assert point.simulated == pytest.approx(point.in_sample, abs=1e-5)
    assert group.errors("simulated").median == pytest.approx(0.2, abs=1e-5)


def test_errors_are_relative_to_what_was_measured():
    (group,) = collectives.validate(made(gpus=(2,), factor=1.25), left_out=False)
    # A prediction of 1 for a measurement of 1.25 is 20 % off.
    found = group.errors("in_sample")
    assert (found.rows, round(found.median, 6), round(found.p90, 6), round(found.largest, 6)) == (20, 0.2, 0.2, 0.2)
    assert group.errors("sizes_left_out") is None


def test_left_out_rows_never_calibrate():
    """A number of GPUs with impossible times does not change the predictions for it."""
    wrong = [row if row.gpus != 8 else Row(**{**vars_of(row), "seconds": row.seconds * 7}) for row in made()]
    eight = next(group for group in collectives.validate(wrong) if group.gpus == 8)
    # Predictions from 2 and 4 GPUs stay at a seventh of the times.
    assert eight.errors("gpus_left_out").median == pytest.approx(6 / 7, abs=0.01)


def vars_of(row):
    return {column: getattr(row, column) for column in COLUMNS}


def test_repeats_show_the_noise():
    rows = made(sizes=range(10, 20), gpus=(2,))
    # Two times of each call, 4 % apart: each is 2 % from their median.
    twice = [*rows, *(Row(**{**vars_of(row), "seconds": row.seconds * 1.04}) for row in rows)]
    assert collectives.repeats(twice) == pytest.approx(0.02, abs=5e-4)
    assert collectives.repeats(rows) is None


def test_the_rows_of_the_repository_are_of_the_machines_of_the_package(rows):
    assert len(rows) > 6000
    assert {row.system for row in rows} <= set(nccl.names())
    assert all(row.source for row in rows)


def test_the_bar_of_the_package_holds(rows):
    """In sample, on all machines, in one node; a change of the model must not make it worse."""
    near = [row for row in rows if row.nodes == 1]
    groups = collectives.validate(near, left_out=False)
    errors = Spread.of(collectives.of_kind([point for group in groups for point in group.points], "in_sample"))
    assert errors.median < 0.02
    assert errors.p90 < 0.075


def test_the_command_prints_errors_and_draws(cli: Cli):
    pytest.importorskip("matplotlib")
    options = ("--rows", str(ROWS), "--machine", "gb200", "--operation", "all_reduce")
    done = cli("validate", "collectives", *options, "--plot", "errors.svg")
    assert done.returncode == 0, done.stderr
    assert "all_reduce" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    picture = (cli.folder / "errors.svg").read_text()
    assert picture.startswith("<?xml")
    # One panel is 3.6 by 2.8 inches; at 8 points, a letter is 5 points wide at most, and none leaves the picture.
    label = re.search(r">([^<]*time of a call[^<]*)<", picture)
    assert label is not None and len(label[1]) * 5 < 2.8 * 72
    groups = json.loads(cli("validate", "collectives", *options, "--json", "--no-left-out").stdout)["groups"]
    assert [(group["gpus"], group["machine"]) for group in groups] == [(2, "gb200"), (4, "gb200")]
    assert groups[0]["in_sample"]["median"] < 0.02
    assert groups[0]["sizes_left_out"] is None


def test_a_folder_without_rows_is_an_error(cli: Cli):
    done = cli("validate", "collectives")
    assert done.returncode == 2
    assert "--rows" in done.stderr
    done = cli("validate", "collectives", "--rows", str(ROWS), "--machine", "gb2000")
    assert done.returncode == 2
    assert "gb200" in done.stderr


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,b,c,all_reduce,half,2,1,8,1e-5", "number of cells"),
        ("a,b,c,all_reduced,half,2,1,8,1e-5,s", "unknown operation"),
        ("a,b,c,all_reduce,halves,2,1,8,1e-5,s", "unknown data type"),
        ("a,b,c,all_reduce,half,two,1,8,1e-5,s", "cannot be read"),
        ("a,b,c,all_reduce,half,3,2,8,1e-5,s", "impossible numbers"),
        ("a,b,c,all_reduce,half,2,1,8,0,s", "impossible numbers"),
    ],
)
def test_malformed_rows_are_errors_with_their_line(cli: Cli, row, message):
    cli.write("rows/bad.csv", ",".join(COLUMNS) + "\n" + row + "\n")
    done = cli("validate", "collectives", "--rows", "rows")
    assert done.returncode != 0
    assert message in done.stderr
    assert "bad.csv:2" in done.stderr


def test_rows_are_written_as_they_are_read(tmp_path):
    rows = made(sizes=range(10, 13))
    for name in ("rows.csv", "rows.csv.gz"):
        write(tmp_path / name, rows)
        assert [row.bytes for row in collectives.rows_of(tmp_path)] == [row.bytes for row in rows]
        (tmp_path / name).unlink()
