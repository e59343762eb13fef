"""What a calibrated NCCL chose for the collectives of a run, by group, operation and size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class Choice(NamedTuple):
    """One kind of call: collectives of one group, operation and size, which NCCL carries out alike."""

    group: str
    """Role of the group, such as ``data``."""
    ranks: int
    """Ranks of a group."""
    kind: str
    """The operation, such as ``all_reduce``."""
    nbytes: int
    """Its size."""
    algorithm: str
    """Such as ``ring``; empty if the model does not know the collective."""
    protocol: str
    """Such as ``LL128``."""
    channels: str
    """``all`` or ``fewer``."""
    calls: int
    """Calls of all groups."""
    alone_s: float
    """Time of one alone, by the calibrated model, seconds; 0 if the model does not know it."""
    mean_s: float
    """Mean time of a rank from issue to result in the run, seconds."""


def choices(columns: Mapping[str, Sequence[Any]]) -> list[Choice]:
    """The choices in the table of collectives, those that take longest together first; empty without a calibrated NCCL.

    Older run folders lack the columns.
    """
    if not any(columns.get("nccl_algorithm", ())):
        return []
    rows: dict[tuple[Any, ...], list[int]] = {}
    groups = [name.rpartition(".")[0] or name for name in columns["group"]]
    names = ("group_ranks", "kind", "size_bytes", "nccl_algorithm", "nccl_protocol", "nccl_channels")
    for index, key in enumerate(zip(groups, *(columns[name] for name in names), strict=True)):
        rows.setdefault(key, []).append(index)
    found = []
    for key, own in rows.items():
        weights = [columns["groups"][index] for index in own]
        calls = sum(weights)
        mean = sum(w * columns["mean_duration_s"][index] for w, index in zip(weights, own, strict=True)) / calls
        group, ranks, kind, nbytes, algorithm, protocol, channels = key
        alone = columns["nccl_s"][own[0]]
        found.append(Choice(group, ranks, kind, nbytes, algorithm, protocol, channels, calls, alone, mean))
    return sorted(found, key=lambda each: (-each.calls * each.mean_s * each.ranks, each[:4]))
