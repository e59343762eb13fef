"""The fabric of a part of a known cluster, or of all of it: as a family of fabrics, by its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.clusters.nodes import text
from syncline.codes import Code
from syncline.input.problem import error, exception

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.clusters.known import Cluster, ClusterNetwork


def fabric(cluster: Cluster, npus: int | None, latency: str, scale_up_latency: str) -> dict[str, Any]:
    """The keys of ``fabric`` for ``npus`` accelerators of a cluster, by default for all of it.

    :raises SynclineError: they are no whole number of servers or scale-up domains, more than the cluster has, or
        something that is needed is unknown.
    """
    npus = _checked(cluster, npus)
    inside = cluster.scale_up_bits_per_s
    if inside is None:
        raise exception(
            error(
                Code.MISSING_KEY,
                "the rate of the accelerator's scale-up links is unknown",
                found=cluster.accelerator,
                help="describe the fabric by a family with `nodes`",
            )
        )
    if npus <= cluster.domain:
        return {"switch": {"hosts": npus, "rate": text(inside), "latency": scale_up_latency}}
    rate = {"rate": text(round(8 * cluster.nic_bytes_per_s)), "latency": latency}
    nodes: dict[str, Any] = {"npus": cluster.domain, "rate": text(inside), "latency": scale_up_latency}
    if cluster.network is None:
        return {"switch": {"hosts": npus, **rate}, "nodes": nodes}
    levels = _levels(cluster.network, npus, cluster.domain, round(8 * cluster.nic_bytes_per_s))
    if cluster.network.rails:
        nodes["rails"] = True
    return {"leaf_spine": {**levels, **rate}, "nodes": nodes}


def _checked(cluster: Cluster, npus: int | None) -> int:
    """The number of accelerators, if the cluster can have it."""
    most = None if cluster.hosts is None else cluster.hosts * cluster.host
    if npus is None:
        if most is None:
            raise exception(
                error(
                    Code.MISSING_KEY,
                    "missing key `npus`",
                    key="fabric.npus",
                    help="this is a kind of server, of which a cluster may have any number: say how many accelerators",
                )
            )
        return most
    if most is not None and npus > most:
        raise exception(
            error(
                Code.BAD_FABRIC,
                "the cluster has fewer accelerators",
                key="fabric.npus",
                found=str(npus),
                allowed=f"at most {most}",
                nearest=str(most),
            )
        )
    # A domain may be used in part; several domains are used in full.
    unit = cluster.domain if npus > cluster.domain else cluster.host
    if npus > unit and npus % unit:
        what = "scale-up domains" if unit == cluster.domain > cluster.host else "servers"
        raise exception(
            error(
                Code.BAD_FABRIC,
                f"the accelerators are not a whole number of {what}",
                key="fabric.npus",
                found=str(npus),
                allowed=f"a multiple of {unit}",
                nearest=str(max(unit, round(npus / unit) * unit)),
            )
        )
    return npus


def _levels(network: ClusterNetwork, npus: int, domain: int, rate: int) -> dict[str, Any]:
    """Leaves and spines, and cores where a switch has too few ports for two levels.

    A level has the fewest switches whose ports suffice, as many cables as its oversubscription allows, and each pair of
    neighbouring switches the same number of cables. Groups and pods are as large as the network has them, or the next
    smaller size that divides the hosts evenly.
    """
    hosts = npus // domain
    group = _largest(hosts, lambda size: size <= network.group)
    per_group = domain if network.rails else 1
    below = group if network.rails else group * domain
    groups = hosts // group
    if groups * per_group == 1:
        return {"leaves": 1, "hosts_per_leaf": below, "spines": 0}
    pod = _largest(groups, lambda size: network.pod is None or size * group <= network.pod)
    if network.pod is None and pod * per_group > network.ports:
        # As in a fat-tree of three levels, half of the ports lead up.
        pod = _largest(groups, lambda size: size * per_group <= network.ports // 2)
    three = pod < groups
    ports = network.ports // 2 if three else network.ports
    leaves = pod * per_group
    spines = _smallest(below, lambda count: leaves * (below // count) <= ports)
    up = round(rate / network.oversubscription)
    levels: dict[str, Any] = {"leaves": leaves, "hosts_per_leaf": below, "spines": spines, "cables": below // spines}
    if network.oversubscription != 1:
        levels["uplink_rate"] = text(up)
    if three:
        # One link stands for all that lead from a spine to the cores.
        core = leaves * (below // spines) * up / network.pod_oversubscription
        levels |= {"pods": groups // pod, "cores": spines, "core_rate": text(round(core))}
    return levels


def _largest(of: int, suits: Callable[[int], bool]) -> int:
    """The largest divisor that suits; 1 if none does."""
    return max((size for size in range(1, of + 1) if of % size == 0 and suits(size)), default=1)


def _smallest(of: int, suits: Callable[[int], bool]) -> int:
    """The smallest divisor that suits; ``of`` if none does."""
    return min((size for size in range(1, of + 1) if of % size == 0 and suits(size)), default=of)
