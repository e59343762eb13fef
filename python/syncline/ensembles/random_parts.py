"""Finds the parts of a scenario that depend on its seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline import _core

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HINT = "add randomness, such as `jitter: {start: 1us}` for ranks that begin at different times"


def random_parts(resolved: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Keys of a resolved scenario with random parts, and whether these depend on the scenario's seed.

    They do not if the key has a seed of its own.
    """
    jitter = resolved.get("jitter", {})
    if _core.parse_quantity("time", jitter.get("start", "0s")) or jitter.get("compute", 0):
        yield "jitter", jitter.get("seed") is None
    for index, fault in enumerate(resolved.get("faults", ())):
        if {"random_ranks", "random_links"} & set(fault):
            yield f"faults.{index}", True
    for place, parameters in _packets(resolved.get("network", {})):
        if _marks_by_chance(parameters):
            yield place, parameters.get("seed") is None
    yield from _of_fabric(resolved.get("fabric", {}), "fabric")


def _packets(network: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if network.get("model") == "packet":
        yield "network", network
        yield from ((f"network.dims.{name}", dim) for name, dim in network.get("dims", {}).items())


def _marks_by_chance(parameters: Mapping[str, Any]) -> bool:
    """Whether a queue marks packets with a probability between 0 and 1."""
    mark = parameters.get("mark")
    if mark is None:
        # DCQCN without `mark` uses the range of its paper.
        return parameters.get("transport") == "rdma" and parameters.get("congestion") in (None, "dcqcn")
    return bool(mark["from"] != mark["to"])


def _of_fabric(section: Any, place: str) -> Iterator[tuple[str, bool]]:
    """Hashes of flows and random graphs anywhere in the fabric."""
    if not isinstance(section, dict):
        return
    for key, value in section.items():
        inside = f"{place}.{key}"
        if key == "ecmp":
            yield inside, not (isinstance(value, dict) and value.get("seed") is not None)
        elif key == "expander":
            yield inside, value.get("seed") is None
        else:
            yield from _of_fabric(value, inside)
