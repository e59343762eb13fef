"""What was measured between hosts, pair by pair."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Pair:
    """What one host measured of its path to another."""

    rtt_s: float | None = None
    """Round trip: the 10th percentile of the samples (luo2020 5.2.2). None if it was not measured, or all were lost."""
    rtt_median_s: float | None = None
    """Median of the samples."""
    rtt_error_s: float | None = None
    """Half the width of the 95 % confidence interval of ``rtt_s``."""
    samples: int = 0
    """Echoes that came back."""
    lost: int = 0
    """Echoes that did not."""
    duplicates: int = 0
    """Echoes that came back again."""
    rate_bytes_per_s: float | None = None
    """Rate of one connection: the median of the transfers. None if it was not measured."""
    transfers: int = 0
    """Transfers that were timed."""


@dataclass(frozen=True)
class Measured:
    """What was measured between hosts. Hosts are numbered in the order of ``hosts``."""

    hosts: tuple[str, ...]
    """Names of the hosts; no two are equal. Their order is that of the host list, and so that of ranks by default."""
    pairs: dict[tuple[int, int], Pair] = field(default_factory=dict)
    """By the host that measured and the one that it measured; pairs that were not measured are missing."""
    source: str = ""
    """The file that it is from, for errors; empty if it was made otherwise."""

    def among(self, hosts: Iterable[int]) -> Measured:
        """What was measured between some of the hosts, renumbered in the order given."""
        chosen = list(hosts)
        number = {host: at for at, host in enumerate(chosen)}
        pairs = {(number[a], number[b]): pair for (a, b), pair in self.pairs.items() if a in number and b in number}
        return Measured(tuple(self.hosts[host] for host in chosen), pairs, self.source)

    @cached_property
    def round_trips(self) -> dict[tuple[int, int], float]:
        """Round trips in seconds of pairs ``(a, b)``, ``a < b``: of both directions the larger one (luo2020 5.2.2)."""
        return self._both(lambda pair: pair.rtt_s, max)

    @cached_property
    def rates(self) -> dict[tuple[int, int], float]:
        """Rates in bytes per second of pairs ``(a, b)`` with ``a < b``: of both directions the lower one."""
        return self._both(lambda pair: pair.rate_bytes_per_s, min)

    def _both(
        self, value: Callable[[Pair], float | None], choose: Callable[[float, float], float]
    ) -> dict[tuple[int, int], float]:
        found: dict[tuple[int, int], float] = {}
        for (a, b), pair in self.pairs.items():
            if (measured := value(pair)) is None:
                continue
            key = (a, b) if a < b else (b, a)
            found[key] = choose(found[key], measured) if key in found else measured
        return found

    def matrix(self, values: dict[tuple[int, int], float]) -> list[list[float]]:
        """Symmetric matrix of ``round_trips`` or ``rates``: NaN where nothing was measured, 0 on the diagonal."""
        size = len(self.hosts)
        rows = [[math.nan] * size for _ in range(size)]
        for (a, b), value in values.items():
            rows[a][b] = rows[b][a] = value
        for host in range(size):
            rows[host][host] = 0.0
        return rows
