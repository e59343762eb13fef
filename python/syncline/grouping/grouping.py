"""The groups that were found, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline.distances.summary import By
    from syncline.grouping.arrays import Floats


@dataclass(frozen=True, eq=False)
class Grouping:
    """A partition of hosts into groups, such as racks. Without structure, all hosts are in group 0."""

    hosts: tuple[str, ...]
    """Names of the hosts, in the order of the measurements."""
    groups: tuple[int, ...]
    """Group of each host, numbered by their first hosts."""
    score: float
    """Probability that a pair of hosts in one group is nearer than a pair of different groups, judged by values that
    did not help to choose the groups: 1 is perfect, 0.5 is chance."""
    p_value: float
    """Probability of a score this high if groups meant nothing (Mann and Whitney 1947)."""
    agreement: float
    """Adjusted Rand index with Ward's method, the second opinion: 1 if both are equal."""
    method: str
    """How the groups were found, in words."""
    seed: int
    by: By = "rtt"
    """What was measured: ``rtt``, in seconds, or ``rate``, in bytes per second."""
    source: str = ""
    """The file of the measurements."""
    values: dict[tuple[int, int], float] = field(default_factory=dict, repr=False)
    """What was measured of pairs ``(a, b)`` with ``a < b``, in the unit of ``by``."""
    coordinates: Floats | None = field(default=None, repr=False)
    """Where the embedding places each host: a row of numbers without a unit."""

    @property
    def found(self) -> bool:
        """Whether there are groups at all."""
        return self.count > 1

    @property
    def count(self) -> int:
        """Number of groups."""
        return max(self.groups) + 1

    @property
    def members(self) -> list[list[int]]:
        """Hosts of each group, by number."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        for host, group in enumerate(self.groups):
            found[group].append(host)
        return found

    @property
    def inside(self) -> float | None:
        """Median of the measured values of pairs within groups; None if there are none."""
        return self._median(within=True)

    @property
    def between(self) -> float | None:
        """Median of the measured values of pairs of different groups; None if there are none."""
        return self._median(within=False)

    def _median(self, *, within: bool) -> float | None:
        chosen = [value for (a, b), value in self.values.items() if (self.groups[a] == self.groups[b]) == within]
        return median(chosen) if chosen else None

    def as_dict(self) -> dict[str, Any]:
        """The result as data for ``--json``. Medians are in seconds, or in bytes per second."""
        unit = "s" if self.by == "rtt" else "bytes_per_s"
        return {
            "found": self.found,
            "groups": [[self.hosts[host] for host in group] for group in self.members],
            "score": self.score,
            "p_value": self.p_value,
            "agreement": self.agreement,
            f"median_inside_{unit}": self.inside,
            f"median_between_{unit}": self.between,
            "method": self.method,
            "seed": self.seed,
            "by": self.by,
            "source": self.source,
        }
