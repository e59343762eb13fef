"""Lists of hosts are read as launchers write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.reordering import Format, read_hosts, write


def listed(folder: Path, text: str) -> dict[str, int]:
    (folder / "hosts").write_text(text, "utf-8")
    found = read_hosts(str(folder / "hosts"))
    return dict(zip(found.names, found.slots, strict=True))


def test_lists_of_launchers_are_read(tmp_path: Path) -> None:
    assert listed(tmp_path, "# racks\na slots=8\n\nb slots = 4 max_slots=8\nc:2\nd # last\n") == {
        "a": 8,
        "b": 4,
        "c": 2,
        "d": 1,
    }
    assert listed(tmp_path, "a\na\nb\n") == {"a": 2, "b": 1}
    assert listed(tmp_path, "fe80::1\n10.0.0.1\n") == {"fe80::1": 1, "10.0.0.1": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file lists no hosts"),
        ("a\nb\na\n", "the host is listed twice"),
        ("a slots=many\n", "no number of slots"),
        ("a slots=0\n", "no number of slots"),
        ("a b c\n", "not a line of a host list"),
    ],
)
def test_other_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SynclineError) as refused:
        listed(tmp_path, text)
    assert refused.value.diagnostics[0]["message"] == message


def test_torchrun_has_one_number_of_ranks(tmp_path: Path) -> None:
    with pytest.raises(SynclineError, match="one number of ranks"):
        write(Format.TORCHRUN, str(tmp_path / "x"), ("a", "b"), (1, 2))
    assert not (tmp_path / "x").exists()
