"""Whether a file can be written is found out without writing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.input.problem import require_writable


def test_a_file_that_can_be_written_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "found.yaml"
    require_writable(path, force=False)
    assert not path.exists()
    path.write_text("kept")
    require_writable(path)
    assert path.read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "why", "status"),
    [
        ("none/found.yaml", "the folder does not exist", 3),
        (".", "it is a folder", 3),
        ("here/found.yaml", "the folder does not exist", 3),
        ("here", "the file exists already", 2),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, name: str, why: str, status: int) -> None:
    (tmp_path / "here").write_text("")
    with pytest.raises(SynclineError, match=why) as refused:
        require_writable(tmp_path / name, force=False)
    assert refused.value.exit_status == status
