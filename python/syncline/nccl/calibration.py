"""Constants of a machine from measured collectives."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.nccl.machine import Errors, Machine, MachineFile, from_core, to_core
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from syncline.nccl.rows import Row

FEWEST = "at least 8 times of 6 sizes"
"""What the constants of an operation take; the core checks it."""


@dataclass(frozen=True)
class About:
    """What a file says about a machine beside its constants."""

    name: str
    """Name of the machine."""
    gpu: str
    """The accelerator."""
    software: str
    """Library and version."""
    date: str
    """Day of the calibration."""
    source: Sequence[str]
    """Where the times come from."""


def calibrate(rows: Iterable[Row], about: About, network: Mapping[str, Any] | None = None) -> Machine:
    """Finds the constants of a machine.

    Rows of one node give the constants in a node. If ``network`` is given, as in a file but for ``errors``, rows of
    several nodes give its efficiency and its latencies of hops, of which those in ``network`` are first guesses.

    :raises SynclineError: no operation has enough rows of one node.
    """
    rows = list(rows)
    in_node = in_node_constants(rows)
    if not in_node:
        found = len([row for row in rows if row.nodes == 1])
        raise_errors(
            error(
                Code.BAD_VALUE,
                "too few times of one node for a calibration",
                found=f"{counted(found, 'time')} of {counted(len({row.operation for row in rows}), 'operation')}",
                allowed=f"{FEWEST} for an operation",
                help="measure sizes from 1 kB to 1 GB: all_reduce_perf -b 1K -e 1G -f 2",
            )
        )
    content: dict[str, Any] = {
        "name": about.name,
        "gpu": about.gpu,
        "software": about.software,
        "date": about.date,
        "source": list(about.source),
        "in_node": in_node,
    }
    if network is not None:
        content["network"] = network
    far = [row for row in rows if row.nodes > 1]
    if network is not None and far:
        content["network"] = _network(Machine(MachineFile.model_validate(content)), far, network)
    return Machine(MachineFile.model_validate(content))


def in_node_constants(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """Constants in a node as a file holds them, by operation: of those that have enough rows of one node.

    The operations that use rings have a common size at which NCCL changes to Simple, so their rows count together.
    """
    by_operation: dict[str, list[Row]] = {}
    for row in rows:
        if row.nodes == 1 and row.gpus > 1:
            by_operation.setdefault(row.operation, []).append(row)
    known = [operation for operation in _core.nccl_operations() if operation in by_operation]
    measured = [
        (operation, [(row.bytes, row.element_bytes, row.gpus, row.seconds) for row in by_operation[operation]])
        for operation in known
    ]
    made: dict[str, dict[str, Any]] = {}
    for operation, found in zip(known, _core.nccl_calibrate(measured), strict=True):
        if found is None:
            continue
        chosen = by_operation[operation]
        constants = from_core(json.loads(found))
        sizes = [row.bytes for row in chosen]
        constants["gpus"] = sorted({row.gpus for row in chosen})
        constants["sizes"] = [f"{min(sizes)}B", f"{max(sizes)}B"]
        machine = Machine(MachineFile.model_validate({"in_node": {operation: constants}}))
        constants["errors"] = summary(errors(machine, chosen)).model_dump()
        made[operation] = constants
    return made


def _network(machine: Machine, rows: Sequence[Row], network: Mapping[str, Any]) -> dict[str, Any]:
    core = json.dumps(to_core(machine.content))
    found = _core.nccl_calibrate_network(core, [(row.operation, row.call, row.seconds) for row in rows])
    if found is None:
        lacking = sorted({row.operation for row in rows if machine.times(row.operation, [row.call])[0] is None})
        raise_errors(
            error(
                Code.BAD_VALUE,
                "times between nodes have no counterpart in one node",
                found=", ".join(lacking),
                help="measure the same operations in one node, too",
            )
        )
    constants = json.loads(found[0])
    hops = dict(zip(("ll", "ll128", "simple"), constants["hop_s"], strict=True))
    made = {
        **network,
        "efficiency": float(f"{constants['efficiency']:.4g}"),
        "hop": {name: f"{hop * 1e6:.4g}us" for name, hop in hops.items() if hop is not None},
    }
    better = MachineFile.model_validate({**machine.content.model_dump(by_alias=True), "network": made})
    return {**made, "errors": summary(errors(Machine(better), rows)).model_dump()}


def relative(machine: Machine, rows: Sequence[Row]) -> list[float | None]:
    """``estimated / measured - 1`` of each row; None for a row without an estimate."""
    found: list[float | None] = [None] * len(rows)
    by_operation: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        by_operation.setdefault(row.operation, []).append(at)
    for operation, chosen in by_operation.items():
        for at, time in zip(chosen, machine.times(operation, [rows[at].call for at in chosen]), strict=True):
            found[at] = None if time is None else time.seconds / rows[at].seconds - 1
    return found


def errors(machine: Machine, rows: Sequence[Row]) -> list[float]:
    """The errors of the rows that have an estimate."""
    return [each for each in relative(machine, rows) if each is not None]


def summary(errors: Sequence[float]) -> Errors:
    """Median, 90th percentile and largest of the sizes of errors."""
    sizes = sorted(abs(each) for each in errors)
    p90 = statistics.quantiles(sizes, n=10, method="inclusive")[-1] if len(sizes) > 1 else sizes[0]
    return Errors(
        rows=len(sizes),
        median=round(statistics.median(sizes), 4),
        p90=round(p90, 4),
        largest=round(sizes[-1], 4),
    )
