from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from syncline.config.load import Loaded, load
from syncline.errors import SynclineError
from syncline.input.source import Override


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Loaded]:
    """A function that loads a text as the file ``s.yaml``, with command-line overrides."""
    monkeypatch.chdir(tmp_path)

    def loaded(text: str, *sets: str) -> Loaded:
        Path("s.yaml").write_text(text, "utf-8")
        return load("s.yaml", [Override.parse(each) for each in sets])

    return loaded


@pytest.fixture
def refused(scenario: Callable[..., Loaded]) -> Callable[..., str]:
    """A function that returns the error text of a scenario."""

    def text(content: str, *sets: str) -> str:
        with pytest.raises(SynclineError) as caught:
            scenario(content, *sets)
        return str(caught.value)

    return text
