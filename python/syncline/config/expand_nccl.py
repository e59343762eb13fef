"""Resolves ``collectives.nccl``: the constants of a machine whose NCCL was measured, and how well they hold."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.problem import error, raise_errors
from syncline.nccl import load, names
from syncline.nccl.machine import InNode, to_core

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.input.source import Source
    from syncline.nccl.machine import Errors, Machine

_KEY = "collectives.nccl"


_GENERATIONS = (("V100",), ("A100",), ("H100", "H200", "GH200"), ("B200", "GB200", "B300", "GB300"))
"""Accelerators of one generation have NVLinks of the same rate, and NCCL treats them alike."""


def expand(name: str, source: Source, accelerators: Iterable[str] = ()) -> dict[str, Any]:
    """The resolved form of the machine ``name``: one of the package, or a file that ``syncline calibrate`` wrote.

    Raises :class:`SynclineError` at the key if there is no such machine, or if it has GPUs of another generation than
    one of ``accelerators``; in its file if that is malformed.
    """
    is_file = name.endswith((".yaml", ".yml"))
    try:
        machine = load(source.relative(name) if is_file else name)
    except SynclineError as problem:
        mark = source.mark(("collectives", "nccl"))
        placed = [each.copy() for each in problem.diagnostics]
        for each in placed:
            if "place" not in each:
                each["key"] = _KEY
                if mark is not None:
                    each["place"] = mark.place()
        raise SynclineError(placed, problem.exit_status) from None
    own = _generation(machine.content.gpu)
    for accelerator in accelerators:
        if own is not None and (other := _generation(accelerator)) not in (None, own):
            alike = [each for each in names() if _generation(load(each).content.gpu) == other]
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    f"a machine with other GPUs: the compute model is for {accelerator}",
                    mark=source.mark(("collectives", "nccl")),
                    key=_KEY,
                    found=f"{name} ({machine.content.gpu})",
                    allowed=", ".join(alike) or f"a file that `syncline calibrate` wrote on {accelerator}",
                    help="name a machine with GPUs of the same generation, or change `compute.accelerator`",
                )
            )
    return resolved(machine, PurePath(name).stem if is_file else name)


def _generation(accelerator: str) -> tuple[str, ...] | None:
    """The generation of an accelerator by its name; None for names that say nothing about it."""
    words = set(re.split(r"[^A-Z0-9]+", accelerator.upper()))
    return next((generation for generation in _GENERATIONS if words.intersection(generation)), None)


def resolved(machine: Machine, name: str) -> dict[str, Any]:
    """A machine as the core takes it; ``name`` is used if its file has none."""
    content = machine.content
    constants = {operation: each for operation, each in content.in_node if isinstance(each, InNode)}
    network = content.network
    measured = [gpus for each in constants.values() for gpus in each.gpus]
    return {
        "name": content.name or name,
        "gpu": content.gpu,
        "software": content.software,
        "date": content.date,
        # Without a network, a node is as large as the largest group that was measured.
        "gpus_per_node": max(measured, default=1) if network is None else network.gpus,
        "errors": {operation: _errors(each.errors) for operation, each in constants.items() if each.errors is not None},
        "network_errors": None if network is None or network.errors is None else _errors(network.errors),
        "constants": to_core(content),
    }


def _errors(errors: Errors) -> dict[str, float]:
    return {"rows": errors.rows, "median": errors.median, "p90": errors.p90, "largest": errors.largest}
