"""The demand of a job on each dimension of a fabric: the coefficients of the optimisation.

The time of a step is the sum of its compute and its exchanges, one after the other (hier2021 IV: communication of
tensor- and data-parallel ranks takes turns). An exchange takes as long as in the dimension that it keeps busy
longest: its bytes there over the rate of an NPU (hier2021 IV-B). These bytes are measured: each kind of exchange is
simulated alone, and the time for which the busiest link of a dimension sends gives its bytes. This accounts for groups
that use only some of a dimension's links, and for algorithms that send more than the minimum.

Latencies, delays of endpoints and reductions make an exchange longer, but by less than their sum, since some of them
overlap with sending. So their effect is measured at certain rates, and assumed to be the same near these rates.

All measurements use the algorithms that the search has fixed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.design.bandwidth import spanned
from syncline.design.bandwidth.algorithms import Algorithms, chosen, entries
from syncline.input.problem import error, raise_errors
from syncline.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.config.load import Loaded

_FEW = 4
"""Maximum number of chunks that are all simulated."""
_SOME = "1ps"
"""A negligible latency. With a latency of 0, results would depend on the order of simultaneous events, and no rank
could represent others."""
_NOTHING = {"endpoint_delay": "0s", "injection_latency": "0s", "reduction_rate": None}
"""Settings with which endpoints add no time to an exchange."""
_QUIET = {"report": False, "trace": {"ranks": [], "max_spans": 0}, "network": {"model": "analytical"}}
"""Settings of runs that need no report and no spans."""
_NOMINAL = 8 * 10**11
"""Bits per second of each dimension while bytes are measured; the number of bytes does not depend on rates."""


_Kind = tuple[str, str, tuple[str, ...]]
"""Role, kind and fixed phases of exchanges; no phases if the job names the algorithms."""


@dataclass(frozen=True)
class Exchange:
    """Exchanges of a step that keep dimensions busy in the same proportion."""

    role: str
    """The groups that take part: ``tensor`` or ``data``; ``all`` for collectives without a training loop."""
    bytes: tuple[float, ...]
    """Effective bytes in each dimension: the time for which the exchanges keep it busy, times the rate of an NPU."""

    def time(self, rates: Sequence[float]) -> float:
        """Seconds that the exchanges take, one after the other, with these rates in bytes per second."""
        return max((size / rate for size, rate in zip(self.bytes, rates, strict=True) if size), default=0.0)


@dataclass(frozen=True)
class Demand:
    """The demand of a step of a job."""

    compute_s: float
    """Time of its compute, plus the time that latencies, delays and reductions add to exchanges."""
    exchanges: tuple[Exchange, ...]
    latency_s: float = 0.0
    """The time that latencies, delays and reductions add to exchanges, which is part of ``compute_s``."""

    def time(self, rates: Sequence[float]) -> float:
        """Seconds that a step takes without overlap, with these rates in bytes per second."""
        return self.compute_s + sum(each.time(rates) for each in self.exchanges)

    def ideal(self, rates: Sequence[float]) -> float:
        """Seconds of the exchanges if each used the full bandwidth of all dimensions in which it sends anything."""
        used = (sum(rate for rate, size in zip(rates, each.bytes, strict=True) if size) for each in self.exchanges)
        return sum(sum(each.bytes) / rate for each, rate in zip(self.exchanges, used, strict=True))

    def role(self, role: str) -> tuple[float, ...]:
        """Bytes of the exchanges of a role in each dimension: M(k) of hier2021 IV."""
        found = [each.bytes for each in self.exchanges if each.role == role]
        return tuple(map(sum, zip(*found, strict=True))) if found else ()

    @property
    def roles(self) -> list[str]:
        """Roles that exchange anything."""
        return sorted({each.role for each in self.exchanges})


def together(jobs: Sequence[tuple[float, Demand]]) -> Demand:
    """The sum of the demands of several jobs, by weight."""
    sums: defaultdict[tuple[str, tuple[float, ...]], float] = defaultdict(float)
    for weight, job in jobs:
        for each in job.exchanges:
            most = max(each.bytes)
            sums[each.role, tuple(round(size / most, 9) for size in each.bytes)] += weight * most
    exchanges = (Exchange(role, tuple(part * most for part in parts)) for (role, parts), most in sorted(sums.items()))
    compute = sum(weight * job.compute_s for weight, job in jobs)
    return Demand(compute, tuple(exchanges), sum(weight * job.latency_s for weight, job in jobs))


@dataclass(frozen=True)
class Counted:
    """The compute and exchanges of a step, which do not depend on the shape of the fabric."""

    compute_s: float
    """Time of its compute."""
    exchanges: dict[tuple[str, str, int], float]
    """Number of exchanges in which a rank takes part, by role, kind and size."""


@dataclass(frozen=True)
class Probed:
    """Measured times of an exchange alone on a fabric."""

    total_s: float
    """Time of the exchange."""
    busy_s: dict[str, float]
    """Time for which the busiest link of each dimension sends, by name of the dimension."""


@dataclass(frozen=True)
class Cache:
    """A cache of simulations, by scenario; many shapes need the same ones."""

    counted: dict[str, Counted] = field(default_factory=dict)
    """Counts, which are equal for all shapes with the same number of NPUs."""
    evaluators: dict[str, _core.Evaluator] = field(default_factory=dict)
    """Exchanges on their own, ready to be measured, by scenario without its rates."""
    probed: dict[tuple[str, tuple[int, ...]], Probed] = field(default_factory=dict)
    """Measurements, by the scenario without its rates and by the rates. They are equal for shapes that differ only in
    dimensions that the exchange does not use."""


def check_job(loaded: Loaded) -> None:
    """Raises :class:`SynclineError` if a job cannot be divided into compute and exchanges."""
    workload = loaded.resolved["workload"]
    source = workload.get("source", "layers")
    if source not in ("layers", "collectives"):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "a search does not support this kind of workload",
                mark=loaded.origins.source.mark(("workload",), key=True),
                key="workload",
                found=source,
                allowed="a model, layers, a PyTorch module, or collectives",
                help="describe the job by its model: `workload: { model: gpt3_175b, ... }`",
            )
        )
    parallel = workload.get("parallel", {})
    for key in ("axes", "meshes"):
        if parallel.get(key):
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "a search supports no axes but `tensor` and `data`",
                    mark=loaded.origins.source.mark(("workload", "parallel", key)),
                    key=f"workload.parallel.{key}",
                    found=", ".join(parallel[key]),
                    help=f"leave `{key}` out of the search, and simulate its result with it",
                )
            )
    if parallel.get("pipeline", "none") != "none":
        raise_errors(
            error(
                Code.BAD_VALUE,
                "a search does not support pipelines: it cannot predict how stages wait for each other",
                mark=loaded.origins.source.mark(("workload", "parallel", "pipeline")),
                key="workload.parallel.pipeline",
                help="leave `pipeline` out of the search, and simulate its result with the pipeline",
            )
        )


def demand_of(
    loaded: Loaded, rates: Sequence[int], algorithms: Algorithms | None = None, cache: Cache | None = None
) -> Demand:
    """The demand of a job on the fabric of a scenario, whose dimensions have ``rates`` in bits per second.

    ``algorithms`` gives those of exchanges for which the job names none; without it, those that are chosen for these
    rates. ``cache`` holds simulations, also those for other shapes.

    Raises :class:`SynclineError` if the job cannot run on the fabric, and like :func:`check_job`.
    """
    check_job(loaded)
    cache = Cache() if cache is None else cache
    algorithms = chosen(loaded) if algorithms is None else algorithms
    counted = _counted(loaded, cache.counted)
    exchanges: dict[tuple[str, tuple[float, ...]], tuple[float, ...]] = {}
    latency = 0.0
    for (role, kind, phases), sizes in _alike(counted.exchanges, algorithms).items():
        probe = _Probe(loaded, role, kind, phases, sizes, cache)
        per_byte = probe.per_byte()
        total = sum(size * count for size, count in sizes.items())
        latency += probe.added(rates)
        if not any(per_byte):
            continue
        # Merge exchanges that keep dimensions busy in the same proportion.
        most = max(per_byte)
        proportion = tuple(round(each / most, 9) for each in per_byte)
        before = exchanges.get((role, proportion), (0.0,) * len(per_byte))
        more = tuple(was + total * each for was, each in zip(before, per_byte, strict=True))
        exchanges[role, proportion] = more
    found = tuple(Exchange(role, sizes) for (role, _), sizes in sorted(exchanges.items()))
    return Demand(counted.compute_s + latency, found, latency)


def _counted(loaded: Loaded, cache: dict[str, Counted]) -> Counted:
    """Counts the exchanges of a job, unless ``cache`` has them."""
    resolved = loaded.resolved
    workload = resolved["workload"]
    counting = {
        **resolved,
        "workload": {**workload, "iterations": 1},
        "fabric": _of_whole_dimensions(resolved),
        "collectives": _of_any_fabric(resolved),
    }
    key = json.dumps(counting, sort_keys=True)
    if key not in cache:
        base = _run(loaded, counting)
        rows = base.table("collectives")
        ranks = base.summary.ranks
        counts: defaultdict[tuple[str, str, int], float] = defaultdict(float)
        for kind, group, size, groups, members in zip(
            rows["kind"], rows["group"], rows["size_bytes"], rows["groups"], rows["group_ranks"], strict=True
        ):
            role = str(group).split(".")[0] if workload.get("source", "layers") == "layers" else "all"
            counts[role, str(kind), int(size)] += groups * members / ranks
        cache[key] = Counted(base.summary.compute_s, dict(counts))
    return cache[key]


def _alike(counts: dict[tuple[str, str, int], float], algorithms: Algorithms) -> dict[_Kind, dict[int, float]]:
    """Numbers of exchanges by size, for each role, kind and algorithm."""
    found: defaultdict[_Kind, dict[int, float]] = defaultdict(dict)
    for (role, kind, size), count in sorted(counts.items()):
        found[role, kind, algorithms.get((role, kind, size), ())][size] = count
    return found


def _of_whole_dimensions(resolved: dict[str, Any]) -> dict[str, Any]:
    """A fabric with the same number of NPUs on which all groups fill whole dimensions, so that one rank represents all.

    It is only for counting exchanges, whose number depends on the number of ranks and not on the fabric.
    """
    dims = resolved["fabric"]["dims"]
    axes = (resolved["workload"].get("parallel", {}).get(key) for key in ("tensor", "data"))
    if any(isinstance(each, dict) and "dims" in each for each in axes):
        return {"dims": [{**dim, "latency": _SOME} for dim in dims]}
    link = {"shape": "switch", "rate": None, "rate_per_npu": "100GB/s", "latency": _SOME, "efficiency": 1.0}
    npus = prod(dim["size"] for dim in dims)
    inner = _inner(resolved["workload"].get("parallel", {}), npus)
    # The lowest parts hold a tensor-parallel group, whatever the shape, so that one fabric serves all shapes.
    primes = (*_primes(inner), *_primes(npus // inner))
    return {"dims": [{"name": f"part{at}", "size": prime, **link} for at, prime in enumerate(primes)]}


def _inner(parallel: dict[str, Any], npus: int) -> int:
    """Ranks of a tensor-parallel group, if the degrees determine that number; else 1."""
    tensor, data = parallel.get("tensor"), parallel.get("data")
    if isinstance(tensor, dict) and npus % (degree := tensor.get("degree", 1)) == 0:
        return int(degree)
    if isinstance(data, dict) and npus % (degree := data.get("degree", 1)) == 0:
        return int(npus // degree)
    return 1


def _of_any_fabric(resolved: dict[str, Any]) -> dict[str, Any]:
    """The settings of collectives, without those that refer to dimensions of the fabric.

    The numbers and sizes of exchanges do not depend on these; the exchanges are measured with all settings.
    """
    return {**resolved["collectives"], "algorithms": {}, "plans": {}, "logical": None}


def _primes(number: int) -> Iterator[int]:
    """Prime factors, smallest first."""
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1
    if number > 1:
        yield number


def _run(loaded: Loaded, resolved: dict[str, Any]) -> Result:
    def simulate() -> Result:
        finished = _core.simulate(json.dumps({**resolved, **_QUIET}))
        if finished.interrupted:
            raise KeyboardInterrupt
        return Result(finished)

    found: Result = loaded.placing(simulate)
    return found


class _Probe:
    """Measures one kind of exchange alone on the fabric; ``sizes`` holds the number of exchanges of each size."""

    def __init__(
        self,
        loaded: Loaded,
        role: str,
        kind: str,
        phases: tuple[str, ...],
        sizes: dict[int, float],
        cache: Cache,
    ) -> None:
        self.loaded, self.role, self.kind, self.phases = loaded, role, kind, phases
        self.sizes, self.cache = sizes, cache

    def _workload(self, size: int) -> dict[str, Any]:
        workload = self.loaded.resolved["workload"]
        comm = {"kind": self.kind, "bytes": f"{max(size, 1)}B"}
        if self.role == "all":
            return {**workload, "collectives": [comm], "iterations": 1}
        when = "after_forward" if self.role == "tensor" else "after_weight_grad"
        parallel = {**workload["parallel"], "zero": 0, "recompute": "none", "sequence": False}
        parallel.pop("divided_checkpoints", None)
        made = {key: workload[key] for key in ("source", "types") if key in workload}
        layers = [{"name": "probe", "exchanges": [{"when": when, "axes": [self.role], **comm}]}]
        return {**made, "layers": layers, "parallel": parallel, "iterations": 1}

    def _run(self, size: int, rates: Sequence[int], collectives: dict[str, Any], *, latency: bool = False) -> Probed:
        """Measures an exchange of ``size`` bytes at these rates; without ``latency``, with links of no latency."""
        resolved = self.loaded.resolved
        parallel = resolved["workload"].get("parallel", {})
        dims = [
            {**dim, "rate_per_npu": f"{rate}b/s"} for dim, rate in zip(resolved["fabric"]["dims"], rates, strict=True)
        ]
        inner = spanned.inner(parallel, collectives, prod(dim["size"] for dim in dims))
        dims = spanned.standardised(dims, self.role, inner, _SOME)
        if not latency:
            dims = [{**dim, "latency": _SOME} for dim in dims]
        if self.phases:
            algorithms = entries({(self.role, self.kind, max(size, 1)): self.phases})
            collectives = {**collectives, "algorithms_of": algorithms}
        kept = {key: value for key, value in resolved.items() if key not in ("npu_memory", "prices")}
        at = tuple(_core.parse_quantity("rate", dim.pop("rate_per_npu")) for dim in dims)
        changed = {"workload": self._workload(size), "fabric": {"dims": dims}, "collectives": collectives}
        key = json.dumps({**kept, **changed, "compute": {"model": "given"}, **_QUIET}, sort_keys=True)
        if (key, at) not in self.cache.probed:
            if key not in self.cache.evaluators:
                self.cache.evaluators[key] = self.loaded.placing(lambda: _core.Evaluator.read(key))
            evaluator = self.cache.evaluators[key]
            self.cache.probed[key, at] = Probed(*self.loaded.placing(lambda: evaluator.evaluate(list(at))))
        return self.cache.probed[key, at]

    def per_byte(self) -> tuple[float, ...]:
        """Effective bytes in each dimension (see :attr:`Exchange.bytes`), for each byte of the exchange."""
        resolved = self.loaded.resolved
        # Chunks take the two directions of a ring in turn; instead of many chunks, two give the same result.
        chunks = resolved["collectives"]["chunks"]
        chunks = chunks if isinstance(chunks, int) and chunks <= _FEW else 2
        size, dims = max(self.sizes), resolved["fabric"]["dims"]
        plain = {**resolved["collectives"], "chunks": chunks, "chunks_of": {}, **_NOTHING}
        busy = self._run(size, [_NOMINAL] * len(dims), plain).busy_s
        return tuple(busy.get(dim["name"], 0.0) * _NOMINAL / 8 / max(size, 1) for dim in dims)

    def added(self, rates: Sequence[int]) -> float:
        """Seconds that latencies, delays and reductions add to all exchanges, one after the other, at these rates.

        Measured for the smallest and the largest size, and interpolated for sizes between them.
        """
        resolved = self.loaded.resolved
        collectives = resolved["collectives"]
        times = [dim["latency"] for dim in resolved["fabric"]["dims"]]
        times += [collectives["endpoint_delay"], collectives["injection_latency"]]
        if collectives["reduction_rate"] is None and not any(_core.parse_quantity("time", each) for each in times):
            return 0.0
        low, high = min(self.sizes), max(self.sizes)
        ends = {}
        for size in (low, high):
            whole = self._run(size, rates, collectives, latency=True).total_s
            ends[size] = max(whole - self._run(size, rates, {**collectives, **_NOTHING}).total_s, 0.0)
        slope = (ends[high] - ends[low]) / (high - low) if high > low else 0.0
        return sum(count * (ends[low] + slope * (size - low)) for size, count in self.sizes.items())
