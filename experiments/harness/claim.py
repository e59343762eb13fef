"""A claim of a paper, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One statement of a paper that can be found wrong."""

    id: str
    """Name that tables and pages use for the claim."""
    where: str
    """Place in the paper, such as ``Fig. 9``."""
    text: str
    """What the paper says, in one sentence, including the setting."""

    def judged(self, holds: bool, measured: str, why: str) -> Verdict:  # noqa: FBT001 - what a verdict says first
        """Builds the verdict on this claim."""
        return Verdict(self, bool(holds), measured, why)


@dataclass(frozen=True)
class Verdict:
    """A claim and the measurement that decides it."""

    claim: Claim
    holds: bool
    """Whether the measurement agrees with the claim."""
    measured: str
    """The numbers that decide."""
    why: str
    """The cause of these numbers, from the tables of the runs."""

    @property
    def word(self) -> str:
        """``holds`` or ``does not hold``."""
        return "holds" if self.holds else "does not hold"
