"""Settings of software that trains with Megatron Core, by the names of Megatron-LM's arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline.jobs.settings import Setting

if TYPE_CHECKING:
    from syncline.jobs.settings import Settings


@dataclass(frozen=True, slots=True)
class Renamed:
    """The settings of a file, and the arguments of Megatron-LM that they are."""

    given: Settings
    """The settings by their own names."""
    found: dict[str, Setting] = field(default_factory=dict)
    """The settings by names of arguments, without dashes; each is written as in the file."""

    def put(self, argument: str, key: str, *, value: Any = True) -> None:
        """Sets an argument by the setting ``key``, which is then used. Without a value, the argument is a switch."""
        setting = self.given.found[key]
        self.given.used.add(key)
        self.found[argument] = Setting(value, setting.said, setting.mark, setting.unknown)

    def default(self, argument: str, why: str, *, value: Any = True) -> None:
        """Sets an argument that no setting gives; ``why`` says which default counts."""
        self.found[argument] = Setting(value, why, None)
