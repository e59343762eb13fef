"""The schemes by which hier2021 IV divides a budget: equally, by bytes, and for roles that take turns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.bandwidth.demand import Demand


class Scheme(StrEnum):
    """Ways to find the rates of an allocation, in the order of the columns that show them."""

    EQUAL = "equal"
    """EqualBW of hier2021."""
    BY_BYTES = "by bytes"
    """MessageBW of hier2021."""
    BY_TURNS = "by turns"
    """SmartBW of hier2021."""
    OPTIMUM = "optimum"
    """The best rates, by geometric programming."""
    PARETO = "pareto"
    """A point of the front: an optimum for a smaller budget."""


class Case(StrEnum):
    """Cases of SmartBW's closed form, by the roles that determine the rate of the shared dimension."""

    FIRST = "A"
    SECOND = "B"
    BOTH = "C"
    NONE_SHARED = "no shared dimension"


@dataclass(frozen=True)
class Division:
    """A division of a budget among dimensions."""

    shares: tuple[float, ...]
    """Share of each dimension; they add up to 1."""
    case: Case | None = None
    """For SmartBW with two roles: the case of the closed form that applies."""
    sized_by: tuple[str, ...] = ()
    """For SmartBW: the roles whose bytes determine the rate of the shared dimension; empty if none is shared."""


def equal(dims: int) -> Division:
    """EqualBW (hier2021 Eq. 1)."""
    return Division((1 / dims,) * dims)


def message(demand: Demand) -> Division | None:
    """MessageBW (hier2021 Eq. 2): by the bytes M(k) that dimensions carry in a step; None if they carry nothing."""
    sizes = [sum(each) for each in zip(*(exchange.bytes for exchange in demand.exchanges), strict=True)]
    return _normal(sizes)


def smart(demand: Demand) -> Division | str:
    """SmartBW (hier2021 IV-C): minimises the time of two roles that take turns and share at most one dimension.

    The closed form, which the paper leaves out: with ``a`` and ``b`` the bandwidths of both roles, M1/a + M2/b is
    minimised under (1-r1) a + (1-r2) b + max(r1 a, r2 b) = B, where r is the fraction of a role's bytes that the shared
    dimension carries. Either the first role determines the rate of the shared dimension (case A), or the second (B), or
    both equally (C).

    Returns the reason in words if the scheme does not apply.
    """
    roles = [(role, sizes) for role in demand.roles if any(sizes := demand.role(role))]
    if not roles:
        return "nothing is exchanged"
    if len(roles) == 1:
        found = _normal(roles[0][1])
        return found if found else "nothing is exchanged"
    if len(roles) > 2:
        return f"{len(roles)} kinds of groups take turns, and the closed form is for two"
    if any(not _alike(demand, role) for role in demand.roles):
        return "one kind of group has several exchanges, which load the dimensions in different proportions"
    # Tensor parallelism first, as in the paper.
    (second_role, second), (first_role, first) = roles
    shared = [at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a and b]
    if len(shared) > 1:
        return f"{len(shared)} dimensions are shared, and the closed form is for one"
    m1, m2 = sum(first), sum(second)
    r1, r2 = (first[shared[0]] / m1, second[shared[0]] / m2) if shared else (0.0, 0.0)
    case, a, b = _bandwidths(m1, m2, r1, r2)
    rates = [max(a * x / m1, b * y / m2) for x, y in zip(first, second, strict=True)]
    found = _normal(rates)
    if found is None:
        return "nothing is exchanged"
    if not shared:
        return Division(found.shares, Case.NONE_SHARED)
    sized_by = {Case.FIRST: (first_role,), Case.SECOND: (second_role,)}.get(case, (first_role, second_role))
    return Division(found.shares, case, sized_by)


def _bandwidths(m1: float, m2: float, r1: float, r2: float) -> tuple[Case, float, float]:
    """The case, and the bandwidths of both roles for a budget of 1."""
    for case, c1, c2 in ((Case.FIRST, 1.0, 1 - r2), (Case.SECOND, 1 - r1, 1.0)):
        # If a role uses only the shared dimension, the other role determines the rate of that dimension.
        if c1 == 0 or c2 == 0:
            continue
        root = sqrt(m1 * c1) + sqrt(m2 * c2)
        a, b = sqrt(m1 / c1) / root, sqrt(m2 / c2) / root
        if (r1 * a >= r2 * b) if case == Case.FIRST else (r1 * a <= r2 * b):
            return case, a, b
    kink = 1 / (1 / r1 + 1 / r2 - 1)
    return Case.BOTH, kink / r1, kink / r2


def _alike(demand: Demand, role: str) -> bool:
    """Whether all exchanges of a role keep dimensions busy in the same proportion."""
    return sum(exchange.role == role for exchange in demand.exchanges) <= 1


def _normal(sizes: Sequence[float]) -> Division | None:
    total = sum(sizes)
    return Division(tuple(size / total for size in sizes)) if total > 0 else None
