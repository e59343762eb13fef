"""The search for bandwidths: finds the best rates for a spec."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.design.bandwidth import schemes
from syncline.design.bandwidth.algorithms import Algorithms, chosen
from syncline.design.bandwidth.demand import Cache, Demand, check_job, demand_of, together
from syncline.design.bandwidth.limits import MAX_RATE, MIN_RATE, Limits, check_names, limits
from syncline.design.bandwidth.optimum import optimum, solver
from syncline.design.bandwidth.price import Price, price_of
from syncline.design.bandwidth.schemes import Scheme
from syncline.design.bandwidth.trial import Setup, Trial, apart, bits, trial
from syncline.errors import SynclineError
from syncline.input.problem import error, raise_errors
from syncline.quantity import listed, time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from syncline.design.bandwidth.candidate import BandwidthRequest, Candidate
    from syncline.errors import Diagnostic
    from syncline.result import Result

    Progress = Callable[[float, str], object]
    Warned = Callable[[Sequence[Diagnostic]], object]

_COLUMNS = tuple(Scheme)
_TIE = 1e-4
"""Shapes whose times or costs differ by less than this fraction count as equally good."""
_NOTED = 1e-3
"""Minimum fraction by which a simulated allocation must be better to replace another as the best."""
_CHEAPEST = 20
"""The cheapest network of the front costs the price of the fastest one divided by this."""
_MANY = 1 << 16
"""Shapes with more NPUs are checked for ranks that are all simulated, since each simulation of these takes long."""
_NOMINAL = 8 * 10**11
"""Bits per second of each dimension at the start, if there is no budget of bandwidth."""
_ROUNDS = 6
"""Maximum number of rounds; each chooses algorithms and measures exchanges at the best rates of the previous one."""
_MEASURED = 64
"""Number of the best shapes that are settled; more if more are simulated."""
_SETTLED = 1e-3
"""A shape is settled once its prediction changes by less than this fraction."""


@dataclass(frozen=True)
class Allocation:
    """Rates for the dimensions of a shape, and what follows from them."""

    scheme: Scheme
    """How its rates were found; ``pareto`` only if the winner is a point of the front."""
    shape: str
    names: tuple[str, ...]
    """Names of the dimensions, lowest first."""
    rates: tuple[float, ...]
    """Rate of one NPU in each dimension, in bytes per second."""
    weights: tuple[float, ...]
    """Weight of each job's steps, in the order of the spec."""
    predicted: tuple[float, ...]
    """Predicted seconds of a step of each job, without overlap."""
    utilization: float
    """Predicted bytes over the capacity of the dimensions that exchanges use, during the exchanges; 0 to 1."""
    usd: float | None
    """Cost of the fabric."""
    npus_usd: float
    """Cost of the NPUs; 0 if not given."""
    sized_by: tuple[str, ...] = ()
    """For ``by turns``: the kinds of groups whose bytes determine the rate of the dimension that both kinds use."""
    broken: tuple[str, ...] = ()
    """Keys of the constraints that it breaks; only schemes of hier2021 can, since they ignore constraints."""
    reached: tuple[str, ...] = ()
    """Keys of the constraints that limit it."""
    simulated: tuple[float, ...] = ()
    """Simulated seconds of a step of each job; empty if it was not simulated."""
    used: float | None = None
    """Simulated counterpart of ``utilization``."""

    @property
    def total_s(self) -> float:
        """Predicted seconds of the steps of all jobs, by weight."""
        return sum(weight * time for weight, time in zip(self.weights, self.predicted, strict=True))

    @property
    def found_s(self) -> float:
        """Seconds of the steps of all jobs, by weight: simulated if available, else predicted."""
        return sum(weight * time for weight, time in zip(self.weights, self.simulated or self.predicted, strict=True))

    @property
    def per_cost(self) -> float | None:
        """Steps of all jobs, by weight, per second and dollar of fabric and NPUs, as predicted."""
        return 1 / (self.total_s * (self.usd + self.npus_usd)) if self.usd and self.total_s else None

    @property
    def found_per_cost(self) -> float | None:
        """Like :attr:`per_cost`, with simulated times if available."""
        return 1 / (self.found_s * (self.usd + self.npus_usd)) if self.usd and self.found_s else None

    def objective(self, *, per_cost: bool) -> float:
        """Objective to minimise: :attr:`found_s`, or with ``per_cost``, :attr:`found_s` times dollars."""
        return self.found_s * ((self.usd or 0.0) + self.npus_usd) if per_cost else self.found_s

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of each dimension in the total bandwidth."""
        whole = sum(self.rates)
        return tuple(rate / whole for rate in self.rates)


@dataclass
class SearchResult:
    """The results of a search."""

    request: BandwidthRequest
    winner: Allocation
    candidate: Candidate
    """The shape of the winner."""
    allocations: list[Allocation]
    """Every scheme and the optimum on the winner's shape; then the optimum of every other shape, best first."""
    front: list[Allocation] = field(default_factory=list)
    """With the objective ``pareto``: allocations that no other beats in both time and cost, cheapest first."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Shapes that were left out, and why."""
    notes: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    """Simulation of the winner for each job."""
    algorithms: list[Algorithms] = field(default_factory=list)
    """Algorithms of each job that are fixed in all predictions and simulations of the winner's shape."""
    is_settled: bool = True
    """Whether these algorithms are the ones that would be chosen for the winner's rates."""


