"""Settings of other software as nested mappings, for tests of conversions."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from syncline.jobs.converted import Converted


def changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with other values, by dotted names; None removes a key."""
    made = copy.deepcopy(dict(base))
    for path, value in changes.items():
        *inner, last = path.split(".")
        at = made
        for key in inner:
            at = at.setdefault(key, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return made


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """All values by dotted names; a mapping without keys is a value."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def names_of(said: tuple[str, ...], between: str = ": ") -> list[str]:
    """The names of settings from how they are written, such as ``model.hidden: 1``."""
    return [each.partition(between)[0] for each in said]


def named_in(found: Converted, between: str = ": ") -> list[str]:
    """The names of all settings that a conversion maps or lists, in alphabetical order."""
    return sorted(name for said in (found.mapped, *found.left_out.values()) for name in names_of(said, between))
