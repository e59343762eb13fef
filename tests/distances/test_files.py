"""Files of measurements: what is written is read back, and what cannot be is refused by its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.distances import Measured, Pair, read, save, table
from syncline.errors import SynclineError

FULL = Pair(11e-6, 12e-6, 0.5e-6, 100, 2, 1, 1.25e9, 3)
MEASURED = Measured(
    ("b", "a", "c"), {(0, 1): FULL, (1, 0): Pair(13e-6, samples=9), (2, 0): Pair(lost=5), (1, 2): Pair(20e-6)}
)


@pytest.mark.parametrize("name", ["probe.parquet", "probe.csv"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    save(MEASURED, path)
    found = read(path)
    assert found.hosts == ("b", "a", "c")
    assert found.pairs == MEASURED.pairs
    # Of both directions the larger round trip and the lower rate.
    assert found.round_trips == {(0, 1): 13e-6, (1, 2): 20e-6}
    assert found.rates == {(0, 1): 1.25e9}


def test_some_hosts_are_renumbered() -> None:
    some = MEASURED.among([2, 1])
    assert (some.hosts, some.pairs) == (("c", "a"), {(1, 0): Pair(20e-6)})


def written(folder: Path, text: str) -> Measured:
    path = folder / "measured.csv"
    path.write_text(text, "utf-8")
    return read(str(path))


def test_pairs_in_other_units_are_read(tmp_path: Path) -> None:
    found = written(tmp_path, "# by ping\nfrom, to, rtt_us\nx,y,10\ny,z,\nz,x,2.5\n")
    assert found.hosts == ("x", "y", "z")
    assert found.round_trips == {(0, 1): pytest.approx(10e-6), (0, 2): pytest.approx(2.5e-6)}


def test_a_matrix_is_read(tmp_path: Path) -> None:
    found = written(tmp_path, "ms,x,y,z\nx,0,1,\ny,2,0,nan\n")
    assert found.hosts == ("x", "y", "z")
    assert found.round_trips == {(0, 1): pytest.approx(2e-3)}
    rows = found.matrix(found.round_trips)
    assert rows[0][1] == rows[1][0] == pytest.approx(2e-3)
    assert rows[2][2] == 0
    assert rows[0][2] != rows[0][2], "not measured"


@pytest.mark.parametrize(
    ("text", "code", "message", "line"),
    [
        ("", "SL0106", "the file is empty", 0),
        ("from,to,rtt_us\nx,y\n", "SL0106", "2 cells under 3 columns", 2),
        ("from,to,rrt_us\nx,y,1\n", "SL0101", "column `rrt_us` is unknown", 1),
        ("from,rtt_us\nx,1\n", "SL0103", "missing column `to`", 1),
        ("from,to,rtt_us,rtt_s\nx,y,1,1\n", "SL0102", "round trips are given in several units", 1),
        ("from,to,rtt_us\nx,y,fast\n", "SL0102", "not a number", 2),
        ("from,to,rtt_us\nx,y,-1\n", "SL1301", "line 2: x to y: impossible value", 2),
        ("from,to,rtt_us\nx,y,nan\n", "SL0102", "not a number", 2),
        ("from,to,rtt_us\nx,y,inf\n", "SL0102", "not a number", 2),
        ("from,to,rate_bytes_per_s\nx,y,0\n", "SL1301", "line 2: x to y: impossible value", 2),
        ("from,to,rtt_us\nx,x,1\n", "SL1301", "a host is measured from itself", 2),
        ("from,to,rtt_us\nx,y,1\n\nx,y,1\n", "SL1301", "a pair is given twice", 4),
        ("from,to,samples\nx,y,1.5\n", "SL0102", "not a whole number", 2),
        ("from,to,rtt_us\n,y,1\n", "SL0102", "a host has no name", 2),
        ("us,x,y\nx,0,1\nz,1,0\n", "SL1301", "the row is of a host that has no column", 3),
        ("us,x,x\nx,0,1\n", "SL1301", "two hosts have one name", 1),
        ("us,x,y\nx,0,1\nx,0,1\n", "SL1301", "a host has two rows", 3),
        ("us,x,y\nx,0\n", "SL0106", "1 numbers for 2 hosts", 2),
        (",x,y\nx,0,1\n", "SL0104", "the first cell of a matrix is the unit of its numbers", 1),
        ("us,x\nx,0\n", "SL1301", "a file holds measurements of 2 to 16,384 hosts", 1),
        ('from,to,rtt_us\n"x,y,1\n', "SL0106", "not well-formed CSV: unexpected end of data", 2),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, code: str, message: str, line: int) -> None:
    with pytest.raises(SynclineError) as refused:
        written(tmp_path, text)
    (problem,) = refused.value.diagnostics
    assert (problem["code"], problem["message"], problem["place"].get("line", 0)) == (code, message, line)


def test_other_tables_are_refused(tmp_path: Path) -> None:
    from syncline import _core

    path = tmp_path / "other.parquet"
    path.write_bytes(_core.table_to_parquet("other", "", [("x", "", "int", [1])]))
    with pytest.raises(SynclineError, match="the table holds no measurements between hosts"):
        read(str(path))
    path.write_bytes(b"PAR1")
    with pytest.raises(SynclineError, match="truncated or corrupt"):
        read(str(path))
    with pytest.raises(SynclineError) as refused:
        read(str(tmp_path / "none.parquet"))
    assert refused.value.exit_status == 3


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SynclineError, match="cannot be written") as refused:
        save(MEASURED, str(tmp_path / "none" / "probe.parquet"))
    assert refused.value.exit_status == 3


def test_tables_are_read_by_columns_as_row_by_row(tmp_path, monkeypatch):
    pairs = {
        (0, 1): Pair(rtt_s=1e-5, samples=3, lost=1),
        (2, 0): Pair(rate_bytes_per_s=1e9, transfers=2),
        (1, 0): Pair(rtt_s=2e-5, rtt_median_s=3e-5, rtt_error_s=0.0, samples=40, duplicates=1),
    }
    path = str(tmp_path / "probe.parquet")
    save(Measured(("a", "b", "c"), pairs), path)
    by_columns = read(path)
    monkeypatch.setattr(table, "_plausible", lambda *_: False)
    assert read(path) == by_columns == Measured(("a", "b", "c"), pairs, path)
