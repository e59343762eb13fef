"""Plans that follow from what ranks find out about their network when a job begins.

The runtime does not know how. Packages offer ways under the entry point ``syncline.groups``: functions that all ranks
call with the new communicator, and that change its plans. ``probe`` is that of :mod:`syncline.tuning`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeAlias

from syncline.input.problem import bad_value, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.runtime.communicator import Communicator

    Groups: TypeAlias = str | Callable[[Communicator], Any]
    """The name of a way, or a function."""

ENTRY_POINTS = "syncline.groups"


def finder(groups: Groups) -> Callable[[Communicator], Any]:
    """Returns the function that finds groups.

    Raises ``SynclineError`` (SL0102) if no package offers a way of this name.
    """
    if callable(groups):
        return groups
    if not isinstance(groups, str):
        raise bad_value("this is no way to find groups", shown(groups), allowed="a name, such as probe, or a function")
    offered = entry_points(group=ENTRY_POINTS)
    if groups not in offered.names:
        names = sorted(offered.names)
        raise bad_value(
            "there is no such way to find groups",
            repr(groups),
            allowed=", ".join(names) or "a function",
            nearest=nearest(str(groups), names),
        )
    found: Callable[[Communicator], Any] = offered[groups].load()
    return found
