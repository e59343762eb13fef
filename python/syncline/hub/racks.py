"""Racks of ranks with hubs in each rack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from syncline.codes import Code
from syncline.hub.service import PORT
from syncline.input.problem import error, raise_errors
from syncline.runtime.addresses import resolve, with_port
from syncline.runtime.racks import places, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Racks:
    """Racks of ranks, each with hubs that sum for the rack's ranks and then exchange their sums.

    ``of`` is the rack of each rank. ``hubs`` are the addresses of each rack's hubs. All racks have the same number of
    hubs, and all hubs the same number of cores and interfaces. ``between`` selects how hubs of different racks
    exchange: ``sharded`` (each sums one part for all racks) or ``ring``.
    """

    of: Sequence[int]
    hubs: Sequence[Sequence[str]]
    between: Literal["sharded", "ring"] = "sharded"

    @classmethod
    def read(cls, file: str | Path) -> Self:
        """Reads racks from a file with one line for each rack.

        A line has the addresses of the rack's hubs, a colon with spaces around it, and the rack's ranks::

            10.0.0.9 : 0 1 2 3
            10.0.1.9 : 4 5 6 7

        Raises ``SynclineError`` if a line has another form, or if a rank is in two racks or in none.
        """
        racks = read(file)
        bare = next((rack for rack in racks if not rack.hubs), None)
        if bare is not None:
            ranks = " ".join(map(str, bare.ranks))
            allowed = f"HUBS : RANKS, such as 10.0.0.9 : {ranks}"
            raise_errors(error(Code.BAD_VALUE, "this rack has no hubs", mark=bare.mark, allowed=allowed))
        return cls(places(racks), [rack.hubs for rack in racks])

    def as_dict(self) -> dict[str, Any]:
        """Returns the racks as data for the hub."""
        hubs = [[with_port(*resolve(each, PORT)) for each in rack] for rack in self.hubs]
        return {"of": list(self.of), "hubs": hubs, "between": self.between}
