"""Resolves a fabric that was measured: hosts whose interfaces are joined pair by pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.distances.files import read
from syncline.distances.pairs import all_latencies_ps, all_rates_bits_per_s
from syncline.input import limits
from syncline.input.problem import error, raise_errors
from syncline.input.units import decimal

if TYPE_CHECKING:
    from syncline.config.fabric import MeasuredFabric
    from syncline.config.origin import Origins
    from syncline.distances import Measured


def measured(fabric: MeasuredFabric, origins: Origins, hosts: Measured | None = None) -> dict[str, Any]:
    """The resolved form of a measured fabric; of ``hosts`` if they are given, else of those in its file.

    Each host is an NPU with a link to a switch of its own, which stands for its interface: all its messages share it.
    With several NPUs, a switch inside the host joins them with each other and with the interface. The switches of any
    two hosts' interfaces are joined by a link with what was measured between them. One-to-one measurements cannot show
    which pairs share links inside the network, so no pairs do.
    """
    mark = origins.source.mark(("fabric", "measured"))
    found = read(origins.source.relative(fabric.measured)) if hosts is None else hosts
    size, inside = len(found.hosts), fabric.nodes.npus if fabric.nodes else 1
    if size * (size + 1 + 2 * inside) > 2 * limits.MAX_EDGES:
        raise_errors(
            error(
                Code.BAD_FABRIC,
                "a fabric has too many links",
                mark=mark,
                key="fabric.measured",
                found=f"{size} hosts, all joined with each other",
                allowed=f"at most {2 * limits.MAX_EDGES} links",
            )
        )
    latencies = all_latencies_ps(found)
    # With a rate of interfaces, pairs whose rate was not measured have that; without one, it is inferred from others.
    given = None if fabric.rate is None else _core.parse_quantity("rate", fabric.rate)
    rates = all_rates_bits_per_s(found) if given is None else _with(found, given)
    if not rates and fabric.rate is None:
        raise_errors(
            error(
                Code.MISSING_KEY,
                "missing key `rate`",
                mark=mark,
                key="fabric.rate",
                help="no rates were measured; give the rate of each host's interface, such as `rate: 25Gb/s`",
            )
        )
    links: list[dict[str, Any]] = []

    def join(a: int, b: int, rate: str, latency: str) -> None:
        for start, end in ((a, b), (b, a)):
            links.append({"from": start, "to": end, "rate": rate, "latency": latency})

    # NPUs come first, then the switches inside hosts, then interfaces.
    npus, names = size, list(found.hosts)
    if fabric.nodes is not None:
        npus = size * inside
        for npu in range(npus):
            join(npu, npus + npu // inside, fabric.nodes.rate, fabric.nodes.latency)
        names = [f"{host} NPU {npu}" for host in found.hosts for npu in range(inside)] + names
    first = len(names)
    for host in range(size):
        most = max((rate for other, rate in enumerate(rates[host]) if other != host), default=0) if rates else 0
        join(first - size + host, first + host, fabric.rate or decimal(most, "b/s"), "0s")
    for a in range(size):
        for b in range(a + 1, size):
            rate = decimal(rates[a][b], "b/s") if rates else fabric.rate
            join(first + a, first + b, rate or "", f"{latencies[a][b]}ps")
    origins.move(("fabric", "graph"), ("fabric", "measured"))
    names += [f"{host} interface" for host in found.hosts]
    return {"npus": npus, "switches": len(names) - npus, "links": links, "routing": "shortest", "names": names}


def _with(found: Measured, rate: int) -> list[list[int]]:
    """Rates between any two hosts in bits per second: ``rate`` where none was measured."""
    size = len(found.hosts)
    rows = [[rate] * size for _ in range(size)]
    for (a, b), value in found.rates.items():
        rows[a][b] = rows[b][a] = round(8 * value)
    return rows


def ideal(graph: dict[str, Any], hosts: int) -> dict[str, Any]:
    """A graph that :func:`measured` made, as if all hosts were as near and as fast as the nearest and fastest two."""
    pairs = hosts * (hosts - 1)
    inside, interfaces, between = (
        graph["links"][: -pairs - 2 * hosts],
        graph["links"][-pairs - 2 * hosts : -pairs],
        graph["links"][-pairs:],
    )
    nearest = min((link["latency"] for link in between), key=lambda text: _core.parse_quantity("time", text))

    def fastest(links: list[dict[str, Any]], **changes: str) -> list[dict[str, Any]]:
        rate = max((link["rate"] for link in links), key=lambda text: _core.parse_quantity("rate", text))
        return [{**link, "rate": rate, **changes} for link in links]

    return {**graph, "links": [*inside, *fastest(interfaces), *fastest(between, latency=nearest)]}
