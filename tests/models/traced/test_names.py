"""Errors for unknown names of factories. These tests build nothing, so they need no PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.models.traced.factory import _LISTED, _find


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"names_{tmp_path.name}".replace("-", "_")
    body = "from json import dumps\nclass Zoo:\n    def lion(): pass\ndef _own(): pass\ndef net(): pass\nwidth = 3\n"
    (tmp_path / f"{name}.py").write_text(body, "utf-8")
    (tmp_path / f"{name}_many.py").write_text("\n".join(f"def net{at}(): pass" for at in range(20)), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(
    ("path", "allowed", "nearest"),
    [
        # The module's own names come before imported ones.
        (":nope", "Zoo, net, dumps", None),
        (":nett", "Zoo, net, dumps", "net"),
        (":Zoo.loin", "lion", "lion"),
        ("_many:zoo", ", ".join(sorted(f"net{at}" for at in range(20))[:_LISTED]) + ", 8 more", None),
    ],
)
def test_an_unknown_name_lists_the_known_ones(nets: str, path: str, allowed: str, nearest: str | None) -> None:
    with pytest.raises(SynclineError) as caught:
        _find(nets + path)
    found = caught.value.diagnostics[0]
    assert (found["allowed"], found.get("nearest")) == (allowed, nearest)
