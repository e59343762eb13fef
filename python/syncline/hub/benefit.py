"""Estimates whether a hub in each rack pays."""

from __future__ import annotations

from dataclasses import dataclass

from syncline import _core
from syncline.input.problem import bad_value


@dataclass(frozen=True)
class Levels:
    """Seconds per byte of a model between racks: without a hub in each rack (``flat``) and with one (``two_level``)."""

    flat: float
    two_level: float
    pays: bool


def two_levels(
    racks: int, workers: int, *, hub_rate: float, core_rate: float, worker_rate: float, between: float | None = None
) -> Levels:
    """Estimates whether reducing within each rack first is worthwhile (luo2020, section 2.3).

    It may pay if ``N (R - 1) / (R B_core) > max(N / B_hub, 1 / B_worker) + C``, for R ``racks`` of N ``workers`` each.
    Rates are in bytes per second: ``hub_rate`` of a rack's hub, ``core_rate`` from the core of the network to a rack,
    ``worker_rate`` of a worker. ``between`` is C, the measured seconds per byte of the exchange among hubs; without
    it, C is computed from the rates.

    Raises ``SynclineError`` if a number is not greater than 0.
    """
    try:
        pays, flat, two_level = _core.two_levels(racks, workers, hub_rate, core_rate, worker_rate, between)
    except (ValueError, OverflowError) as error:
        raise bad_value(
            "invalid number of racks or workers, or invalid rate", str(error), allowed="numbers above 0"
        ) from None
    return Levels(flat, two_level, pays)
