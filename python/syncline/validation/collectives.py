"""Measured collectives against the times that machines predict for them.

Errors for each machine, operation and number of GPUs:

- *in sample*: the constants of the package, which were calibrated with the same rows;
- *sizes left out*: constants from every second size of a machine and operation predict the other half, and vice versa;
- *GPUs left out*: constants from the other numbers of GPUs predict this one. That takes at least two others.

A fourth, on demand, is that of simulations with the constants of the package (*simulated*).

The rows that count are fixed before any error is computed: 1 kB to 1 GB, at least two GPUs. Rows between nodes are
compared with the constants of the package alone.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.input.problem import bad_value, nearest
from syncline.nccl.calibration import in_node_constants, relative
from syncline.nccl.machine import Machine, MachineFile, load, names
from syncline.nccl.rows import Row, read
from syncline.validation.outcome import Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FOLDER = Path("validation/collectives")
"""The rows, in a checkout of the repository."""
SMALLEST, LARGEST = 1_000, 1_100_000_000
"""Sizes that count, bytes: 1 kB to 1 GiB."""


@dataclass(frozen=True)
class Point:
    """A row and its predictions: ``predicted / measured - 1``, None if there is no prediction of the kind."""

    row: Row
    in_sample: float | None
    sizes_left_out: float | None = None
    gpus_left_out: float | None = None
    simulated: float | None = None


@dataclass(frozen=True)
class Group:
    """Rows of one machine, operation, number of GPUs and number of nodes."""

    machine: str
    operation: str
    gpus: int
    nodes: int
    points: tuple[Point, ...]

    def errors(self, kind: str) -> Spread | None:
        """Errors of one kind: one of :data:`KINDS`."""
        return Spread.of(of_kind(self.points, kind))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        kinds = {kind: self.errors(kind) for kind in KINDS}
        return {
            "machine": self.machine,
            "operation": self.operation,
            "gpus": self.gpus,
            "nodes": self.nodes,
            "repeats": repeats([point.row for point in self.points]),
            **{kind: None if each is None else _rounded(each) for kind, each in kinds.items()},
        }


def _rounded(errors: Spread) -> dict[str, float]:
    return {name: round(value, 5) for name, value in asdict(errors).items()}


KINDS = ("in_sample", "sizes_left_out", "gpus_left_out", "simulated")
"""Kinds of errors."""


def of_kind(points: Iterable[Point], kind: str) -> list[float]:
    """The errors of one kind of points that have them."""
    found = [getattr(point, kind) for point in points]
    return [each for each in found if each is not None]


def repeats(rows: Sequence[Row]) -> float | None:
    """How far repeated measurements of one call are from their median: the median over all of them; None without any.

    No model of bytes and GPUs can be nearer.
    """
    by_call: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        by_call.setdefault((row.system, row.operation, row.call, row.data_type), []).append(row.seconds)
    spread = [
        abs(each / statistics.median(times) - 1) for times in by_call.values() if len(times) > 1 for each in times
    ]
    return round(statistics.median(spread), 5) if spread else None


def rows_of(folder: Path = FOLDER) -> list[Row]:
    """The rows that count, of all files of a folder.

    :raises SynclineError: the folder has no files of rows, or one of them is malformed.
    """
    files = sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")])
    if not files:
        raise bad_value(
            "no measured collectives in this folder",
            str(folder),
            allowed="a folder with .csv or .csv.gz files",
            help="run this in a checkout of the repository, or name the folder with --rows",
        )
    return [row for row in read(files) if counts(row)]


def counts(row: Row) -> bool:
    """The filter, which knows nothing of times."""
    return SMALLEST <= row.bytes <= LARGEST and row.gpus >= 2


def validate(
    rows: Sequence[Row],
    machines: Sequence[str] = (),
    operations: Sequence[str] = (),
    *,
    left_out: bool = True,
    simulated: bool = False,
    progress: Callable[[float, str], object] | None = None,
) -> list[Group]:
    """Compares rows with predictions, for some machines and operations or for all of them.

    :raises SynclineError: a machine or an operation has no rows.
    """
    chosen = _chosen(rows, machines, "machine", lambda row: row.system)
    chosen = _chosen(chosen, operations, "operation", lambda row: row.operation)
    packaged = {name: load(name) for name in names()}
    by_system: dict[str, list[Row]] = {}
    for row in chosen:
        by_system.setdefault(row.system, []).append(row)
    groups: dict[tuple[str, str, int, int], list[Point]] = {}
    for at, (system, of_system) in enumerate(sorted(by_system.items())):
        if progress is not None:
            progress(at / len(by_system), system)
        points = _points(packaged.get(system), of_system, left_out=left_out)
        if simulated:
            from syncline.validation.collectives_simulated import relative as of_simulations

            errors = of_simulations(system, of_system)
            points = [replace(point, simulated=each) for point, each in zip(points, errors, strict=True)]
        for point in points:
            row = point.row
            groups.setdefault((system, row.operation, row.gpus, row.nodes), []).append(point)
    return [Group(*key, tuple(points)) for key, points in sorted(groups.items())]


def _chosen(rows: Sequence[Row], wanted: Sequence[str], what: str, of: Callable[[Row], str]) -> list[Row]:
    known = sorted({of(row) for row in rows})
    for name in wanted:
        if name not in known:
            raise bad_value(f"no rows of this {what}", name, allowed=", ".join(known), nearest=nearest(name, known))
    return [row for row in rows if not wanted or of(row) in wanted]


def _points(machine: Machine | None, rows: list[Row], *, left_out: bool) -> list[Point]:
    known = relative(machine, rows) if machine else [None] * len(rows)
    near = [row for row in rows if row.nodes == 1]
    sizes: dict[Row, float | None] = {}
    gpus: dict[Row, float | None] = {}
    if left_out:
        order: dict[tuple[str, int], int] = {}
        for operation in {row.operation for row in near}:
            of_operation = sorted({row.bytes for row in near if row.operation == operation})
            order.update({(operation, size): at for at, size in enumerate(of_operation)})
        sizes = _folds(near, lambda row: order[row.operation, row.bytes] % 2)
        if len({row.gpus for row in near}) > 2:
            gpus = _folds(near, lambda row: row.gpus)
    return [Point(row, error, sizes.get(row), gpus.get(row)) for row, error in zip(rows, known, strict=True)]


def _folds(rows: list[Row], fold: Callable[[Row], int]) -> dict[Row, float | None]:
    """Errors of the rows of each fold, with constants from all other rows of the machine."""
    found: dict[Row, float | None] = {}
    for each in sorted({fold(row) for row in rows}):
        constants = in_node_constants(row for row in rows if fold(row) != each)
        machine = Machine(MachineFile.model_validate({"in_node": constants}))
        held = [row for row in rows if fold(row) == each]
        found.update(zip(held, relative(machine, held), strict=True))
    return found
