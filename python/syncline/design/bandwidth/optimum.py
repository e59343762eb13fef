"""The best rates for a set of jobs under all constraints, by geometric programming.

The time of a step is compute plus, for each exchange, the largest of bytes over rate: a generalised posynomial of the
rates. So is the cost of a fabric, and so is the product of both, whose inverse is performance per cost; budgets, bounds
and orders are posynomial constraints (Boyd et al., "A tutorial on geometric programming", 2007). The problem is convex
in the logarithms of the rates, so the solver finds the global optimum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.design.bandwidth.limits import MAX_RATE
from syncline.extras import install
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.bandwidth.demand import Demand
    from syncline.design.bandwidth.limits import Limits

Weighted = tuple[float, "Demand"]


def solver() -> Any:
    """Imports cvxpy. Raises an error that says how to install it if it is absent."""
    try:
        import cvxpy
    except ImportError:
        raise_errors(
            error(
                Code.MISSING_PACKAGE,
                "the search for the optimum needs cvxpy, which is not installed",
                help=install("design"),
            )
        )
    return cvxpy


def optimum(
    jobs: Sequence[Weighted],
    limits: Limits,
    *,
    per_cost: bool = False,
    besides: float = 0.0,
    usd: float | None = None,
) -> list[float]:
    """Rates, in bytes per second of one NPU, that minimise the time of all steps; with ``per_cost``, time times cost.

    ``besides`` is the cost of everything but the network, in dollars, for ``per_cost``. ``usd`` replaces the budget of
    ``limits``, which must be feasible (:meth:`Limits.problem`).
    """
    cp = solver()
    dims = len(limits.names)
    used = [any(each.bytes[at] for _, job in jobs for each in job.exchanges) for at in range(dims)]
    # Dimensions that carry nothing get their lower bound; as variables, they could approach zero.
    idle = {at: limits.least[at] for at in range(dims) if not used[at]}
    free = [at for at in range(dims) if used[at]]
    if not free:
        return [limits.least[at] for at in range(dims)]
    scale = _scale(limits, len(free))
    b = {at: cp.Variable(pos=True) for at in free}

    def rate(at: int) -> Any:
        return b[at] if at in b else idle[at] / scale

    unit = sum(weight * sum(max(each.bytes) for each in job.exchanges) for weight, job in jobs) / scale
    terms, compute = [], 0.0
    for weight, job in jobs:
        compute += weight * job.compute_s / unit
        for each in job.exchanges:
            times = [weight * each.bytes[at] / scale / unit / b[at] for at in free if each.bytes[at]]
            terms.append(cp.maximum(*times) if len(times) > 1 else times[0])
    total = sum(terms) + compute if compute else sum(terms)
    constraints = []
    for at in free:
        constraints.append(b[at] >= limits.least[at] / scale)
        if limits.most[at] < MAX_RATE:
            constraints.append(b[at] <= limits.most[at] / scale)
    if limits.descending:
        constraints += [rate(at) >= rate(at + 1) for at in range(dims - 1) if at in b or at + 1 in b]
    if limits.rate is not None:
        constraints.append(sum(rate(at) for at in range(dims)) <= limits.rate / scale)
    budget = limits.usd if usd is None else usd
    cost = None
    if limits.price is not None and (per_cost or budget is not None):
        parts = [limits.price.per_rate[at] * scale * rate(at) for at in range(dims) if limits.price.per_rate[at]]
        parts += [limits.price.fixed] if limits.price.fixed else []
        cost = sum(parts)
        if budget is not None and not isinstance(cost, (int, float)):
            constraints.append(cost / budget <= 1.0)
    objective = total * (cost + besides if besides else cost) if per_cost and cost is not None else total
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(gp=True, solver=cp.CLARABEL)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        message = f"the solver found no optimum: {problem.status}"
        raise ArithmeticError(message)
    rates = [float(b[at].value) * scale if at in b else idle[at] for at in range(dims)]
    return _within(rates, limits, budget)


def _scale(limits: Limits, dims: int) -> float:
    """The expected order of magnitude of rates, by which they are scaled so that the solver's numbers are near 1."""
    if limits.rate is not None:
        return limits.rate / dims
    if limits.usd is not None and limits.price is not None and any(limits.price.per_rate):
        return max(limits.usd - limits.price.fixed, limits.usd * 1e-3) / max(limits.price.per_rate) / dims
    return 1e11


def _within(rates: list[float], limits: Limits, usd: float | None) -> list[float]:
    """Corrects rates that exceed bounds or budgets by the solver's tolerance."""
    kept = [min(max(rate, low), high) for rate, low, high in zip(rates, limits.least, limits.most, strict=True)]
    shrink = 1.0
    if limits.rate is not None:
        shrink = min(shrink, limits.rate / sum(kept))
    if usd is not None and limits.price is not None:
        variable = limits.price.usd(kept) - limits.price.fixed
        shrink = min(shrink, (usd - limits.price.fixed) / variable) if variable > 0 else shrink
    # Keep lower bounds: rates shrink by less than a millionth.
    return [max(rate * shrink, low) for rate, low in zip(kept, limits.least, strict=True)]
