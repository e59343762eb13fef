"""What rates must keep to; and what cannot be met, with the constraint that forbids it.

All constraints but budgets are bounds from below and above, and an order. The least rates that keep to them are unique:
bounds from below, carried down the order. If these break a budget, all do, so what is found infeasible is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from syncline import _core
from syncline.config.problem import error, refuse
from syncline.report.quantity import listed
from syncline.report.quantity import rate as shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.candidate import Candidate, Request
    from syncline.design.price import Price
    from syncline.errors import Diagnostic

LEAST = 1e3
"""What a dimension has at least, in bytes per second, where nothing is asked: those that carry nothing get no more."""
MOST = 1e15
"""What it has at most, in bytes per second."""
CLOSE = 1e-5
"""What is beyond a bound by less than this part of it is within it: rates have six digits."""
NEAR = 1e-4
"""What is within this part of a bound has reached it: near the optimum, time hardly changes with rates."""


@dataclass(frozen=True)
class Limits:
    """What the rates of a shape must keep to, in bytes per second of one NPU."""

    names: tuple[str, ...]
    """Dimensions, lowest first."""
    least: tuple[float, ...]
    """Of each dimension, with the order counted in."""
    most: tuple[float, ...]
    descending: bool
    """Whether no dimension may have more than the one below it."""
    rate: float | None
    """What they may have together."""
    usd: float | None
    """What the fabric may cost."""
    price: Price | None = None

    def problem(self) -> tuple[str, str] | None:
        """Why no rates keep to all of this: the key of a constraint, and the reason; nothing where some do."""
        for name, least, most in zip(self.names, self.least, self.most, strict=True):
            if least > most * (1 + 1e-12):
                why = f"dimension {name} must have at least {shown(least)} and at most {shown(most)}"
                return f"bandwidth.{name}", f"{why}, by `order`" if self.descending else why
        asked = [least if least > LEAST else 0.0 for least in self.least]
        if self.rate is not None and sum(self.least) > self.rate * (1 + 1e-12):
            together = " together" if sum(each > 0 for each in asked) > 1 else ""
            why = self._asked(f" {shown(sum(asked))}{together}", floors=sum(asked) <= self.rate * (1 + 1e-12))
            return "budget.rate_per_npu", f"{why}, and the budget is {shown(self.rate)}"
        if self.usd is not None and self.price is not None:
            cost = self.price.usd(self.least)
            if cost > self.usd * (1 + 1e-12):
                floors = self.price.usd(asked) <= self.usd * (1 + 1e-12)
                what = f"what {self._asked('', floors=floors)}" if any(asked) else "what does not hang on rates"
                return "budget.usd", f"{what} costs ${cost:,.0f}, and the budget is ${self.usd:,.0f}"
        return None

    def _asked(self, rate: str, *, floors: bool) -> str:
        """Which dimensions must have at least a rate, in words; with ``floors``, the others too."""
        asked = [name for name, least in zip(self.names, self.least, strict=True) if least > LEAST]
        rest = [name for name in self.names if name not in asked]
        parts = [f"{_dimensions(asked)} must have at least{rate}"] if asked else []
        if floors and rest:
            each = " each" if len(rest) > 1 else ""
            parts.append(f"{_dimensions(rest)} must have at least {shown(LEAST)}{each}, the least that there is")
        return " and ".join(parts)

    def unbounded(self, used: Sequence[bool]) -> str | None:
        """A dimension that carries something, and whose rate nothing holds back; nothing where there is none."""
        if self.rate is not None:
            return None
        for at, name in enumerate(self.names):
            priced = self.usd is not None and self.price is not None and self.price.per_rate[at] > 0
            if used[at] and not priced and self.most[at] >= MOST:
                return name
        return None

    def broken(self, rates: Sequence[float]) -> list[str]:
        """What these rates break, by its key."""
        found = []
        for name, rate, least, most in zip(self.names, rates, self.least, self.most, strict=True):
            if rate < least * (1 - CLOSE) and least > LEAST:
                found.append(f"bandwidth.{name}.min")
            if rate > most * (1 + CLOSE) and most < MOST:
                found.append(f"bandwidth.{name}.max")
        if self.descending and any(above > below * (1 + CLOSE) for below, above in pairwise(rates)):
            found.append("order")
        if self.rate is not None and sum(rates) > self.rate * (1 + CLOSE):
            found.append("budget.rate_per_npu")
        if self.usd is not None and self.price is not None and self.price.usd(rates) > self.usd * (1 + CLOSE):
            found.append("budget.usd")
        return found

    def reached(self, rates: Sequence[float]) -> list[str]:
        """What holds these rates back: bounds and budgets that they have reached, by key."""
        found = []
        if self.rate is not None and sum(rates) >= self.rate * (1 - NEAR):
            found.append("budget.rate_per_npu")
        if self.usd is not None and self.price is not None and self.price.usd(rates) >= self.usd * (1 - NEAR):
            found.append("budget.usd")
        for name, rate, least, most in zip(self.names, rates, self.least, self.most, strict=True):
            if rate <= least * (1 + NEAR) and least > LEAST:
                found.append(f"bandwidth.{name}.min")
            if rate >= most * (1 - NEAR) and most < MOST:
                found.append(f"bandwidth.{name}.max")
        if self.descending:
            pairs = zip(self.names[1:], pairwise(rates), strict=True)
            found += [f"order ({name})" for name, (below, above) in pairs if above >= below * (1 - NEAR)]
        return found


def _dimensions(names: Sequence[str]) -> str:
    return f"dimension{'s' if len(names) > 1 else ''} {listed(names)}"


def limits(request: Request, candidate: Candidate, price: Price | None) -> Limits:
    """The constraints as they are on a shape."""
    spec, names = request.spec, candidate.names
    least, most = [LEAST] * len(names), [MOST] * len(names)
    for key, bounds in spec.bandwidth.items():
        at = len(names) - 1 if key == "last" else names.index(key) if key in names else None
        if at is None:
            continue
        low, high = bounds.fixed or bounds.min, bounds.fixed or bounds.max
        if low is not None:
            least[at] = max(least[at], _bytes_per_s(low))
        if high is not None:
            most[at] = min(most[at], _bytes_per_s(high))
            least[at] = most[at] if low is None and most[at] < LEAST else least[at]
    descending = spec.order == "descending"
    if descending:
        for at in reversed(range(len(names) - 1)):
            least[at] = max(least[at], least[at + 1])
        for at in range(1, len(names)):
            most[at] = min(most[at], most[at - 1])
    rate = None if spec.budget.rate_per_npu is None else _bytes_per_s(spec.budget.rate_per_npu)
    return Limits(names, tuple(least), tuple(most), descending, rate, spec.budget.usd, price)


def check_names(request: Request, candidates: Sequence[Candidate]) -> None:
    """Refuses bounds of dimensions that no shape has."""
    known = {name: None for candidate in candidates for name in candidate.names}
    allowed = [*known, "last"]
    problems: list[Diagnostic] = [
        error(
            "SL0102",
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
        refuse(*problems)


def _bytes_per_s(text: str) -> float:
    return _core.parse_quantity("rate", text) / 8
