"""What a job asks of each dimension of a fabric: the coefficients of the optimisation.

The time of a step is that of its compute and of its exchanges, one after the other (hier2021 IV: communication of
model- and of data-parallel ranks takes turns). An exchange takes as long as the dimension that it keeps busy longest:
its bytes there over what an NPU sends into it (hier2021 IV-B). These bytes are not derived on paper: each kind of
exchange is simulated alone, and the time for which the busiest link of a dimension sends is what counts. So groups that
use some of a dimension's links only, and algorithms that send more than they must, count as they are.

Latencies, delays of endpoints and reductions make an exchange longer, by less than they take by themselves: some of it
passes while links are busy. So what they add is measured at certain rates, and taken to be the same near these.

The algorithms are those that the search holds, whatever is measured.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.config.problem import error, refuse
from syncline.design import spanned
from syncline.design.held import Held, chosen, entries
from syncline.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.config.load import Loaded

_FEW = 4
"""Chunks that are simulated as they are."""
_SOME = "1ps"
"""A latency that counts for nothing. Without any, the order of events of one time would count, and no rank could stand
for others."""
_NOTHING = {"endpoint_delay": "0s", "injection_latency": "0s", "reduction_rate": None}
"""What endpoints add to an exchange, left out."""
_NOMINAL = 8 * 10**11
"""Bits per second of each dimension where bytes are measured: how many these are does not depend on rates."""


_Kind = tuple[str, str, tuple[str, ...]]
"""Role, kind and held phases of exchanges; no phases where the job names the algorithms."""


@dataclass(frozen=True)
class Exchange:
    """Exchanges of a step that keep dimensions busy in the same proportion."""

    role: str
    """Who takes part: ``model`` or ``data``; ``all`` for collectives without a training loop."""
    bytes: tuple[float, ...]
    """In each dimension: bytes that it takes as long for as an NPU's whole rate there takes for them."""

    def time(self, rates: Sequence[float]) -> float:
        """Seconds that they take, one after the other, with these rates in bytes per second."""
        return max((size / rate for size, rate in zip(self.bytes, rates, strict=True) if size), default=0.0)


@dataclass(frozen=True)
class Demand:
    """What a step of a job asks for."""

    compute_s: float
    """Time of its compute, and of what latencies, delays and reductions add to exchanges."""
    exchanges: tuple[Exchange, ...]
    latency_s: float = 0.0
    """The part of ``compute_s`` that is added to exchanges."""

    def time(self, rates: Sequence[float]) -> float:
        """Seconds that a step takes without overlap, with these rates in bytes per second."""
        return self.compute_s + sum(each.time(rates) for each in self.exchanges)

    def ideal(self, rates: Sequence[float]) -> float:
        """Seconds of the exchanges if each used all bandwidth of the dimensions that it uses at all."""
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
    """What several jobs ask for, each so many times."""
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
    """What a step of a job does, whatever the shape of the fabric."""

    compute_s: float
    """Time of its compute."""
    exchanges: dict[tuple[str, str, int], float]
    """By role, kind and size: how many of them a rank takes part in."""


@dataclass(frozen=True)
class Probed:
    """What an exchange alone does on a fabric."""

    total_s: float
    """How long it takes."""
    busy_s: dict[str, float]
    """How long the busiest link of each dimension sends, by its name."""


@dataclass(frozen=True)
class Known:
    """What was simulated already, by the scenario that it was simulated for: it is the same for many shapes."""

    counted: dict[str, Counted] = field(default_factory=dict)
    """The same for all shapes of as many NPUs."""
    probed: dict[str, Probed] = field(default_factory=dict)
    """The same for shapes that differ in dimensions that the exchange does not use."""


def check_job(loaded: Loaded) -> None:
    """Raises :class:`SynclineError` where a job is of a kind that cannot be taken apart."""
    workload = loaded.resolved["workload"]
    source = workload.get("source", "layers")
    if source not in ("layers", "collectives"):
        refuse(
            error(
                "SL0102",
                "the exchanges of such a workload cannot be told apart",
                mark=loaded.origins.source.mark(("workload",), key=True),
                key="workload",
                found=source,
                allowed="a model, layers, a PyTorch module, or collectives",
                help="describe the job by its model: `workload: { model: gpt3_175b, ... }`",
            )
        )
    stages = workload.get("parallel", {}).get("pipeline", "none")
    if stages != "none":
        refuse(
            error(
                "SL0102",
                "the stages of a pipeline wait for each other, which a sum of exchanges does not tell",
                mark=loaded.origins.source.mark(("workload", "parallel", "pipeline")),
                key="workload.parallel.pipeline",
                help="leave `pipeline` out of the search, and simulate what is found with it",
            )
        )


