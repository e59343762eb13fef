"""A network as a family of fabrics, if it is regular: equal leaves, each joined to every spine by equal cables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.clusters.nodes import text

if TYPE_CHECKING:
    from syncline.clusters.given import Given
    from syncline.clusters.network import Host, Network


def family(network: Network, gpus: int, given: Given, *, forward: bool) -> tuple[dict[str, Any], list[Host]] | None:
    """The keys of ``fabric``, and the hosts in the order of its NPUs; None if the network is of no family.

    :raises SynclineError: a rate is missing.
    """
    levels = _levels(network)
    if levels is None or network.blocks:
        return None
    hosts, rails, shape = levels
    ports = len(hosts[0].ports)
    if (ports % gpus and gpus % ports) or (not shape["spines"] and rails and not forward):
        return None
    made: dict[str, Any] = {"leaf_spine": {**shape, **given.latency()}}
    if gpus == ports == 1:
        return made, hosts
    rate = (
        text(given.rate("--scale-up", "the text does not say how the GPUs of a host are joined")) if gpus > 1 else None
    )
    near = given.latency("--scale-up-latency")
    nodes: dict[str, Any] = {"npus": gpus, "rate": rate or shape["rate"], **near, "nics": ports}
    if gpus > ports or given.given("--pcie"):
        nodes["pcie_rate"] = text(given.rate("--pcie", "GPUs reach interfaces over PCIe"))
        if pcie := given.latency("--pcie-latency"):
            nodes["pcie_latency"] = pcie["latency"]
    if rails:
        nodes["rails"] = True
    if forward:
        nodes["forward"] = True
    return {**made, "nodes": nodes}, hosts


def _levels(network: Network) -> tuple[list[Host], bool, dict[str, Any]] | None:
    """The hosts in the order of their leaves, whether they are on rails, and the numbers of leaves and spines."""
    rates = {rate for host in network.hosts for _, rate in host.ports}
    groups: dict[tuple[int, ...], list[Host]] = {}
    for host in network.hosts:
        groups.setdefault(tuple(switch for switch, _ in host.ports), []).append(host)
    ports = {len(each) for each in groups}
    if len(rates) != 1 or len(ports) != 1 or len({len(each) for each in groups.values()}) != 1:
        return None
    count, size = ports.pop(), len(next(iter(groups.values())))
    leaves = [switch for group in groups for switch in dict.fromkeys(group)]
    rails = count > 1 and all(len(set(group)) == count for group in groups)
    together = all(len(set(group)) == 1 for group in groups)
    if not (rails or together) or len(set(leaves)) != len(leaves):
        return None
    spines = [at for at, level in enumerate(network.levels) if level == 2]
    if any(level > 2 for level in network.levels) or any(network.levels[leaf] != 1 for leaf in leaves):
        return None
    used = {pair: cables for pair, cables in network.cables.items() if any(network.levels[end] for end in pair)}
    wanted = {(min(leaf, spine), max(leaf, spine)) for leaf in leaves for spine in spines}
    kinds = {tuple(sorted(cables.items())) for cables in used.values()}
    if set(used) != wanted or len(kinds) > 1 or (kinds and len(next(iter(kinds))) > 1):
        return None
    if not spines and not rails and len(leaves) > 1:
        return None
    rate = rates.pop()
    below = size if rails else size * count
    shape: dict[str, Any] = {"leaves": len(leaves), "hosts_per_leaf": below, "spines": len(spines), "rate": text(rate)}
    if kinds:
        ((up, cables),) = kinds.pop()
        shape["cables"] = cables
        if up != rate:
            shape["uplink_rate"] = text(up)
    return [host for each in groups.values() for host in each], rails, shape
