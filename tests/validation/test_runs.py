"""Files of runs: every wrong cell is reported at its place."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.input import limits
from syncline.validation import runs as module
from syncline.validation.runs import read_runs
from tests.validation.rows import write


def problems(path):
    with pytest.raises(SynclineError) as raised:
        read_runs(path)
    return raised.value.diagnostics


def test_a_row_is_read(tmp_path):
    (placed,) = read_runs(write(tmp_path, sequence_parallel="yes", memory_gib=40.5)).used
    assert (placed.run.gpus, placed.run.replicas, placed.run.micro_batches) == (16, 2, 4)
    assert placed.run.sequence_parallel
    assert placed.run.memory_bytes == 40.5 * 2**30


@pytest.mark.parametrize(
    ("column", "cell", "allowed"),
    [
        ("gpus", "many", "a whole number"),
        ("gpus", "0", "at least 1"),
        ("gpus", "2147483648", "below 2147483648"),
        ("micro_batch", "1" + 18 * "0", "below 2147483648"),
        ("zero", "4", "at most 3"),
        ("step_s", "-0.5", "above 0"),
        ("step_s", "nan", "a number"),
        ("sequence_parallel", "maybe", "yes, no"),
    ],
)
def test_a_wrong_cell_is_named(tmp_path, column, cell, allowed):
    (found,) = problems(write(tmp_path, **{column: cell}))
    assert (found["key"], found["found"], found["allowed"]) == (column, cell, allowed)
    assert found["place"]["line"] == 2
    assert found["place"]["text"][found["place"]["column"] - 1 :].startswith(cell)


def test_a_misspelt_word_is_named_with_the_nearest(tmp_path):
    (found,) = problems(write(tmp_path, precision="bf61"))
    assert found["nearest"] == "bf16"
    assert "mxfp8" in found["allowed"]


def test_an_unknown_column_is_named_with_the_nearest(tmp_path):
    (found,) = problems(write(tmp_path, microbatch=1))
    assert found["message"] == "unknown column `microbatch`"
    assert found["nearest"] == "micro_batch"


@pytest.mark.parametrize(("separator", "called"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")])
def test_other_separators_than_commas_are_named_once(tmp_path, separator, called):
    path = tmp_path / "runs.csv"
    path.write_text(separator.join(("id", "model", "gpus")) + "\n", "utf-8")
    (found,) = problems(path.as_posix())
    assert (found["message"], found["allowed"]) == (f"{called} separate the columns", "commas")


def test_the_place_of_a_cell_behind_a_quoted_one_is_right(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(
        "id,source,model,cluster,gpus,micro_batch,global_batch,sequence,precision,step_s\n"
        'a,"a table, page 3",llama3-8b,dgx-h100,x,1,8,8192,bf16,1\n',
        "utf-8",
    )
    (found,) = problems(path.as_posix())
    assert (found["place"]["line"], found["place"]["column"]) == (2, 40)


def test_a_missing_column_is_named(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("id,model,cluster,gpus,micro_batch,global_batch,sequence,step_s\na,b,c,1,1,1,1,1\n", "utf-8")
    (found,) = problems(path.as_posix())
    assert found["message"] == "missing column `precision`"


def test_two_rows_of_one_id_are_named(tmp_path):
    (found,) = problems(write(tmp_path, {}, {}))
    assert found["message"] == "two rows have the id `a`"
    assert found["help"] == "the first is in line 2"


def test_a_run_that_fits_needs_a_step(tmp_path):
    (found,) = problems(write(tmp_path, step_s=""))
    assert found["key"] == "step_s"
    assert len(read_runs(write(tmp_path, step_s="", fits="no"))) == 1


def test_all_wrong_cells_are_reported_at_once(tmp_path):
    assert len(problems(write(tmp_path, {"id": "a", "gpus": "x"}, {"id": "b", "step_s": 0}))) == 2


def test_an_excluded_row_may_lack_anything(tmp_path):
    found = read_runs(write(tmp_path, {"id": "a"}, {"id": "b", "gpus": "", "excluded": "no batch is published"}))
    assert len(found) == 1
    assert [(each.id, each.reason) for each in found.excluded] == [("b", "no batch is published")]


def test_a_file_without_rows_is_an_error(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("id,model,cluster,gpus,micro_batch,global_batch,sequence,precision,step_s\n", "utf-8")
    (found,) = problems(path.as_posix())
    assert found["message"] == "the file has no run below its header"
    assert found["code"] == "SL0106"


def test_rows_are_limited(tmp_path, monkeypatch):
    from dataclasses import replace

    assert module._FORM.max_rows == limits.MAX_RUNS
    assert module._FORM.max_bytes == limits.MAX_RUN_FILE_BYTES
    monkeypatch.setattr(module, "_FORM", replace(module._FORM, max_rows=2))
    two = [{"id": "a"}, {"id": "b"}]
    assert len(read_runs(write(tmp_path, *two))) == 2
    (found,) = problems(write(tmp_path, *two, {"id": "c"}))
    assert found["message"] == "more than 2 runs"
