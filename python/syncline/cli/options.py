"""Options that change a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.config.source import Override

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def overrides(sets: Iterable[str], options: Mapping[str, tuple[str, str | None]]) -> list[Override]:
    """What the command line puts in place of the file's values: ``--set`` first, then options of their own."""
    found = [Override.parse(text) for text in sets]
    found += [Override(path, value, flag) for flag, (path, value) in options.items() if value is not None]
    return found
