"""Pairs the numbers of two runs. A difference is always B minus A."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from syncline.report import delays
from syncline.report.equal_rows import group_equal, group_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from syncline.result import Result
    from syncline.summary import Summary


@dataclass(frozen=True)
class Pair:
    """A time in both runs, in seconds."""

    name: str
    a_s: float
    b_s: float

    @property
    def difference_s(self) -> float:
        """B minus A."""
        return self.b_s - self.a_s

    @property
    def ratio(self) -> float | None:
        """B over A; None if A is 0 or unknown."""
        return self.b_s / self.a_s if self.a_s else None


@dataclass(frozen=True)
class CostPair:
    """Cost of the fabric, or performance per dollar or watt, in both runs; None for a run that lacks the number."""

    key: str
    """A key of the summary."""
    name: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """B minus A."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def ratio(self) -> float | None:
        """B over A; None if A is 0 or unknown."""
        return self.b / self.a if self.a and self.b is not None else None


@dataclass(frozen=True)
class LayerPair:
    """The times of a layer in both runs: seconds in a step, means over ranks."""

    name: str
    compute: Pair
    exposed: Pair
    """Exposed communication."""
    share: float | None
    """Its difference over that of the step: more than 1 if other layers partly cancel it, negative if it has the
    opposite sign. None if the steps are equally long."""
    only: str = ""
    """``a`` or ``b`` if only that run has the layer, else empty."""
    count: int = 1
    """Number of layers that the pair stands for."""

    @property
    def whole(self) -> Pair:
        """Compute and exposed communication together."""
        return Pair("whole", self.compute.a_s + self.exposed.a_s, self.compute.b_s + self.exposed.b_s)

    @property
    def difference_s(self) -> float:
        """B minus A."""
        return self.whole.difference_s


@dataclass(frozen=True)
class CollectivePair:
    """The collectives of one kind in the same part of a layer, in both runs: means over iterations and groups."""

    name: str
    duration: Pair
    """Time from first issue to last result."""
    bound: Pair
    """Lower bound on the time of their plans."""
    only: str = ""


@dataclass(frozen=True)
class PhasePair:
    """A phase of collectives: mean delays in both runs."""

    name: str
    queue: Pair
    """Queue delay of a chunk."""
    network: Pair
    """Time of a message from send to arrival."""
    reduction: Pair
    """Time to combine a message with local data."""
    only: str = ""


@dataclass(frozen=True)
class DimensionPair:
    """Utilisation of a dimension in both runs, 0 to 1; None if a run does not have the dimension."""

    name: str
    utilization: tuple[float | None, float | None]
    utilization_while_busy: tuple[float | None, float | None]
    busiest_link_busy: tuple[float | None, float | None]


def steps(summary: Summary) -> int:
    """Number of steps by which times of a whole run are divided: completed iterations, or 1."""
    return max(summary.iterations, 1)


def parts(a: Summary, b: Summary) -> tuple[Pair, ...]:
    """The step, and its parts. Parts that are 0 in both runs are left out."""

    def pair(name: str, of: Callable[[Summary], float]) -> Pair:
        return Pair(name, *(of(each) / steps(each) for each in (a, b)))

    def negligible(each: Pair) -> bool:
        # A smaller time is rounding error.
        return max(each.a_s, each.b_s) <= 1e-9 * max(a.step_time_s, b.step_time_s)

    keys = {
        "compute": "compute_s",
        "exposed communication": "exposed_communication_s",
        "bubble": "bubble_s",
        "skew": "skew_s",
        "exposed memory": "exposed_memory_s",
        "idle": "idle_s",
    }
    found = [pair(name, attrgetter(key)) for name, key in keys.items()]
    found = [each for each in found if not negligible(each)]
    return pair("step", lambda summary: summary.total_time_s), *found