@dataclass(frozen=True)
class _Prepared:
    """A shape with the demands of jobs on it, and its constraints."""

    candidate: Candidate
    jobs: list[tuple[float, Demand]]
    limits: Limits
    price: Price | None
    npus_usd: float
    algorithms: list[Algorithms]
    """Algorithms of each job for which the demands were measured."""

    def allocation(self, scheme: Scheme, rates: Sequence[float], sized_by: tuple[str, ...] = ()) -> Allocation:
        """The allocation with these rates."""
        rates = [readable(rate) for rate in rates]
        return Allocation(
            scheme,
            self.candidate.shape,
            self.candidate.names,
            tuple(rates),
            tuple(weight for weight, _ in self.jobs),
            tuple(job.time(rates) for _, job in self.jobs),
            utilization(together(self.jobs), rates),
            self.price.usd(rates) if self.price else None,
            self.npus_usd,
            sized_by,
            tuple(self.limits.broken(rates)),
            tuple(self.limits.reached(rates)) if scheme == Scheme.OPTIMUM else (),
        )

    def schemes(self) -> Iterator[Allocation]:
        """The allocations by the schemes of hier2021, as far as they apply."""
        whole = together(self.jobs)
        message, smart = schemes.message(whole), schemes.smart(whole)
        for name, division in ((Scheme.EQUAL, schemes.equal(len(self.candidate.sizes))), (Scheme.BY_BYTES, message)):
            if division is not None:
                yield self.allocation(name, self._scaled(division.shares))
        if isinstance(smart, schemes.Division):
            yield self.allocation(Scheme.BY_TURNS, self._scaled(smart.shares), smart.sized_by)

    def _scaled(self, shares: Sequence[float]) -> list[float]:
        """Rates with these shares that use up the budgets; a dimension with a share of 0 has :data:`MIN_RATE`."""
        whole = math.inf if self.limits.rate is None else self.limits.rate
        if self.limits.usd is not None and self.price is not None:
            each = sum(share * usd for share, usd in zip(shares, self.price.per_rate, strict=True))
            if each > 0:
                whole = min(whole, (self.limits.usd - self.price.fixed) / each)
        return [min(max(share * whole, MIN_RATE), MAX_RATE) for share in shares]


