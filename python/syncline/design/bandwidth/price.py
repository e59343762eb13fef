"""The cost of a fabric as a function of the rates of its dimensions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.config.load import Loaded

_UNIT = 1e11
"""Rate at which parts are priced, in bytes per second."""


@dataclass(frozen=True)
class Price:
    """The cost of a fabric of one shape, in dollars, as a linear function of rates."""

    fixed: float
    """Cost that does not depend on rates."""
    per_rate: tuple[float, ...]
    """Cost of each byte per second of every NPU, by dimension."""

    def usd(self, rates: Sequence[float]) -> float:
        """Cost of the fabric with these rates, in bytes per second of one NPU."""
        return self.fixed + sum(each * rate for each, rate in zip(self.per_rate, rates, strict=True))


def price_of(loaded: Loaded, where: Any = None) -> Price:
    """The price of the shape of a scenario that has prices.

    Raises :class:`SynclineError` if the list has parts of certain sizes, whose price is not proportional to a rate.
    """
    dims = loaded.resolved["fabric"]["dims"]
    base = [_UNIT] * len(dims)
    all_usd = _usd(loaded, base)
    more = [_usd(loaded, [rate * (1 + (at == own)) for at, rate in enumerate(base)]) for own in range(len(dims))]
    per_rate = tuple((usd - all_usd) / _UNIT for usd in more)
    found = Price(all_usd - sum(each * _UNIT for each in per_rate), per_rate)
    odd = [_UNIT * (0.3 + 0.4 * at) for at in range(len(dims))]
    if abs(found.usd(odd) - _usd(loaded, odd)) > 1e-6 * max(found.usd(odd), 1.0) or found.fixed < -1e-6 * all_usd:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "this price list prices parts of fixed rates, and a search needs prices per GB/s",
                mark=where,
                key="prices",
                allowed="a list with prices per GB/s, such as hier2021",
                help="use such a list for the search, and price its result with your list: syncline show fabric",
            )
        )
    return Price(max(found.fixed, 0.0), per_rate)


def _usd(loaded: Loaded, rates: Sequence[float]) -> float:
    fabric = loaded.resolved["fabric"]
    dims = [{**dim, "rate_per_npu": f"{round(8 * rate)}b/s"} for dim, rate in zip(fabric["dims"], rates, strict=True)]
    priced = json.dumps({**fabric, "dims": dims}), json.dumps(loaded.resolved["prices"])
    bill: dict[str, Any] = json.loads(loaded.placing(lambda: _core.cost(*priced)))
    return float(bill["usd"])
