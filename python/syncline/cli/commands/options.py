"""Command-line options that change values of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.input.source import Override

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def overrides(sets: Iterable[str], options: Mapping[str, tuple[str, str | None]]) -> list[Override]:
    """The overrides that the command line asks for: those of ``--set``, then those of other options.

    ``options`` maps a flag to the path of the key that it sets, and its value; None where the flag is absent.
    """
    found = [Override.parse(text) for text in sets]
    found += [Override(path, value, flag) for flag, (path, value) in options.items() if value is not None]
    return found