def readable(rate: float) -> float:
    """Rounds a rate to six digits in bits per second; rounds down, so that budgets hold."""
    bits = int(8 * rate * (1 + 1e-12))
    step = 10 ** max(len(str(bits)) - 6, 0)
    return float(max(bits // step * step, 8)) / 8


def utilization(job: Demand, rates: Sequence[float]) -> float:
    """Bytes of an exchange over the capacity of the dimensions that it uses: the mean over exchanges, by time."""
    taken = sum(each.time(rates) for each in job.exchanges)
    return job.ideal(rates) / taken if taken else 0.0


def search(request: BandwidthRequest, progress: Progress | None = None, warn: Warned | None = None) -> SearchResult:
    """Searches for the best rates.

    Calls ``progress`` with the fraction that is done, from 0 to 1, and the part that is next. Calls ``warn``,
    before the first simulation of a shape, with warnings that its simulations will take long.

    Raises :class:`SynclineError`; if no rates are feasible, with exit status 1 and the constraint that is violated.
    """
    report = progress or (lambda done, what: None)
    candidates = request.candidates()
    check_names(request, candidates)
    solver()
    best: list[tuple[_Prepared, Allocation]] = []
    skipped: list[tuple[str, str]] = []
    reasons: list[tuple[str, str]] = []
    refused: list[SynclineError] = []
    cache = Cache()
    for at, candidate in enumerate(candidates):
        report(0.6 * at / len(candidates), f"shape {at + 1} of {len(candidates)}: {candidate.shape}")
        try:
            prepared = _prepare(request, candidate, cache, warn)
        except SynclineError as problem:
            refused.append(problem)
            skipped.append((candidate.shape, problem.diagnostics[0]["message"]))
            continue
        if (why := prepared.limits.problem()) is not None:
            reasons.append(why)
            skipped.append((candidate.shape, why[1]))
        else:
            best.append((prepared, _best(request, prepared)))
    if not best:
        _raise_infeasible(request, reasons, refused)

    def objective(pair: tuple[_Prepared, Allocation]) -> float:
        return pair[1].objective(per_cost=_per_cost(request))

    _settle(request, best, cache, objective, report)
    # Of equally good shapes, prefer the one with the fewest dimensions.
    ties = [pair for pair in best if objective(pair) <= objective(best[0]) * (1 + _TIE)]
    best.sort(key=lambda pair: pair not in ties or len(pair[1].rates) > min(len(each.rates) for _, each in ties))
    prepared, winner = best[0]
    front = _front(request, [each for each, _ in best], winner, report) if request.spec.objective == "pareto" else []
    allocations = [*prepared.schemes(), *(allocation for _, allocation in best)]
    found = SearchResult(request, winner, prepared.candidate, allocations, front, skipped)
    _simulate(found, [each for each, _ in best], report)
    return found


def _settle(
    request: BandwidthRequest,
    best: list[tuple[_Prepared, Allocation]],
    cache: Cache,
    objective: Callable[[tuple[_Prepared, Allocation]], float],
    report: Progress,
) -> None:
    """Sorts shapes, best first, and settles the best ones."""
    settled: set[str] = set()
    most = max(request.spec.simulate, _MEASURED)
    while True:
        best.sort(key=objective)
        rough = (at for at, (prepared, _) in enumerate(best[:most]) if prepared.candidate.shape not in settled)
        if (at := next(rough, None)) is None:
            return
        prepared, allocation = best[at]
        report(0.6 + 0.1 * len(settled) / len(best), f"measuring {prepared.candidate.shape} at its best rates")
        settled.add(prepared.candidate.shape)
        best[at] = _settled(request, prepared, allocation, cache)


def _prepare(request: BandwidthRequest, candidate: Candidate, cache: Cache, warn: Warned | None) -> _Prepared:
    rates = [_NOMINAL] * len(candidate.sizes)
    priced = None
    for at in range(len(request.jobs)):
        loaded = request.scenario(at, candidate, rates)
        check_job(loaded)
        if warn is not None and candidate.npus > _MANY:
            # Ignore errors here: the first simulation raises them.
            warn([each for each in loaded.check() if each["code"] == Code.MANY_RANKS])
        if priced is None and request.spec.prices is not None:
            priced = price_of(loaded, request.source.mark(("prices",)))
    whole = request.spec.budget.rate_per_npu
    equal = _NOMINAL if whole is None else max(_core.parse_quantity("rate", whole) // len(rates), 8)
    algorithms = _choices(request, candidate, [equal] * len(rates))
    jobs = _demands(request, candidate, [equal] * len(rates), algorithms, cache)
    bounds = limits(request, candidate, priced)
    used = [any(each.bytes[at] for _, job in jobs for each in job.exchanges) for at in range(len(candidate.sizes))]
    if (free := bounds.unbounded(used)) is not None:
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"nothing limits the rate of dimension {free} of {candidate.shape}, which costs nothing",
                mark=request.source.mark(("budget",), key=True),
                key="budget",
                help=f"give `budget.rate_per_npu`, or `bandwidth: {{ {free}: {{ max: ... }} }}`",
            )
        )
    return _Prepared(candidate, jobs, bounds, priced, request.spec.npu_usd * candidate.npus, algorithms)


def _demands(
    request: BandwidthRequest,
    candidate: Candidate,
    rates: Sequence[int],
    algorithms: Sequence[Algorithms],
    cache: Cache,
) -> list[tuple[float, Demand]]:
    """Weight and demand of each job, with fixed algorithms, near these rates."""
    return [
        (job.weight, demand_of(request.scenario(at, candidate, rates), rates, algorithms[at], cache))
        for at, job in enumerate(request.jobs)
    ]


def _choices(request: BandwidthRequest, candidate: Candidate, rates: Sequence[int]) -> list[Algorithms]:
    """The algorithms that are chosen for each job at these rates, given in bits per second."""
    return [chosen(request.scenario(at, candidate, rates)) for at in range(len(request.jobs))]


def _best(request: BandwidthRequest, prepared: _Prepared) -> Allocation:
    """The allocation with the best rates of a shape."""
    rates = optimum(prepared.jobs, prepared.limits, per_cost=_per_cost(request), besides=prepared.npus_usd)
    return prepared.allocation(Scheme.OPTIMUM, rates)


def _settled(
    request: BandwidthRequest, prepared: _Prepared, best: Allocation, cache: Cache
) -> tuple[_Prepared, Allocation]:
    """Chooses algorithms and measures exchanges at the best rates, and optimises again, until nothing changes.

    If that does not converge, returns the round with the best prediction.
    """
    tried: list[tuple[_Prepared, Allocation]] = []
    for _ in range(_ROUNDS):
        rates = bits(best.rates)
        algorithms = _choices(request, prepared.candidate, rates)
        jobs = _demands(request, prepared.candidate, rates, algorithms, cache)
        before, was = prepared.algorithms, best.objective(per_cost=_per_cost(request))
        prepared = replace(prepared, algorithms=algorithms, jobs=jobs)
        best = _best(request, prepared)
        now = best.objective(per_cost=_per_cost(request))
        if algorithms == before and abs(now - was) <= _SETTLED * was:
            return prepared, best
        tried.append((prepared, best))
    return min(tried, key=lambda pair: pair[1].objective(per_cost=_per_cost(request)))


def _per_cost(request: BandwidthRequest) -> bool:
    """Whether the objective is performance per cost; for ``pareto``, it is if NPUs have a price."""
    spec = request.spec
    return spec.objective == "performance_per_cost" or (spec.objective == "pareto" and spec.npu_usd > 0)


def _front(
    request: BandwidthRequest, shapes: Sequence[_Prepared], winner: Allocation, report: Progress
) -> list[Allocation]:
    """Optima for a range of budgets, over all shapes, without those that another one beats in both time and cost.

    The winner is one of them.
    """
    found = [winner]
    points = request.spec.points
    for at, prepared in enumerate(shapes):
        report(0.7 + 0.2 * at / len(shapes), f"time against cost of {prepared.candidate.shape}")
        fastest = prepared.allocation(Scheme.OPTIMUM, optimum(prepared.jobs, prepared.limits))
        found.append(fastest)
        if prepared.price is None or not fastest.usd:
            continue
        low = max(prepared.price.usd(prepared.limits.least) * (1 + 1e-6), fastest.usd / _CHEAPEST)
        steps = (low * (fastest.usd / low) ** (step / (points - 1)) for step in range(points - 1))
        found += [
            prepared.allocation(Scheme.OPTIMUM, optimum(prepared.jobs, prepared.limits, usd=usd)) for usd in steps
        ]
    # If the fastest is also the winner, list it once.
    found = [winner, *(each for each in found if (each.shape, each.rates) != (winner.shape, winner.rates))]
    found.sort(key=lambda each: (each.usd or 0.0, each.total_s))
    front: list[Allocation] = []
    for each in found:
        if each is winner or all(each.total_s < other.total_s * (1 - 1e-9) for other in front):
            front.append(each)
    return front


def _simulate(found: SearchResult, shapes: Sequence[_Prepared], report: Progress) -> None:
    """Simulates the results: all schemes on the winner's shape, the best other shapes, points of the front.

    The one that is best as simulated becomes the winner, whatever was predicted.
    """
    request, predicted = found.request, found.winner
    of_shape = {prepared.candidate.shape: prepared for prepared in shapes}
    most = request.spec.simulate
    own = [each for each in found.allocations if each.shape == predicted.shape and each is not predicted]
    others = [each for each in found.allocations if each.shape != predicted.shape][: most - 1]
    last = len(found.front) - 1
    points = sorted({round(last * at / max(most - 1, 1)) for at in range(most)}) if found.front else []
    waiting = [predicted, *own, *others, *(found.front[at] for at in points)]
    whole = {predicted.shape}
    best: tuple[Allocation, Trial] | None = None
    done = 0
    while done < len(waiting):
        allocation = waiting[done]
        report(0.9 + 0.1 * done / len(waiting), f"simulation of {allocation.scheme} on {allocation.shape}")
        done += 1
        prepared = of_shape[allocation.shape]
        tried = trial(Setup(request, prepared.candidate, prepared.jobs, allocation.rates, prepared.algorithms))
        simulated = replace(allocation, simulated=tried.times, used=tried.used)
        for allocations in (found.allocations, found.front):
            allocations[:] = [simulated if each is allocation else each for each in allocations]
        if best is None or _better(simulated, best[0], request):
            best = simulated, tried
        # If another shape wins, simulate the schemes on that shape, too.
        if done == len(waiting) and best[0].shape not in whole:
            whole.add(best[0].shape)
            schemes_there = list(of_shape[best[0].shape].schemes())
            waiting += schemes_there
            found.allocations += schemes_there
    if best is not None:
        _win(found, predicted, *best, of_shape[best[0].shape])


def _better(one: Allocation, other: Allocation, request: BandwidthRequest) -> bool:
    """Whether ``one`` meets all constraints and is better as simulated, by more than :data:`_NOTED`."""
    per_cost = _per_cost(request)
    return not one.broken and one.objective(per_cost=per_cost) < other.objective(per_cost=per_cost) * (1 - _NOTED)


def _win(found: SearchResult, predicted: Allocation, winner: Allocation, tried: Trial, prepared: _Prepared) -> None:
    """Makes the allocation that is best as simulated the winner, and adds notes for the reader."""
    shape = winner.shape
    if not any(each is winner for each in found.allocations):
        # A point of the front.
        point = replace(winner, scheme=Scheme.PARETO)
        found.front[:] = [point if each is winner else each for each in found.front]
        found.allocations.append(point)
        winner = point
    if found.front and not any(each is winner for each in found.front):
        found.front = sorted([*found.front, winner], key=lambda each: (each.usd or 0.0, each.total_s))
    own = [each for each in found.allocations if each.shape == shape]
    own.sort(key=lambda each: _COLUMNS.index(each.scheme))
    found.allocations = own + [
        each for each in found.allocations if each.shape != shape and each.scheme == Scheme.OPTIMUM
    ]
    found.winner, found.candidate, found.results = winner, prepared.candidate, tried.results
    found.algorithms = prepared.algorithms
    found.is_settled = _choices(found.request, prepared.candidate, bits(winner.rates)) == prepared.algorithms
    if not found.is_settled:
        found.notes.append(_unsettled(found, prepared))
    smart = schemes.smart(together(prepared.jobs))
    if isinstance(smart, str):
        found.notes.append(f"`{Scheme.BY_TURNS}` does not apply here: {smart}")
    elif smart.sized_by:
        found.notes.append(
            f"`{Scheme.BY_TURNS}`: two kinds of groups share a dimension; the bytes of {listed(smart.sized_by)} "
            "parallelism determine its rate"
        )
    if (
        why := apart(Setup(found.request, prepared.candidate, prepared.jobs, winner.rates, prepared.algorithms), tried)
    ) is not None:
        found.notes.append(why)
    if (winner.scheme, shape) != (predicted.scheme, predicted.shape):
        name = "a point of the front" if winner.scheme == Scheme.PARETO else winner.scheme
        found.notes.append(
            f"in simulation, {name} on {shape} is better than {predicted.scheme} on {predicted.shape}, which was "
            "predicted to be best, and is therefore the winner"
        )


def _unsettled(found: SearchResult, prepared: _Prepared) -> str:
    """The note that other algorithms would be chosen for the winner's rates, with their time."""
    own = trial(
        Setup(found.request, prepared.candidate, prepared.jobs, found.winner.rates, [None] * len(prepared.jobs))
    )
    taken = sum(weight * each for (weight, _), each in zip(prepared.jobs, own.times, strict=True))
    steps = "the steps take" if found.request.spec.jobs else "the step takes"
    return (
        f"at these rates other algorithms would be chosen, with which {steps} {time(taken)}; the scenario keeps the "
        "algorithms of the search (`collectives.algorithms_of`)"
    )


def _raise_infeasible(
    request: BandwidthRequest, reasons: Sequence[tuple[str, str]], refused: Sequence[SynclineError]
) -> None:
    """Raises the error that no rates are feasible; or, if the jobs fit no shape, the error of the first shape."""
    if not reasons:
        raise refused[0]
    key = reasons[0][0]
    path: list[str | int] = list(key.split("."))
    while path and request.source.root.at(tuple(path)) is None:
        path.pop()
    raise_errors(
        error(
            Code.INFEASIBLE,
            "no bandwidths meet all constraints",
            mark=request.source.mark(tuple(path), key=True),
            key=key,
            help="relax the bounds in the notes" + (", or raise the budget" if key.startswith("budget") else ""),
            notes=list(dict.fromkeys(why for _, why in reasons))[:8],
        )
    )
