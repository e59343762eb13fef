"""The shapes of a search, and scenarios of jobs on them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.config.load import Loaded, resolve
from syncline.design.bandwidth.algorithms import Algorithms, entries
from syncline.design.bandwidth.spec import MAX_CANDIDATES, Spec, WeightedJob
from syncline.input.check import Whole, check
from syncline.input.node import Node, from_python
from syncline.input.problem import error, raise_errors
from syncline.input.source import Override, Source, from_argument
from syncline.models.operators.resolve import divisors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_WORDS = {"ring": "Ring", "fully_connected": "FC", "switch": "Switch"}


@dataclass(frozen=True)
class Candidate:
    """A shape of the fabric."""

    shape: str
    """The shape in text form, such as ``Ring(8)_Switch(128)``."""
    names: tuple[str, ...]
    """Names of its dimensions, lowest first."""
    sizes: tuple[int, ...]
    """NPUs along each dimension."""

    @property
    def npus(self) -> int:
        """NPUs of the fabric."""
        return math.prod(self.sizes)


@dataclass(frozen=True)
class BandwidthRequest:
    """A spec, with its source."""

    spec: Spec
    source: Source
    jobs: list[WeightedJob]
    """The jobs; one if the spec has a `workload`."""

    @property
    def name(self) -> str:
        """Name of the search, and of its results."""
        file = self.source.folder / self.source.file if self.source.file else None
        return self.spec.name or (file.stem if file else "bandwidth")

    def candidates(self) -> list[Candidate]:
        """The shapes to choose from, in the order in which they are tried."""
        fabric = self.spec.fabric
        if fabric.npus is not None:
            shapes = list(self._factorised(fabric.npus))
        else:
            shapes = [fabric.shape] if isinstance(fabric.shape, str) else list(fabric.shape or ())
        found = [self._candidate(shape) for shape in dict.fromkeys(shapes)]
        self._check_npus(found)
        return found

    def _check_npus(self, candidates: Sequence[Candidate]) -> None:
        """Raises an error for shapes with different numbers of NPUs, whose steps do different amounts of work."""
        first = candidates[0]
        other = next((each for each in candidates if each.npus != first.npus), None)
        if other is not None:
            at = list(self.spec.fabric.shape or ()).index(other.shape)
            raise_errors(
                error(
                    Code.BAD_FABRIC,
                    "shapes with different numbers of NPUs cannot be compared: their steps do different work",
                    mark=self.source.mark(("fabric", "shape", at)),
                    key="fabric.shape",
                    found=f"{other.shape}, {other.npus} NPUs",
                    allowed=f"shapes of {first.npus} NPUs, like {first.shape}",
                    help="run a separate search for each number of NPUs",
                )
            )

    def _candidate(self, shape: str) -> Candidate:
        sizes = tuple(size for _, size in _core.parse_shape(shape))
        names = self.spec.fabric.names
        if names is not None and len(names) != len(sizes):
            raise_errors(
                error(
                    Code.BAD_FABRIC,
                    f"{len(names)} names for the {len(sizes)} dimensions of {shape}",
                    mark=self.source.mark(("fabric", "names")),
                    key="fabric.names",
                    help="give one for each dimension, or leave `names` out",
                )
            )
        return Candidate(shape, tuple(names or (f"dim{at}" for at in range(1, len(sizes) + 1))), sizes)

    def _factorised(self, npus: int) -> Iterator[str]:
        """All shapes with this number of NPUs."""
        fabric = self.spec.fabric
        counts = [fabric.dims] if isinstance(fabric.dims, int) else fabric.dims
        kinds = [[each] if isinstance(each, str) else each for each in fabric.kinds]
        found = 0
        for count in counts:
            of_dims = [kinds[min(at, len(kinds) - 1)] for at in range(count)]
            for sizes in _factorisations(npus, count):
                for words in itertools.product(*of_dims):
                    found += 1
                    if found > MAX_CANDIDATES:
                        raise_errors(
                            error(
                                Code.BAD_VALUE,
                                "the search has too many shapes",
                                mark=self.source.mark(("fabric",), key=True),
                                key="fabric",
                                allowed=f"at most {MAX_CANDIDATES}",
                                help="allow fewer kinds or numbers of dimensions",
                            )
                        )
                    yield "_".join(f"{_WORDS[word]}({size})" for word, size in zip(words, sizes, strict=True))
        if not found:
            raise_errors(
                error(
                    Code.BAD_FABRIC,
                    "no shape has this number of NPUs and dimensions with at least two NPUs each",
                    mark=self.source.mark(("fabric", "npus")),
                    key="fabric.npus",
                    found=str(npus),
                    help="allow fewer dimensions, or a different number of NPUs",
                )
            )

    def scenario(
        self, job: int, candidate: Candidate, rates: Sequence[int], algorithms: Algorithms | None = None
    ) -> Loaded:
        """The scenario of one job alone on a shape, with rates in bits per second of one NPU and fixed algorithms."""
        at = self._sections(job)
        if algorithms:
            given = at.get("collectives")
            own = dict(given.value) if given is not None and isinstance(given.value, dict) else {}
            named = own.get("algorithms_of")
            before = named.value if named is not None and isinstance(named.value, list) else []
            own["algorithms_of"] = Node(
                [*before, *map(from_python, entries(algorithms))], named.mark if named else None
            )
            at["collectives"] = Node(own, given.mark if given else None, given.keys if given else {})
        fabric = self.source.root.at(("fabric",))
        keep = {} if fabric is None or not isinstance(fabric.value, dict) else dict(fabric.value)
        dims = len(candidate.sizes)
        for key in ("npus", "dims", "kinds", "shape"):
            keep.pop(key, None)
        # Lists are for the shape with the most dimensions; other shapes take as many entries as they have dimensions.
        several = self.spec.fabric.npus is not None or isinstance(self.spec.fabric.shape, list)
        for key in ("latency", "efficiency") if several else ():
            if (node := keep.get(key)) is not None and isinstance(node.value, list) and len(node.value) > dims:
                keep[key] = Node(node.value[:dims], node.mark)
        keep["shape"] = Node(candidate.shape)
        keep["rate_per_npu"] = from_python([f"{rate}b/s" for rate in rates])
        root: dict[str, Node] = {**at, "fabric": Node(keep, fabric.mark if fabric else None)}
        root["name"] = Node(f"{self.name}-{self.jobs[job].name}" if self.spec.jobs else self.name)
        return resolve(Source(Node(root, self.source.root.mark), self.source.file))

    def _sections(self, job: int) -> dict[str, Node]:
        """The sections of the spec that are also sections of a scenario."""
        root = self.source.root
        found: dict[str, Node] = {}
        for key in ("compute", "collectives", "network", "prices"):
            if (node := root.at((key,))) is not None and node.value is not None:
                found[key] = node
        path: tuple[str | int, ...] = ("jobs", job) if self.spec.jobs else ()
        for key in ("workload", "compute"):
            if (node := root.at((*path, key))) is not None and node.value is not None:
                found[key] = node
        return found


def read(path: str, overrides: Iterable[Override] = ()) -> BandwidthRequest:
    """Reads a spec. Raises :class:`SynclineError` with all errors in it."""
    source = from_argument(path)
    return request(source, overrides)


def request(source: Source, overrides: Iterable[Override] = ()) -> BandwidthRequest:
    """Checks a spec that has been read. Raises :class:`SynclineError` with all errors in it."""
    if not isinstance(source.root.value, dict):
        raise_errors(error(Code.BAD_VALUE, "not a design", mark=source.root.mark, allowed="a mapping"))
    source.override(overrides)
    spec = check(source, Spec, Whole("the design"))
    jobs = spec.jobs or [WeightedJob(name="job", workload=None)]
    return BandwidthRequest(spec, source, list(jobs))


def _factorisations(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write ``number`` as an ordered product of ``parts`` numbers of 2 or more."""
    if parts == 1:
        if number >= 2:
            yield (number,)
        return
    for first in divisors(number):
        if first >= 2:
            for rest in _factorisations(number // first, parts - 1):
                yield (first, *rest)
