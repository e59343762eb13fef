"""The constraints on rates, and whether they can be met.

All constraints except budgets are lower and upper bounds, and an order. The smallest rates that meet them are unique:
the lower bounds, carried down the order. If these rates break a budget, all rates do, so the check is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.input.units import bytes_per_s
from syncline.quantity import listed
from syncline.quantity import rate as shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.bandwidth.candidate import BandwidthRequest, Candidate
    from syncline.design.bandwidth.price import Price
    from syncline.errors import Diagnostic

MIN_RATE = 1e3
"""Default lower bound of a dimension, in bytes per second; a dimension that carries nothing gets this rate."""
MAX_RATE = 1e15
"""Default upper bound of a dimension, in bytes per second."""
CLOSE = 1e-5
"""A rate may exceed a bound by this fraction, since rates are rounded to six digits."""
NEAR = 1e-4
"""A rate within this fraction of a bound has reached it: near the optimum, time hardly changes with rates."""


@dataclass(frozen=True)
class Limits:
    """The constraints on the rates of a shape, in bytes per second of one NPU."""

    names: tuple[str, ...]
    """Names of the dimensions, lowest first."""
    least: tuple[float, ...]
    """Lower bound of each dimension, including the effect of the order."""
    most: tuple[float, ...]
    """Upper bound of each dimension, including the effect of the order."""
    descending: bool
    """Whether no dimension may have a higher rate than the one below it."""
    rate: float | None
    """Budget for the sum of the rates."""
    usd: float | None
    """Budget for the cost of the fabric."""
    price: Price | None = None

    def problem(self) -> tuple[str, str] | None:
        """Why no rates meet all constraints: the key of a constraint, and the reason. None if some rates do."""
        for name, least, most in zip(self.names, self.least, self.most, strict=True):
            if least > most * (1 + 1e-12):
                why = f"dimension {name} must have at least {shown(least)} and at most {shown(most)}"
                return f"bandwidth.{name}", f"{why}, by `order`" if self.descending else why
        asked = [least if least > MIN_RATE else 0.0 for least in self.least]
        if self.rate is not None and sum(self.least) > self.rate * (1 + 1e-12):
            together = " together" if sum(each > 0 for each in asked) > 1 else ""
            why = self._asked(f" {shown(sum(asked))}{together}", floors=sum(asked) <= self.rate * (1 + 1e-12))
            return "budget.rate_per_npu", f"{why}, and the budget is {shown(self.rate)}"
        if self.usd is not None and self.price is not None:
            cost = self.price.usd(self.least)
            if cost > self.usd * (1 + 1e-12):
                floors = self.price.usd(asked) <= self.usd * (1 + 1e-12)
                what = (
                    f"what {self._asked('', floors=floors)}"
                    if any(asked)
                    else "the part of the network that does not depend on rates"
                )
                return "budget.usd", f"{what} costs ${cost:,.0f}, and the budget is ${self.usd:,.0f}"
        return None

    def _asked(self, rate: str, *, floors: bool) -> str:
        """Says which dimensions must have at least which rate; with ``floors``, includes the default lower bounds."""
        asked = [name for name, least in zip(self.names, self.least, strict=True) if least > MIN_RATE]
        rest = [name for name in self.names if name not in asked]
        parts = [f"{_dimensions(asked)} must have at least{rate}"] if asked else []
        if floors and rest:
            each = " each" if len(rest) > 1 else ""
            parts.append(f"{_dimensions(rest)} must have at least {shown(MIN_RATE)}{each}, the default minimum")
        return " and ".join(parts)

    def unbounded(self, used: Sequence[bool]) -> str | None:
        """The first used dimension whose rate no constraint limits; None if there is none."""
        if self.rate is not None:
            return None
        for at, name in enumerate(self.names):
            priced = self.usd is not None and self.price is not None and self.price.per_rate[at] > 0
            if used[at] and not priced and self.most[at] >= MAX_RATE:
                return name
        return None

    def broken(self, rates: Sequence[float]) -> list[str]:
        """Keys of the constraints that these rates break."""
        found = []
        for name, rate, least, most in zip(self.names, rates, self.least, self.most, strict=True):
            if rate < least * (1 - CLOSE) and least > MIN_RATE:
                found.append(f"bandwidth.{name}.min")
            if rate > most * (1 + CLOSE) and most < MAX_RATE:
                found.append(f"bandwidth.{name}.max")
        if self.descending and any(above > below * (1 + CLOSE) for below, above in pairwise(rates)):
            found.append("order")
        if self.rate is not None and sum(rates) > self.rate * (1 + CLOSE):
            found.append("budget.rate_per_npu")
        if self.usd is not None and self.price is not None and self.price.usd(rates) > self.usd * (1 + CLOSE):
            found.append("budget.usd")
        return found

    def reached(self, rates: Sequence[float]) -> list[str]:
        """Keys of the bounds and budgets that these rates have reached."""
        found = []
        if self.rate is not None and sum(rates) >= self.rate * (1 - NEAR):
            found.append("budget.rate_per_npu")
        if self.usd is not None and self.price is not None and self.price.usd(rates) >= self.usd * (1 - NEAR):
            found.append("budget.usd")
        for name, rate, least, most in zip(self.names, rates, self.least, self.most, strict=True):
            if rate <= least * (1 + NEAR) and least > MIN_RATE:
                found.append(f"bandwidth.{name}.min")
            if rate >= most * (1 - NEAR) and most < MAX_RATE:
                found.append(f"bandwidth.{name}.max")
        if self.descending:
            pairs = zip(self.names[1:], pairwise(rates), strict=True)
            found += [f"order ({name})" for name, (below, above) in pairs if above >= below * (1 - NEAR)]
        return found


def _dimensions(names: Sequence[str]) -> str:
    return f"dimension{'s' if len(names) > 1 else ''} {listed(names)}"


def limits(request: BandwidthRequest, candidate: Candidate, price: Price | None) -> Limits:
    """The constraints of a spec, for one shape."""
    spec, names = request.spec, candidate.names
    least, most = [MIN_RATE] * len(names), [MAX_RATE] * len(names)
    for key, bounds in spec.bandwidth.items():
        at = len(names) - 1 if key == "last" else names.index(key) if key in names else None
        if at is None:
            continue
        low, high = bounds.fixed or bounds.min, bounds.fixed or bounds.max
        if low is not None:
            least[at] = max(least[at], bytes_per_s(low))
        if high is not None:
            most[at] = min(most[at], bytes_per_s(high))
            least[at] = most[at] if low is None and most[at] < MIN_RATE else least[at]
    descending = spec.order == "descending"
    if descending:
        for at in reversed(range(len(names) - 1)):
            least[at] = max(least[at], least[at + 1])
        for at in range(1, len(names)):
            most[at] = min(most[at], most[at - 1])
    rate = None if spec.budget.rate_per_npu is None else bytes_per_s(spec.budget.rate_per_npu)
    return Limits(names, tuple(least), tuple(most), descending, rate, spec.budget.usd, price)


def check_names(request: BandwidthRequest, candidates: Sequence[Candidate]) -> None:
    """Raises an error for bounds of a dimension that no shape has."""
    known = {name: None for candidate in candidates for name in candidate.names}
    allowed = [*known, "last"]
    problems: list[Diagnostic] = [
        error(
            Code.BAD_VALUE,
            "no dimension has this name",
            mark=request.source.mark(("bandwidth", name), key=True),
            key=f"bandwidth.{name}",
            found=name,
            allowed=", ".join(allowed),
            nearest=_core.nearest(name, allowed),
        )
        for name in request.spec.bandwidth
        if name not in allowed
    ]
    if problems:
        raise_errors(*problems)
