"""Tables of measured kernels: what is written can be read, and errors in files are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.input import limits
from syncline.kernels import table as module
from syncline.kernels.columns import NAMES, header, line
from syncline.kernels.table import read

FACTS = {"device": "NVIDIA H100 80GB HBM3", "sm_count": 132}
ROW = {"operation": "gemm", "m": 8, "causal": True, "flop": 2**40, "seconds": 0.25e-5, "variant": None}


def table(folder: Path, text: str) -> str:
    file = folder / "t.csv"
    file.write_text(text, "utf-8")
    return str(file)


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = read(table(tmp_path, header(FACTS) + line(ROW) + line({"operation": "copy", "seconds": 1})))
    assert found.facts == {"schema": "syncline-kernels/1", "device": "NVIDIA H100 80GB HBM3", "sm_count": "132"}
    first, second = found.rows
    assert {name: value for name, value in first.items() if value is not None} == {
        name: value for name, value in ROW.items() if value is not None
    }
    assert (second["operation"], second["seconds"], set(second)) == ("copy", 1.0, set(NAMES))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("# schema: syncline-kernels/1\n", ""), "not a table of measured kernels of a version that this can read"),
        (("kernels/1", "kernels/9"), "syncline-kernels/9"),
        (("operation,pass", "operator,pass"), "unknown column `operator`"),
        ((",seconds,", ",repeats,"), "missing column `seconds`"),
        (("2.5e-06", "fast"), "value not allowed for `seconds`"),
        (("2.5e-06", "nan"), "value not allowed for `seconds`"),
        (("2.5e-06", "-1"), "value not allowed for `seconds`"),
        (("2.5e-06", ""), "a row without `seconds`"),
        ((",true,", ",yes,"), "value not allowed for `causal`"),
        ((",8,", ",8.5,"), "value not allowed for `m`"),
        (("2.5e-06,", ""), "31 cells under 32 columns"),
    ],
)
def test_an_error_in_a_table_is_named(change: tuple[str, str], expected: str, tmp_path: Path) -> None:
    text = (header(FACTS) + line(ROW)).replace(*change, 1)
    with pytest.raises(SynclineError) as raised:
        read(table(tmp_path, text))
    assert expected in str(raised.value)


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SynclineError, match="no kernel below its header"):
        read(table(tmp_path, header(FACTS)))


def test_a_table_has_a_limit_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FORM", replace(module._FORM, max_rows=2))
    file = table(tmp_path, header(FACTS) + 2 * line(ROW))
    assert len(read(file).rows) == 2
    with pytest.raises(SynclineError, match="more than 2 kernels"):
        read(table(tmp_path, header(FACTS) + 3 * line(ROW)))
    assert limits.MAX_KERNELS == 400_000
