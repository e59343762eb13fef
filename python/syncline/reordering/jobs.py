"""Searches for the order of hosts in which the simulated step of a job is shortest."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.input.source import Override
from syncline.reordering.annealing import Costs, search
from syncline.reordering.reorder import in_order
from syncline.reordering.simulation import Simulation
from syncline.reordering.starts import Distances, Guide, starts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from syncline.distances import Measured
    from syncline.reordering.simulation import Order, Traffic

PROPOSALS = 125
"""Orders that each of eight chains tries by default."""


@dataclass(frozen=True)
class ReorderedJob:
    """An order of hosts for a job, and the one that it replaces. Times are simulated."""

    hosts: tuple[str, ...]
    """The hosts by name. The first one has the first ``ranks_per_host`` ranks, and so on."""
    before: tuple[str, ...]
    """The hosts in their order before."""
    job: str
    """Name of the scenario, or of the plan."""
    network: str
    """The network model that simulated it."""
    ranks_per_host: int
    step_s: float
    """The time of a step."""
    step_before_s: float
    bound_s: float
    """The time of a step if any two hosts were as near and as fast as the nearest and fastest two; ``step_s`` if that
    is less. It is loose where hosts differ much. It is no proof: a network that is faster everywhere may slow a job
    down, though rarely (Graham 1969)."""
    exhaustive: bool
    """Whether all orders were simulated, so that this is the best one."""
    simulations: int
    """Orders that were simulated."""
    starts: tuple[tuple[str, float], ...]
    """Orders from which the search started, by what they are, and the time of a step in each. The present one is
    first."""
    filled: int
    """Pairs of hosts that were not measured, and whose distances were inferred from others."""
    stopped: bool
    """Whether the time limit ended the search."""
    seed: int
    replaced: bool
    """Whether the measured network replaced the fabric of the scenario."""
    traffic: Traffic = field(repr=False)
    """What hosts exchange in a step, by their places in ``hosts``."""
    traffic_before: Traffic = field(repr=False)
    """The same in the order before."""
    distances: Distances = field(repr=False, compare=False)
    """Distances between hosts, numbered as in ``before``."""

    @property
    def gap(self) -> float:
        """By how much the step is longer than the bound, as a fraction; 0 if all orders were simulated."""
        if self.exhaustive or self.step_s == self.bound_s:
            return 0.0
        return self.step_s / self.bound_s - 1 if self.bound_s > 0 else float("inf")


def reorder_job(
    measured: Measured,
    scenario: str | Path | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    order: Sequence[str] | None = None,
    seed: int = 0,
    proposals: int = PROPOSALS,
    limit_s: float | None = None,
    progress: Callable[[float], object] | None = None,
    cores: int | None = None,
) -> ReorderedJob:
    """Searches for the order of hosts in which the step of a job is shortest, by simulations on the measured network.

    ``scenario`` is a file or a mapping with its keys, and ``set`` changes values, as for :func:`syncline.simulate`. Its
    job has as many ranks as the hosts have NPUs; ranks of a host stay together. The measured network takes the place of
    its fabric, of which only ``rate`` and ``nodes`` count, if it is a measured one.

    ``order`` names the hosts in their present order, which may be some of those that were measured. ``proposals`` is
    how many orders each of eight chains tries; if there are no more orders than that, all are simulated. Simulations
    run on ``cores`` cores; by default, on all. The same arguments give the same order on any number of them, unless
    ``limit_s`` ends the search early. The new order never takes longer than ``order``.

    :raises SynclineError: the scenario is malformed, has several jobs or a placement, or another number of ranks; a
        host of ``order`` was not measured or is listed twice; too few pairs were measured to connect all hosts.
    """
    overrides = [Override.of(key, value) for key, value in (set or {}).items()]
    simulation = Simulation(in_order(measured, order), scenario, overrides)
    return search_for(simulation, seed=seed, proposals=proposals, limit_s=limit_s, progress=progress, cores=cores)


def reorder_plan(
    measured: Measured,
    plan: str,
    *,
    nbytes: int = 25_000_000,
    rate: str | None = None,
    order: Sequence[str] | None = None,
    seed: int = 0,
    proposals: int = PROPOSALS,
    limit_s: float | None = None,
    progress: Callable[[float], object] | None = None,
    cores: int | None = None,
) -> ReorderedJob:
    """Searches for the order of hosts in which one all-reduce of ``nbytes`` by a plan is shortest, by simulations.

    ``plan`` is an algorithm with its parameters, such as ``bcube(base=4)``, or the path of a plan file. ``rate`` is
    that of each host's interface, such as ``25Gb/s``; it is needed if no rates were measured. Each host has one rank.
    Other arguments are those of :func:`reorder_job`.

    :raises SynclineError: there is no such plan, or it offers no all-reduce on this number of hosts; otherwise as
        :func:`reorder_job`.
    """
    overrides = [Override.of(*plan_override(plan))]
    if rate is not None:
        overrides.append(Override.of("fabric.rate", rate))
    simulation = Simulation(in_order(measured, order), all_reduce(plan, nbytes), overrides)
    return search_for(simulation, seed=seed, proposals=proposals, limit_s=limit_s, progress=progress, cores=cores)


def all_reduce(plan: str, nbytes: int) -> dict[str, Any]:
    """The scenario of one all-reduce, without its plan."""
    return {
        "name": plan[:200],
        "workload": {"collective": "all_reduce", "bytes": f"{nbytes}B"},
        "network": "flow",
    }


def plan_override(plan: str) -> tuple[str, str]:
    """The key of a scenario that chooses a plan, an algorithm or a file, and its value."""
    if "(" not in plan and Path(plan).suffix.lower() in (".json", ".xml"):
        return "collectives.plans.all_reduce", plan
    return "collectives.algorithms.default.all_reduce", plan


def search_for(
    simulation: Simulation,
    *,
    seed: int,
    proposals: int | None,
    limit_s: float | None,
    progress: Callable[[float], object] | None,
    cores: int | None = None,
) -> ReorderedJob:
    """Searches for the best order of a job that is loaded. Arguments are those of :func:`reorder_job`."""
    costs = Costs(simulation.step_s, limit_s)
    measured, present = simulation.measured, simulation.present
    # Even if the limit passes before, there is a present order to compare with.
    present_s, before = simulation.measure(present)
    costs.known[present] = present_s
    ideal_s = simulation.ideal_step_s()
    distances = Distances.of(measured)
    guide = Guide(before, distances)
    named = starts(measured, guide, before.message_bytes, seed)
    known = {name: cost for name, order in named.items() if (cost := costs.of(order)) is not None}
    found = search(
        costs,
        [named[name] for name in known],
        proposals=proposals or PROPOSALS,
        seed=seed,
        bound=ideal_s,
        guide=guide,
        progress=progress,
        cores=cores,
    )
    hosts = len(present)
    return ReorderedJob(
        _named(measured, found.order),
        measured.hosts,
        simulation.name,
        simulation.network,
        simulation.per_host,
        found.cost,
        present_s,
        min(ideal_s, found.cost),
        found.exhaustive,
        len(costs.known),
        tuple(known.items()),
        hosts * (hosts - 1) // 2 - len(measured.round_trips),
        found.stopped,
        seed,
        simulation.replaced,
        before if found.order == present else simulation.measure(found.order)[1],
        before,
        distances,
    )


def _named(measured: Measured, order: Order) -> tuple[str, ...]:
    return tuple(measured.hosts[host] for host in order)
