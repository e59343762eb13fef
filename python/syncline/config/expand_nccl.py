"""Resolves ``collectives.nccl``: the constants of a machine whose NCCL was measured, and how well they hold.

What goes with it: SHARP in the fabric, and a framework's kernels for small all-reduces.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.problem import error, raise_errors
from syncline.nccl import experts, load, names, shots
from syncline.nccl.generations import GENERATIONS, generation
from syncline.nccl.generations import accelerators as accelerators_in
from syncline.nccl.machine import InNode, to_core

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.config.collectives import Collectives, DeepEp
    from syncline.errors import Diagnostic
    from syncline.input.source import Source
    from syncline.nccl.machine import Errors, Machine

_KEY = "collectives.nccl"


_SHARP, _CUSTOM, _DEEPEP = "sharp", "custom_all_reduce", "deepep"
_NEED_NCCL = (_SHARP, _CUSTOM, _DEEPEP)
KEYS = ("nccl", *_NEED_NCCL)
"""Keys of ``collectives`` that become its resolved ``nccl``."""

_BEFORE_HOPPER = GENERATIONS[:2]
_DIRECT_EFFICIENCY = 0.85
"""Part of its rate that CollNetDirect reaches from Hopper on, by NCCL's tuning model."""


def expand_all(collectives: Collectives, source: Source, accelerators: Iterable[str] = ()) -> dict[str, Any]:
    """The resolved form of ``collectives.nccl`` with the keys that belong to it; empty without it.

    Raises :class:`SynclineError` as :func:`expand` does; at a key that needs ``nccl`` where that is missing; and at one
    that asks for what the machine does not have.
    """
    if collectives.nccl is None:
        for key in _NEED_NCCL:
            if getattr(collectives, key):
                raise_errors(_wrong(source, key, "needs `nccl`", "add `nccl: h100-sxm` or another machine"))
        return {}
    found = expand(collectives.nccl, source, accelerators)
    if collectives.sharp:
        if found["constants"].get("network") is None:
            message = f"`{found['name']}` has no constants for a network between nodes"
            raise_errors(_wrong(source, _SHARP, message, "remove it, or name a machine whose file has a `network`"))
        slower = generation(found["gpu"]) not in (None, *_BEFORE_HOPPER)
        found["constants"]["network"]["sharp"] = {"direct_efficiency": _DIRECT_EFFICIENCY if slower else 1.0}
    if collectives.custom_all_reduce is not None:
        found[_CUSTOM] = _framework(collectives.custom_all_reduce, found["gpu"], source)
    if collectives.deepep is not None:
        found[_DEEPEP] = _experts(collectives.deepep, found["gpu"], source)
    return found


def _measured(known: Iterable[str], gpu: str, source: Source, key: str, what: str) -> str:
    """The machine among ``known`` whose accelerators are ``gpu``."""
    known = list(known)
    machine = next((each for each in known if accelerators_in(each) & accelerators_in(gpu)), None)
    if machine is None:
        message = f"{what} not measured on {gpu or 'GPUs without a name'}"
        allowed = f"with `nccl` of {', '.join(known)}"
        raise_errors(_wrong(source, key, message, "remove it, or name another machine as `nccl`", allowed=allowed))
    return machine


def _experts(given: DeepEp, gpu: str, source: Source) -> dict[str, Any]:
    """DeepEP's kernels, as they were measured on accelerators like ``gpu``."""
    machine = experts.machines()[_measured(experts.names(), gpu, source, _DEEPEP, "DeepEP was")]
    return {
        "software": machine.software,
        "routing": {name: getattr(given, name) for name in ("kernels", "tokens", "experts", "sms")},
        "group": given.group,
        "phase": given.phase,
        "exchanges": [
            {
                "phase": each.phase,
                "nodes": each.nodes,
                "gpus": each.gpus,
                "constants": each.constants(),
                "errors": _errors(each.errors),
            }
            for each in machine.exchanges
            if each.kernels == given.kernels
        ],
    }


def _framework(name: str, gpu: str, source: Source) -> dict[str, Any]:
    """The kernels of a framework, as they were measured on accelerators like ``gpu``."""
    machine = _measured(shots.names(), gpu, source, _CUSTOM, "custom all-reduces were")
    try:
        known = shots.find(machine, name)
    except SynclineError as problem:
        placed = [each.copy() for each in problem.diagnostics]
        mark = source.mark(("collectives", _CUSTOM))
        for each in placed:
            each["key"] = f"collectives.{_CUSTOM}"
            if mark is not None:
                each["place"] = mark.place()
        raise SynclineError(placed, problem.exit_status) from None
    return {
        "name": known.framework,
        "kernels": {"shots": known.constants(), "gpus": max(known.gpus), "largest": shots.LARGEST},
        "errors": _errors(known.errors),
    }


def _wrong(source: Source, key: str, message: str, help: str, **more: Any) -> Diagnostic:
    """An error at a key of ``collectives``."""
    mark = source.mark(("collectives", key))
    return error(Code.BAD_VALUE, message, mark=mark, key=f"collectives.{key}", help=help, **more)


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
    own = generation(machine.content.gpu)
    for accelerator in accelerators:
        if own is not None and (other := generation(accelerator)) not in (None, own):
            alike = [each for each in names() if generation(load(each).content.gpu) == other]
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
        "measured": {
            operation: _measured_calls(each) for operation, each in constants.items() if each.gpus and each.sizes
        },
        "network_errors": None if network is None or network.errors is None else _errors(network.errors),
        "constants": to_core(content),
    }


def _measured_calls(each: InNode) -> dict[str, list[int]]:
    """Fewest and most GPUs, smallest and largest size."""
    sizes = [_core.parse_quantity("bytes", size) for size in each.sizes]
    return {"gpus": [min(each.gpus), max(each.gpus)], "bytes": [min(sizes), max(sizes)]}


def _errors(errors: Errors) -> dict[str, float]:
    return {"rows": errors.rows, "median": errors.median, "p90": errors.p90, "largest": errors.largest}
