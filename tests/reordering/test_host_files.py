"""Files that launchers take."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.reordering import Format, write


def test_torchrun_has_one_number_of_ranks(tmp_path: Path) -> None:
    with pytest.raises(SynclineError, match="the same number of ranks on every host"):
        write(Format.TORCHRUN, str(tmp_path / "x"), ("a", "b"), (1, 2))
    assert not (tmp_path / "x").exists()
