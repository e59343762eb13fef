"""Queue, network and reduction delays of the phases of collectives, as means over chunks and messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.run import Run

NEEDED = {
    "phases": ("collective", "queue_delay_s", "network_delay_s", "reduction_s"),
    "collectives": ("chunks", "group_ranks", "ready_queue_delay_s", "layer"),
}
"""Columns that the delays are computed from, by table."""

READY = "P0 ready queue"
"""The name of the queue before the first phase."""


@dataclass
class Delays:
    """Weighted sums of the delays of one phase."""

    queue: float = 0.0
    chunks: float = 0.0
    network: float = 0.0
    reduction: float = 0.0
    messages: float = 0.0

    @property
    def means(self) -> tuple[float, float, float]:
        """Mean queue delay of a chunk, and mean network delay and reduction time of a message, in seconds."""
        chunks, messages = self.chunks or 1.0, self.messages or 1.0
        return self.queue / chunks, self.network / messages, self.reduction / messages


def of(result: Run) -> tuple[list[str], dict[str, dict[int, Delays]]] | None:
    """The delays of a run; None if it has no phases, as after ``syncline astra-sim``."""
    tables = [result.table(name) for name in NEEDED if name in result.tables]
    columns = zip(tables, NEEDED.values(), strict=False)
    if len(tables) < len(NEEDED) or not all(column in table for table, names in columns for column in names):
        return None
    return by_phase(*tables)


def by_phase(
    phases: Mapping[str, list[Any]], sets: Mapping[str, list[Any]]
) -> tuple[list[str], dict[str, dict[int, Delays]]]:
    """Names of the phases in order, and the delays of each layer by index of the phase; layer ``""`` is all layers."""
    groups = sets.get("groups") or [1] * len(sets["layer"])
    weights = [
        chunks * ranks * group for chunks, ranks, group in zip(sets["chunks"], sets["group_ranks"], groups, strict=True)
    ]
    of_row = list(zip(*(phases[key] for key in ("phase", "dimension", "kind", "algorithm")), strict=True))
    keys = sorted(set(of_row))
    index = {key: number for number, key in enumerate(keys, start=1)}
    found: dict[str, dict[int, Delays]] = {"": {}}
    for layer, weight, delay in zip(sets["layer"], weights, sets["ready_queue_delay_s"], strict=True):
        for view in {"", layer}:
            total = found.setdefault(view, {}).setdefault(0, Delays())
            total.queue += delay * weight
            total.chunks += weight
    columns = ("collective", "queue_delay_s", "network_delay_s", "reduction_s", "messages")
    rows = zip(*(phases[column] for column in columns), strict=True)
    for key, (collective, queue, network, reduction, messages) in zip(of_row, rows, strict=True):
        number, weight, layer = index[key], weights[collective], sets["layer"][collective]
        for view in {"", layer}:
            total = found[view].setdefault(number, Delays())
            total.queue += queue * weight
            total.chunks += weight
            total.network += network * messages
            total.reduction += reduction * messages
            total.messages += messages
    names = [READY, *(f"P{phase} {dimension} {kind} ({algorithm})" for phase, dimension, kind, algorithm in keys)]
    return names, found
