"""What a paper says, and whether it holds here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One statement of a paper that can be found wrong."""

    id: str
    """Its name, by which tables and pages refer to it."""
    where: str
    """Its place in the paper: ``Fig. 9``."""
    text: str
    """What the paper says, in one sentence, with the setting in which it says so."""

    def judged(self, holds: bool, measured: str, why: str) -> Verdict:  # noqa: FBT001 - what a verdict says first
        """The claim beside what was measured."""
        return Verdict(self, bool(holds), measured, why)


@dataclass(frozen=True)
class Verdict:
    """A claim beside what was measured."""

    claim: Claim
    holds: bool
    """Whether what was measured is what the claim says."""
    measured: str
    """The numbers that decide."""
    why: str
    """What makes them so, as found in the tables of the runs."""

    @property
    def word(self) -> str:
        """``holds`` or ``does not hold``."""
        return "holds" if self.holds else "does not hold"
