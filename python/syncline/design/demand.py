"""What a job asks of each dimension of a fabric: the coefficients of the optimisation.

The time of a step is that of its compute and of its exchanges, one after the other (hier2021 IV: communication of
model- and of data-parallel ranks takes turns). An exchange takes as long as the dimension that it keeps busy longest:
its bytes there over what an NPU sends into it (hier2021 IV-B). These bytes are not derived on paper: each kind of
exchange is simulated alone, and the time for which the busiest link of a dimension sends is what counts. So groups that
use some of a dimension's links only, and algorithms that send more than they must, count as they are.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.config.problem import error, refuse
from syncline.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.config.load import Loaded

_FEW = 4
"""Chunks that are simulated as they are."""
_SOME = "1ps"
"""A latency that counts for nothing. Without any, the order of events of one time would count, and no rank could stand
for others."""
_FAST = 10**6
"""Rates are this much higher where latencies are measured."""


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
    """Time of its compute, and of latencies."""
    exchanges: tuple[Exchange, ...]

    def time(self, rates: Sequence[float]) -> float:
        """Seconds that a step takes without overlap, with these rates in bytes per second."""
        return self.compute_s + sum(each.time(rates) for each in self.exchanges)

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
    return Demand(sum(weight * job.compute_s for weight, job in jobs), tuple(exchanges))


def demand(loaded: Loaded, rates: Sequence[int]) -> Demand:
    """What a job asks of the fabric of a scenario, whose dimensions have ``rates`` in bits per second.

    Raises :class:`SynclineError` where the job cannot run on it, or is of a kind that cannot be taken apart.
    """
    resolved = loaded.resolved
    workload = resolved["workload"]
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
    base = _run(loaded, {**resolved, "workload": {**workload, "iterations": 1}, "fabric": _alike(resolved)})
    rows = base.table("collectives")
    ranks = base.summary.ranks
    # How many of each kind a rank takes part in.
    counts: defaultdict[tuple[str, str, int], float] = defaultdict(float)
    for kind, group, size, groups, members in zip(
        rows["kind"], rows["group"], rows["size_bytes"], rows["groups"], rows["group_ranks"], strict=True
    ):
        role = str(group).split(".")[0] if source == "layers" else "all"
        counts[role, str(kind), int(size)] += groups * members / ranks
    bubbles = _bubbles(workload)
    exchanges: dict[tuple[str, tuple[float, ...]], tuple[float, ...]] = {}
    latency = 0.0
    for (role, kind), sizes in _by_kind(counts).items():
        probe = _Probe(loaded, role, kind, max(sizes))
        per_byte = probe.per_byte(rates)
        total = sum(size * count for size, count in sizes.items()) * bubbles
        latency += probe.latency(rates) * sum(sizes.values()) * bubbles
        if not any(per_byte):
            continue
        # What keeps dimensions busy in one proportion is one exchange.
        most = max(per_byte)
        proportion = tuple(round(each / most, 9) for each in per_byte)
        before = exchanges.get((role, proportion), (0.0,) * len(per_byte))
        more = tuple(was + total * each for was, each in zip(before, per_byte, strict=True))
        exchanges[role, proportion] = more
    found = tuple(Exchange(role, sizes) for (role, _), sizes in sorted(exchanges.items()))
    return Demand(base.summary.compute_s * bubbles + latency, found)


def _by_kind(counts: dict[tuple[str, str, int], float]) -> dict[tuple[str, str], dict[int, float]]:
    found: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for (role, kind, size), count in sorted(counts.items()):
        found[role, kind][size] = count
    return found


def _bubbles(workload: dict[str, Any]) -> float:
    """How much longer a step of a pipeline takes for stages that wait (Narayanan et al. 2021, 2.2.1)."""
    parallel = workload.get("parallel", {})
    stages = parallel.get("pipeline", "none")
    degree = stages.get("degree", 1) if isinstance(stages, dict) else 1
    turns: int = workload.get("micro_batches", 1) * parallel.get("virtual_stages", 1)
    return float(1 + (degree - 1) / turns)


def _alike(resolved: dict[str, Any]) -> dict[str, Any]:
    """A fabric of as many NPUs on which all groups fill whole dimensions, so that one rank stands for all.

    It is for counting exchanges only, which hang on the number of ranks and not on the fabric.
    """
    dims = resolved["fabric"]["dims"]
    axes = (resolved["workload"].get("parallel", {}).get(key) for key in ("model", "data", "pipeline"))
    if any(isinstance(each, dict) and "dims" in each for each in axes):
        return {"dims": [{**dim, "latency": _SOME} for dim in dims]}
    link = {"shape": "switch", "rate": None, "rate_per_npu": "100GB/s", "latency": _SOME, "efficiency": 1.0}
    primes = (prime for dim in dims for prime in _primes(dim["size"]))
    return {"dims": [{"name": f"part{at}", "size": prime, **link} for at, prime in enumerate(primes)]}


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

    def simulate(_: str) -> Result:
        finished = _core.simulate(json.dumps(quiet))
        if finished.interrupted:
            raise KeyboardInterrupt
        return Result(finished)

    found: Result = loaded.call(simulate)
    return found


class _Probe:
    """One exchange alone on the fabric."""

    def __init__(self, loaded: Loaded, role: str, kind: str, size: int) -> None:
        self.loaded, self.size = loaded, max(size, 1)
        workload = loaded.resolved["workload"]
        if role == "all":
            self.workload = {**workload, "collectives": [{"kind": kind, "bytes": f"{self.size}B"}], "iterations": 1}
            return
        comm = {"kind": kind, "bytes": f"{self.size}B"}
        which = "forward" if role == "model" else "weight_grad"
        parallel = {**workload["parallel"], "zero": 0, "recompute": "none", "sequence": False}
        parallel = {key: value for key, value in parallel.items() if key != "divided_checkpoints"}
        stages = workload["parallel"].get("pipeline", "none")
        degree = stages.get("degree", 1) if isinstance(stages, dict) else 1
        count = degree * parallel.get("virtual_stages", 1)
        layers = [{"name": f"probe{at}", "outputs": 1, "communication": {which: comm}} for at in range(count)]
        kept = ("source", "data_type")
        self.workload = {key: workload[key] for key in kept if key in workload}
        self.workload |= {"layers": layers, "parallel": parallel, "iterations": 1}
        if degree > 1:
            self.workload["micro_batches"] = degree

    def _run(self, *, factor: int = 1, latency: bool = False) -> Result:
        resolved = self.loaded.resolved
        dims = [dict(dim) for dim in resolved["fabric"]["dims"]]
        for dim in dims:
            bits = _core.parse_quantity("rate", dim["rate_per_npu"])
            dim["rate_per_npu"] = f"{bits * factor}b/s"
            if not latency:
                dim["latency"] = _SOME
        # Chunks take the two ways round a ring in turn; where there are many, two say as much.
        chunks = resolved["collectives"]["chunks"]
        chunks = chunks if isinstance(chunks, int) and chunks <= _FEW else 2
        collectives = {**resolved["collectives"], "chunks": chunks, "chunks_of": {}}
        collectives |= {"endpoint_delay": "0s", "injection_latency": "0s"}
        kept = {key: value for key, value in resolved.items() if key not in ("npu_memory", "prices")}
        changed = {"workload": self.workload, "fabric": {"dims": dims}, "collectives": collectives}
        return _run(self.loaded, {**kept, **changed, "compute": {"model": "given"}})

    def per_byte(self, rates: Sequence[int]) -> tuple[float, ...]:
        """Of each dimension: bytes that an NPU's whole rate takes as long for, for each byte of the exchange."""
        summary = self._run().summary
        # Other stages of a pipeline do the same on links of their own.
        busy = [dim.busiest_link_busy * summary.total_time_s for dim in summary.dims]
        return tuple(time * rate / 8 / self.size for time, rate in zip(busy, rates, strict=True))

    def latency(self, rates: Sequence[int]) -> float:
        """Seconds that it takes where rates count for nothing."""
        del rates
        if all(_core.parse_quantity("time", dim["latency"]) == 0 for dim in self.loaded.resolved["fabric"]["dims"]):
            return 0.0
        return self._run(factor=_FAST, latency=True).summary.total_time_s
