"""Whether a hub in each rack pays."""

from __future__ import annotations

from dataclasses import dataclass

from syncline import _core
from syncline.runtime.memory import refusal


@dataclass(frozen=True)
class Levels:
    """Seconds per byte of a model that cross racks without hubs in each (``flat``), and with (``two_level``)."""

    flat: float
    two_level: float
    pays: bool


def two_levels(
    racks: int, workers: int, *, hub_rate: float, core_rate: float, worker_rate: float, between: float | None = None
) -> Levels:
    """Whether reducing in each rack first may pay (luo2020, section 2.3).

    ``N (R - 1) / (R B_core) > max(N / B_hub, 1 / B_worker) + C``, for ``racks`` racks R of ``workers`` workers N. Rates
    are in bytes per second: what a rack's hub, the core of the network towards a rack, and a worker can carry.
    ``between`` is C, seconds per byte of the exchange among hubs: measured, or found from the rates.

    Raises ``SynclineError`` where a number is not more than 0.
    """
    try:
        pays, flat, two_level = _core.two_levels(racks, workers, hub_rate, core_rate, worker_rate, between)
    except (ValueError, OverflowError) as error:
        raise refusal("invalid racks", str(error), "numbers above 0") from None
    return Levels(flat, two_level, pays)
