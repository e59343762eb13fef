"""What a probe found out, and what it did not."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline.distances import Measured


@dataclass(frozen=True)
class HostFailure:
    """A host that did not start, or failed while it was probed."""

    host: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Returns the failure as plain data."""
        return {"host": self.host, "why": self.why}


@dataclass(frozen=True)
class PairFailure:
    """A pair of hosts of which nothing was measured, though both run."""

    origin: str
    target: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Returns the failure as plain data."""
        return {"from": self.origin, "to": self.target, "why": self.why}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a probe."""

    measured: Measured
    """Hosts of which something was measured, in the order of the host list."""
    samples: int
    """Echoes that each pair was to send; 0 if round trips were not asked for."""
    rounds: int
    """Rounds that were completed."""
    took_s: float
    clock: str
    """Whose clock gave the times of receipt: ``kernel``, ``user`` or, for some pairs each, ``mixed``; ``none`` if no
    round trip was measured; ``runtime`` for ranks of a job."""
    reordered: int = 0
    """Echoes that came back after a later one."""
    ignored: int = 0
    """Packets that were not of this probe."""
    addresses: dict[str, str] = field(default_factory=dict)
    """By host: the address at which others reached it last."""
    several: tuple[str, ...] = ()
    """Hosts that have several addresses, of which none was chosen in the host list."""
    hosts: tuple[HostFailure, ...] = ()
    """Hosts that failed."""
    pairs: tuple[PairFailure, ...] = ()
    """Pairs that failed."""
    interrupted: bool = False
    """Whether Ctrl-C ended the probe."""
    limited: bool = False
    """Whether the budget ended the probe."""

    @property
    def complete(self) -> bool:
        """Whether all hosts and pairs were measured."""
        return not (self.hosts or self.pairs or self.interrupted or self.limited)

    def as_dict(self) -> dict[str, Any]:
        """Returns the outcome as plain data. Times are in seconds, rates in bytes per second."""
        names = self.measured.hosts
        return {
            "hosts": list(names),
            "samples": self.samples,
            "rounds": self.rounds,
            "took_s": self.took_s,
            "clock": self.clock,
            "lost": sum(pair.lost for pair in self.measured.pairs.values()),
            "duplicates": sum(pair.duplicates for pair in self.measured.pairs.values()),
            "reordered": self.reordered,
            "ignored": self.ignored,
            "addresses": self.addresses,
            "pairs": [
                {"from": names[a], "to": names[b], **asdict(pair)}
                for (a, b), pair in sorted(self.measured.pairs.items())
            ],
            "failed_hosts": [each.as_dict() for each in self.hosts],
            "failed_pairs": [each.as_dict() for each in self.pairs],
            "interrupted": self.interrupted,
            "limited": self.limited,
        }