def per_work(a: Summary, b: Summary) -> tuple[Pair, ...]:
    """Time per sample and per token, if both runs know how many of them a step has."""
    found = []
    for name, key in (("a sample", "samples_per_step"), ("a token", "tokens_per_step")):
        counts = [getattr(each, key, None) for each in (a, b)]
        if all(counts) and a.iterations and b.iterations:
            times = (each.step_time_s / count for each, count in zip((a, b), counts, strict=True) if count)
            found.append(Pair(name, *times))
    return tuple(found)


@dataclass(frozen=True)
class PathPair:
    """A part of the critical path in both runs, in thousandths of it."""

    name: str
    """Name of the part, such as ``latency`` or ``nvlink bytes``."""
    a: int
    b: int


def critical_path(a: Summary, b: Summary) -> tuple[PathPair, ...]:
    """Parts of the critical paths, longest first; in each run they add up to 1000."""
    sides = [{part.name: part.per_mille for part in each.critical_path} for each in (a, b)]
    found = (PathPair(name, *(side.get(name, 0) for side in sides)) for name in dict.fromkeys((*sides[0], *sides[1])))
    return tuple(sorted(found, key=lambda each: -max(each.a, each.b)))


_COST_KEYS = (
    ("cost_usd", "cost of the network"),
    ("power_w", "power of the network"),
    ("iterations_per_s_per_usd", "iterations/s per $1 M"),
    ("iterations_per_s_per_w", "iterations/s per kW"),
)
"""Keys of the summary, and their names for people."""


def cost_and_performance(a: Summary, b: Summary) -> tuple[CostPair, ...]:
    """Cost and performance per dollar and watt, if at least one of the runs has prices."""
    found = (CostPair(key, name, getattr(a, key), getattr(b, key)) for key, name in _COST_KEYS)
    return tuple(each for each in found if each.a is not None or each.b is not None)


def layers(a: Result, b: Result, step_difference_s: float) -> tuple[LayerPair, ...]:
    """Layers by name, in the order of A and then of B."""
    columns = ("compute_s", "exposed_communication_s")

    def rows(result: Result) -> dict[str, tuple[float, ...]]:
        table = _table(result, "layers", ("layer", *columns))
        return dict(zip(_unique(table["layer"]), zip(*(table[each] for each in columns), strict=True), strict=True))

    found = []
    for name, only, one, other in _matched(rows(a), rows(b), (0.0, 0.0)):
        compute, exposed = (Pair(key, *pair) for key, pair in zip(columns, zip(one, other, strict=True), strict=True))
        found.append(_layer(name, compute, exposed, step_difference_s, only))
    return tuple(found)


def _layer(
    name: str, compute: Pair, exposed: Pair, step_difference_s: float, only: str = "", count: int = 1
) -> LayerPair:
    difference = compute.difference_s + exposed.difference_s
    share = difference / step_difference_s if step_difference_s else None
    return LayerPair(name, compute, exposed, share, only, count)


def merge_equal_layers(found: Iterable[LayerPair], step_difference_s: float) -> list[LayerPair]:
    """Merges layers whose names differ only in numbers, and whose times are equal to four digits, into their sum."""
    merged = []
    for members in _alike(found, lambda each: (each.compute, each.exposed)):
        compute, exposed = (
            Pair(pairs[0].name, sum(each.a_s for each in pairs), sum(each.b_s for each in pairs))
            for pairs in ([each.compute for each in members], [each.exposed for each in members])
        )
        name = group_label([each.name for each in members])
        merged.append(_layer(name, compute, exposed, step_difference_s, members[0].only, len(members)))
    return sorted(merged, key=lambda each: -abs(each.difference_s))


def merge_equal_collectives(found: Iterable[CollectivePair]) -> list[CollectivePair]:
    """Merges collectives whose names differ only in numbers, and whose times are equal to four digits, into one."""
    groups = _alike(found, lambda each: (each.duration, each.bound))
    return [replace(members[0], name=group_label([each.name for each in members])) for members in groups]


Row = TypeVar("Row", LayerPair, CollectivePair)