def demand(loaded: Loaded, rates: Sequence[int], held: Held | None = None, known: Known | None = None) -> Demand:
    """What a job asks of the fabric of a scenario, whose dimensions have ``rates`` in bits per second.

    ``held`` are the algorithms of exchanges for which the job names none; without it, those that are chosen for these
    rates. ``known`` is what was counted for other shapes, and is added to.

    Raises :class:`SynclineError` where the job cannot run on it, or as :func:`check_job`.
    """
    check_job(loaded)
    known = Known() if known is None else known
    held = chosen(loaded) if held is None else held
    counted = _counted(loaded, known.counted)
    exchanges: dict[tuple[str, tuple[float, ...]], tuple[float, ...]] = {}
    latency = 0.0
    for (role, kind, phases), sizes in _alike(counted.exchanges, held).items():
        probe = _Probe(loaded, role, kind, phases, sizes, known.probed)
        per_byte = probe.per_byte()
        total = sum(size * count for size, count in sizes.items())
        latency += probe.added(rates)
        if not any(per_byte):
            continue
        # What keeps dimensions busy in one proportion is one exchange.
        most = max(per_byte)
        proportion = tuple(round(each / most, 9) for each in per_byte)
        before = exchanges.get((role, proportion), (0.0,) * len(per_byte))
        more = tuple(was + total * each for was, each in zip(before, per_byte, strict=True))
        exchanges[role, proportion] = more
    found = tuple(Exchange(role, sizes) for (role, _), sizes in sorted(exchanges.items()))
    return Demand(counted.compute_s + latency, found, latency)


def _counted(loaded: Loaded, known: dict[str, Counted]) -> Counted:
    """Counts the exchanges of a job, unless it is known."""
    resolved = loaded.resolved
    workload = resolved["workload"]
    counting = {
        **resolved,
        "workload": {**workload, "iterations": 1},
        "fabric": _of_whole_dimensions(resolved),
        "collectives": _of_any_fabric(resolved),
    }
    key = json.dumps(counting, sort_keys=True)
    if key not in known:
        base = _run(loaded, counting)
        rows = base.table("collectives")
        ranks = base.summary.ranks
        counts: defaultdict[tuple[str, str, int], float] = defaultdict(float)
        for kind, group, size, groups, members in zip(
            rows["kind"], rows["group"], rows["size_bytes"], rows["groups"], rows["group_ranks"], strict=True
        ):
            role = str(group).split(".")[0] if workload.get("source", "layers") == "layers" else "all"
            counts[role, str(kind), int(size)] += groups * members / ranks
        known[key] = Counted(base.summary.compute_s, dict(counts))
    return known[key]


def _alike(counts: dict[tuple[str, str, int], float], held: Held) -> dict[_Kind, dict[int, float]]:
    """How many exchanges there are of each size, those of one role, kind and algorithm together."""
    found: defaultdict[_Kind, dict[int, float]] = defaultdict(dict)
    for (role, kind, size), count in sorted(counts.items()):
        found[role, kind, held.get((role, kind, size), ())][size] = count
    return found


