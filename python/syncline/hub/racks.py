"""Racks of ranks, with hubs in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from syncline.config.problem import error, refuse
from syncline.hub.service import PORT
from syncline.runtime.addresses import resolve, with_port
from syncline.runtime.racks import places, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Racks:
    """Racks of ranks, with hubs in each that exchange what they have summed.

    ``of`` is the rack of each rank. ``hubs`` are the addresses of each rack's hubs: as many in each, with as many cores
    and interfaces. ``between`` says how they exchange: ``sharded`` (each sums a part for all) or ``ring``.
    """

    of: Sequence[int]
    hubs: Sequence[Sequence[str]]
    between: str = "sharded"

    @classmethod
    def read(cls, file: str | Path) -> Self:
        """Racks of a file, a line for each.

        It has the addresses of the rack's hubs, a colon between blanks, and its ranks::

            10.0.0.9 : 0 1 2 3
            10.0.1.9 : 4 5 6 7

        Raises ``SynclineError`` where a line is something else, or a rank is in two racks or none.
        """
        racks = read(file)
        bare = next((rack for rack in racks if not rack.hubs), None)
        if bare is not None:
            ranks = " ".join(map(str, bare.ranks))
            allowed = f"HUBS : RANKS, such as 10.0.0.9 : {ranks}"
            refuse(error("SL0102", "this rack has no hubs", mark=bare.mark, allowed=allowed))
        return cls(places(racks), [rack.hubs for rack in racks])

    def plain(self) -> dict[str, Any]:
        """As the hub is told."""
        hubs = [[with_port(*resolve(each, PORT)) for each in rack] for rack in self.hubs]
        return {"of": list(self.of), "hubs": hubs, "between": self.between}