def _alike(found: Iterable[Row], times: Callable[[Row], tuple[Pair, ...]]) -> list[list[Row]]:
    def numbers(each: Row) -> Iterable[float]:
        return (seconds for pair in times(each) for seconds in (pair.a_s, pair.b_s))

    return group_equal(found, lambda each: each.name, numbers, lambda each: each.only)


def collectives(a: Result, b: Result) -> tuple[CollectivePair, ...]:
    """Collectives by layer, part and kind, largest difference first."""

    def rows(result: Result) -> dict[str, tuple[float, float]]:
        table = _table(result, "collectives", ("layer", "part", "kind", "duration_s", "bound_s"))
        sums: dict[str, list[float]] = {}
        for layer, part, kind, *times in zip(*table.values(), strict=True):
            # A layer of a workload of collectives alone is named after the kind of its collective.
            name = layer if layer.startswith(kind) else " ".join(each for each in (layer, part, kind) if each)
            total = sums.setdefault(name, [0.0, 0.0, 0.0])
            for at, value in enumerate((*times, 1.0)):
                total[at] += value
        return {name: (duration / count, bound / count) for name, (duration, bound, count) in sums.items()}

    found = [
        CollectivePair(name, Pair("duration_s", one[0], other[0]), Pair("bound_s", one[1], other[1]), only)
        for name, only, one, other in _matched(rows(a), rows(b), (0.0, 0.0))
    ]
    return tuple(sorted(found, key=lambda each: -abs(each.duration.difference_s)))


def phases(a: Result, b: Result) -> tuple[PhasePair, ...]:
    """Phases by number, dimension, kind and algorithm, largest difference of delays first."""

    def rows(result: Result) -> dict[str, tuple[float, float, float]]:
        names, found = delays.of(result) or ([], {"": {}})
        return {names[number]: total.means for number, total in sorted(found[""].items())}

    keys = ("queue_delay_s", "network_delay_s", "reduction_s")
    found = []
    for name, only, one, other in _matched(rows(a), rows(b), (0.0, 0.0, 0.0)):
        queue, network, reduction = (Pair(key, *each) for key, *each in zip(keys, one, other, strict=True))
        found.append(PhasePair(name, queue, network, reduction, only))

    def moved(each: PhasePair) -> float:
        return sum(abs(pair.difference_s) for pair in (each.queue, each.network, each.reduction))

    return tuple(sorted(found, key=lambda each: -moved(each)))


def dimensions(a: Summary, b: Summary) -> tuple[DimensionPair, ...]:
    """Dimensions by name, in the order of A and then of B."""
    keys = ("utilization", "utilization_while_busy", "busiest_link_busy")
    sides = [{dim.name: dim for dim in each.dims} for each in (a, b)]
    return tuple(
        DimensionPair(name, *(tuple(getattr(side.get(name), key, None) for side in sides) for key in keys))  # type: ignore[arg-type]
        for name in dict.fromkeys((*sides[0], *sides[1]))
    )


def _table(result: Result, name: str, columns: Iterable[str]) -> dict[str, list[Any]]:
    """Columns of a table; all are empty if the run does not have all of them."""
    table = result.table(name) if name in result.tables else {}
    columns = tuple(columns)
    there = all(column in table for column in columns)
    return {column: table[column] if there else [] for column in columns}


def _unique(names: Iterable[str]) -> list[str]:
    """Makes names unique by numbering repeats, since two layers in a file may share a name."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _matched(
    a: Mapping[str, tuple[float, ...]], b: Mapping[str, tuple[float, ...]], nothing: tuple[float, ...]
) -> list[tuple[str, str, tuple[float, ...], tuple[float, ...]]]:
    """For each name: the name, the run that alone has it (or empty), and both values; in the order of A, then of B."""
    return [
        (name, "" if name in a and name in b else "a" if name in a else "b", a.get(name, nothing), b.get(name, nothing))
        for name in dict.fromkeys((*a, *b))
    ]
