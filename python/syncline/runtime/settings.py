"""Which plans ranks run, and how they go about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """Which plan runs a collective.

    ``algorithm`` is named as scenarios name it. The rule is for vectors of at most ``up_to`` bytes, of any size without
    it. They are cut so that a message has at most ``message`` bytes.
    """

    kind: str
    algorithm: str
    up_to: int | None = None
    message: int = 64 << 10


RULES = (
    Rule("all_reduce", "ring"),
    Rule("reduce_scatter", "ring"),
    Rule("all_gather", "ring"),
    Rule("all_to_all", "direct"),
    Rule("broadcast", "tree(shape=binomial)"),
    Rule("reduce", "tree(shape=binomial)"),
)
"""What holds where no rule is given."""


@dataclass(frozen=True)
class Pace:
    """How a member goes about its work.

    ``lanes`` threads share the chunks of every vector, each with a connection to every peer. A lane has ``window``
    bytes under way at a time to each peer: it begins chunks as long as the largest messages of those that run have less
    together, and runs two in any case. As much as a link carries while a message goes from one rank to the next keeps
    it busy (25 Gb/s and 100 us are 312 KB); more waits in the network's queues, and may be lost there. A lane lets a
    peer be ``ahead`` bytes ahead. An operation ends after ``deadline_s``. Members give signs of life every
    ``interval_s``, and whoever is silent for ``silence_s`` is at fault.
    """

    lanes: int = 1
    window: int = 512 << 10
    ahead: int = 64 << 20
    deadline_s: float = 300.0
    interval_s: float = 0.4
    silence_s: float = 1.5