def _of_whole_dimensions(resolved: dict[str, Any]) -> dict[str, Any]:
    """A fabric of as many NPUs on which all groups fill whole dimensions, so that one rank stands for all.

    It is for counting exchanges only, which hang on the number of ranks and not on the fabric.
    """
    dims = resolved["fabric"]["dims"]
    axes = (resolved["workload"].get("parallel", {}).get(key) for key in ("model", "data"))
    if any(isinstance(each, dict) and "dims" in each for each in axes):
        return {"dims": [{**dim, "latency": _SOME} for dim in dims]}
    link = {"shape": "switch", "rate": None, "rate_per_npu": "100GB/s", "latency": _SOME, "efficiency": 1.0}
    npus = prod(dim["size"] for dim in dims)
    inner = _inner(resolved["workload"].get("parallel", {}), npus)
    # The lowest parts hold a model-parallel group, whatever the shape: so all shapes are counted on one fabric.
    primes = (*_primes(inner), *_primes(npus // inner))
    return {"dims": [{"name": f"part{at}", "size": prime, **link} for at, prime in enumerate(primes)]}


def _inner(parallel: dict[str, Any], npus: int) -> int:
    """Ranks of a model-parallel group, where the degrees say how many these are; else 1."""
    model, data = parallel.get("model"), parallel.get("data")
    if isinstance(model, dict) and npus % (degree := model.get("degree", 1)) == 0:
        return int(degree)
    if isinstance(data, dict) and npus % (degree := data.get("degree", 1)) == 0:
        return int(npus // degree)
    return 1


def _of_any_fabric(resolved: dict[str, Any]) -> dict[str, Any]:
    """How collectives are carried out, without what is said of the fabric's own dimensions.

    How many there are, and of which sizes, does not hang on it; the exchanges themselves are measured with all of it.
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
    quiet = {**resolved, "report": False, "trace": {"ranks": [], "max_spans": 0}, "network": {"model": "analytical"}}

    def simulate() -> Result:
        finished = _core.simulate(json.dumps(quiet))
        if finished.interrupted:
            raise KeyboardInterrupt
        return Result(finished)

    found: Result = loaded.placing(simulate)
    return found


class _Probe:
    """One kind of exchange alone on the fabric; ``sizes`` says how many there are of each size."""

    def __init__(
        self,
        loaded: Loaded,
        role: str,
        kind: str,
        phases: tuple[str, ...],
        sizes: dict[int, float],
        known: dict[str, Probed],
    ) -> None:
        self.loaded, self.role, self.kind, self.phases = loaded, role, kind, phases
        self.sizes, self.known = sizes, known

    def _workload(self, size: int) -> dict[str, Any]:
        workload = self.loaded.resolved["workload"]
        comm = {"kind": self.kind, "bytes": f"{max(size, 1)}B"}
        if self.role == "all":
            return {**workload, "collectives": [comm], "iterations": 1}
        which = "forward" if self.role == "model" else "weight_grad"
        parallel = {**workload["parallel"], "zero": 0, "recompute": "none", "sequence": False}
        parallel.pop("divided_checkpoints", None)
        made = {key: workload[key] for key in ("source", "types") if key in workload}
        layers = [{"name": "probe", "communication": {which: comm}}]
        return {**made, "layers": layers, "parallel": parallel, "iterations": 1}

    def _run(self, size: int, rates: Sequence[int], collectives: dict[str, Any], *, latency: bool = False) -> Probed:
        """An exchange of ``size`` bytes at these rates; without ``latency``, links have none."""
        resolved = self.loaded.resolved
        parallel = resolved["workload"].get("parallel", {})
        dims = [
            {**dim, "rate_per_npu": f"{rate}b/s"} for dim, rate in zip(resolved["fabric"]["dims"], rates, strict=True)
        ]
        inner = spanned.inner(parallel, collectives, prod(dim["size"] for dim in dims))
        dims = spanned.alike(dims, self.role, inner, _SOME)
        if not latency:
            dims = [{**dim, "latency": _SOME} for dim in dims]
        if self.phases:
            held = entries({(self.role, self.kind, max(size, 1)): self.phases})
            collectives = {**collectives, "algorithms_of": held}
        kept = {key: value for key, value in resolved.items() if key not in ("npu_memory", "prices")}
        changed = {"workload": self._workload(size), "fabric": {"dims": dims}, "collectives": collectives}
        asked = {**kept, **changed, "compute": {"model": "given"}}
        key = json.dumps(asked, sort_keys=True)
        if key not in self.known:
            result = _run(self.loaded, asked)
            links = result.table("links")
            busy: dict[str, float] = {}
            for name, time in zip(links["dimension"], links["busy_s"], strict=True):
                busy[name] = max(busy.get(name, 0.0), time)
            self.known[key] = Probed(result.summary.total_time_s, busy)
        return self.known[key]

    def per_byte(self) -> tuple[float, ...]:
        """Of each dimension: bytes that an NPU's whole rate takes as long for, for each byte of the exchange."""
        resolved = self.loaded.resolved
        # Chunks take the two ways round a ring in turn; where there are many, two say as much.
        chunks = resolved["collectives"]["chunks"]
        chunks = chunks if isinstance(chunks, int) and chunks <= _FEW else 2
        size, dims = max(self.sizes), resolved["fabric"]["dims"]
        plain = {**resolved["collectives"], "chunks": chunks, "chunks_of": {}, **_NOTHING}
        busy = self._run(size, [_NOMINAL] * len(dims), plain).busy_s
        return tuple(busy.get(dim["name"], 0.0) * _NOMINAL / 8 / max(size, 1) for dim in dims)

    def added(self, rates: Sequence[int]) -> float:
        """Seconds that latencies, delays and reductions add to all of them, one after the other, at these rates.

        Measured for the smallest and the largest, and in proportion for those between.
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
