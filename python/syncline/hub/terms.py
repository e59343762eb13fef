"""What the ranks of a job on hubs agree on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.input.words import Reduction

LossPolicy = Literal["fail", "shrink", "wait"]
"""What happens when a rank is lost."""
Mapping = Literal["key_by_interface", "worker_by_interface"]
"""Which interface of a hub a chunk uses."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Settings of a job on hubs. All ranks must give the same values."""

    reduction: Reduction | Literal["mean"] = "mean"
    """How a hub combines what ranks push: ``mean``, or a reduction of collectives."""
    in_order: bool = False
    """Whether it does so in the order of ranks, so that results are the same bit for bit in every run."""
    asynchronous: bool = False
    """Whether a hub updates with every push, and no rank waits for others."""
    policy: LossPolicy = "fail"
    """What happens when a rank is lost: the job fails (``fail``), the other ranks go on (``shrink``), or they wait
    until the rank is started again (``wait``)."""
    chunk: int = 32 << 10
    """Bytes of the chunks into which vectors are cut."""
    mapping: Mapping = "key_by_interface"
    """Which interface of a hub a chunk uses: that of its core (``key_by_interface``), or the same one as all chunks of
    the worker (``worker_by_interface``)."""
    together: Sequence[str] = ()
    """The vectors that every rank pushes once per step. A restarted rank then joins between two steps of all of them,
    rather than at a different step of each."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the terms as data for the hub."""
        terms = {**asdict(self), "together": list(self.together)}
        return {"pace": "asynchronous" if terms.pop("asynchronous") else "synchronous", **terms}
