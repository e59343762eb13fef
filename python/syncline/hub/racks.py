"""Racks of ranks, with hubs in each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from syncline.hub.service import PORT
from syncline.runtime.addresses import resolve, with_port
from syncline.runtime.memory import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence


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
        hubs: list[list[str]] = []
        place: dict[int, int] = {}
        try:
            lines = Path(file).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise refusal("the racks cannot be read", f"{file}: {error}", "HUBS : RANKS in each line") from error
        for number, line in enumerate(lines, 1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            addresses, colon, ranks = text.partition(" : ")
            try:
                members = [int(rank) for rank in ranks.split()]
            except ValueError:
                members = []
            if not colon or not addresses.split() or not members:
                raise refusal(
                    "this is no rack", f"{file}, line {number}: {text}", "HUBS : RANKS, such as 10.0.0.9 : 0 1"
                )
            for rank in members:
                if place.setdefault(rank, len(hubs)) != len(hubs):
                    raise refusal(f"rank {rank} is in two racks", f"{file}, line {number}", "each rank once")
            hubs.append(addresses.split())
        missing = sorted(set(range(max(place, default=-1) + 1)) - set(place))
        if missing or min(place, default=0) < 0 or not hubs:
            raise refusal("racks have ranks 0 and up, each in one", f"{file}: {sorted(place)}", "no rank is left out")
        return cls([place[rank] for rank in sorted(place)], hubs)

    def plain(self) -> dict[str, Any]:
        """As the hub is told."""
        hubs = [[with_port(*resolve(each, PORT)) for each in rack] for rack in self.hubs]
        return {"of": list(self.of), "hubs": hubs, "between": self.between}
