"""Chooses the plans of a job by what its ranks measure when it begins.

All ranks probe each other. Rank 0 then finds which of them share a rack, simulates candidates on the measured network,
and changes the plans of all ranks to the fastest ones.
"""

from __future__ import annotations

import logging
import time
from array import array
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.grouping.packages import require
from syncline.probing import Wanted, full, probe_job, sampled
from syncline.runtime import Rule
from syncline.runtime.racks import BY_RACK, group_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.distances import Measured, Pair
    from syncline.grouping import Grouping
    from syncline.runtime import Communicator, Plans

BUDGET_S, LONGEST_S = 8.0, 64.0
"""Time for the probe, and the longest time: the probe takes more if there are many ranks or the machine is slow."""
CANDIDATES = ("ring", "halving_doubling", "double_binary_tree", "tree(fan_out=4)", "direct")
"""Plans that are simulated, beside ``two_level`` on racks of one size."""
TRIED, REPEATS = 3, 2
"""Plans that are tried on the network itself, for each size but the smallest: those that are fastest in simulations,
and how often each is run. Small vectors take too short for a few runs to tell."""
FULL = 32
"""Most ranks of which all pairs are measured in both directions."""
MIN_HOSTS = 5
"""Fewest ranks whose pairs suffice to find groups."""
SIZES = ((16 << 10, 64 << 10), (512 << 10, 2 << 20), (4 << 20, None))
"""Sizes of all-reduces for which plans are chosen, and up to which size the choice applies, in bytes."""
USUAL_RATE, USUAL_ROUND_TRIP_S = 3e9, 60e-6
"""Bytes per second and round trip between hosts of which nothing was measured: TCP over 25 Gb/s."""
SIMULATED = 128
"""Most ranks for which candidates are simulated."""
_log = logging.getLogger("syncline")


@dataclass(frozen=True)
class Choice:
    """The plans that were chosen, and why."""

    plans: Plans
    grouping: Grouping | None
    """The racks that were found; ``None`` if there were too few ranks to look for some."""
    simulated_s: dict[tuple[str, int], float]
    """The simulated time of each candidate for each size in bytes."""
    measured_s: dict[tuple[str, int], float]
    """The measured time of those that were tried."""


def by_probe(ranks: Communicator, *, budget_s: float = BUDGET_S) -> Choice | None:
    """Probes the ranks of a job, and changes its plans to the fastest for the network between them.

    All ranks call it, with no other operation under way. Returns the choice on rank 0, and ``None`` on the others.
    Rules for the all-reduce are replaced by one for each of three sizes. Other rules remain, and their plans follow the
    racks that are found.

    ``budget_s`` is doubled if it is too short, up to about a minute.

    Raises ``SynclineError`` if a package of the extra ``group`` is missing (SL0902), or a rank or link failed. If rank
    0 cannot use the measurements, it logs a warning, and plans remain as they are.
    """
    require()
    measured = _measure(ranks, budget_s)
    choice = None
    if ranks.rank == 0:
        try:
            choice = choose(measured, ranks.plans, ranks.world)
        except SynclineError as problem:
            _log.warning("Plans remain as they are, as no others follow from what ranks measured: %s", problem)
    trials = _trials(ranks, choice)
    # Afterwards all ranks know the plans, and can derive groups from them.
    first = array("q", [0])
    if choice is not None:
        tried = {size for _, size in trials}
        times = trials | {key: each for key, each in choice.simulated_s.items() if key[1] not in tried}
        choice = replace(choice, measured_s=trials, plans=_with_rules(choice.plans, times))
        try:
            first[0] = ranks.change_plans(choice.plans)
            _log.info("Plans by what ranks measured: %s", _words(choice))
        except SynclineError as problem:
            _log.warning("The plans by what ranks measured are not in force: %s", problem)
    ranks.broadcast(first).wait()
    run_until(ranks, first[0])
    return choice


def _measure(ranks: Communicator, budget_s: float) -> Measured:
    """Probes, with twice the budget if it is too short, which all ranks find out alike."""
    schedule = full if ranks.world <= FULL else sampled(0)
    while True:
        try:
            outcome = probe_job(ranks, schedule, Wanted(rtt=True, rate=True, budget_s=budget_s))
        except SynclineError as problem:
            too_short = problem.diagnostics[0]["code"] == Code.BAD_DISTANCES
            if not too_short or 2 * budget_s > LONGEST_S:
                raise
            budget_s *= 2
            continue
        if outcome.interrupted:
            raise KeyboardInterrupt
        return outcome.measured


def choose(measured: Measured, plans: Plans, world: int) -> Choice:
    """Chooses plans for ``world`` ranks with measured round trips and rates. ``plans`` are those that they replace.

    For more than 128 ranks nothing is simulated: racks are found, and rules remain.

    Raises ``SynclineError`` if the measurements cannot be used.
    """
    grouping = _find_racks(measured)
    racks = list(grouping.groups) if grouping is not None and grouping.found and len(grouping.groups) == world else None
    chosen = replace(plans, order=None if racks else plans.order, racks=racks or plans.racks)
    simulated = _simulate(measured, racks) if world <= SIMULATED and len(measured.hosts) == world else {}
    return Choice(_with_rules(chosen, simulated), grouping, simulated, {})


def _find_racks(measured: Measured) -> Grouping | None:
    """The racks that measurements show: by rates if these show some, else by round trips.

    Pairs of one round are measured at the same time, so pairs in different racks share the links between racks, and get
    lower rates where these are slower than the hosts' own together.
    """
    from syncline.grouping import Settings, find

    if len(measured.hosts) < MIN_HOSTS:
        return None
    found = [find(measured, Settings(by=by)) for by in ("rate", "rtt")]
    return next((grouping for grouping in found if grouping.found), found[-1])


def _simulate(measured: Measured, racks: Sequence[int] | None) -> dict[tuple[str, int], float]:
    """The simulated time of an all-reduce by each candidate, for each size. Names are those that rules take.

    Ranks are in the order of racks. With racks of one size, the network is that of :func:`network`.
    """
    from syncline.api import simulate as run

    size = _size(racks)
    named = {name: name for name in CANDIDATES}
    if size:
        named[BY_RACK] = f"{BY_RACK}(group={size})"
    fabric = network(measured, racks)
    found: dict[tuple[str, int], float] = {}
    for nbytes, _ in SIZES:
        for rule, plan in named.items():
            scenario = {
                "fabric": fabric,
                "network": "flow",
                "workload": {"collective": "all_reduce", "bytes": f"{nbytes}B"},
                "collectives": {"algorithms": {"default": {"all_reduce": plan}}},
            }
            try:
                found[rule, nbytes] = run(scenario).summary.step_time_s
            except SynclineError:
                # A plan that does not offer this number of ranks is no candidate.
                if plan == "ring":
                    raise
    return found


def network(measured: Measured, racks: Sequence[int] | None) -> dict[str, Any]:
    """The network between ranks as a fabric, with ranks in the order of racks: hosts, and a link from each rack.

    Half of the hosts of a rack send at a time in a round of the probe, most of them to other racks. A rack's link
    carries what those got together. Without racks of one size, all hosts are at one switch.
    """
    world = len(measured.hosts)
    size = _size(racks)

    def middle(values: Iterable[float | None], default: float) -> float:
        known = [value for value in values if value]
        return median(known) if known else default

    def pairs(*, inside: bool) -> list[Pair]:
        if not racks or size is None:
            return list(measured.pairs.values())
        return [pair for (a, b), pair in measured.pairs.items() if (racks[a] == racks[b]) == inside]

    rate = middle((pair.rate_bytes_per_s for pair in pairs(inside=True)), USUAL_RATE)
    rtt = middle((pair.rtt_s for pair in pairs(inside=True)), USUAL_ROUND_TRIP_S)
    hosts = {"rate": f"{rate:.0f}B/s", "latency": f"{rtt / 4 * 1e9:.0f}ns"}
    if size is None or world % size:
        return {"switch": {"hosts": world, **hosts}}
    between = middle((pair.rate_bytes_per_s for pair in pairs(inside=False)), rate)
    senders = max(size / 2 * (world - size) / (world - 1), 1)
    uplink = min(between * senders, rate * size)
    return {
        "leaf_spine": {"leaves": world // size, "hosts_per_leaf": size, "spines": 1, "uplink_rate": f"{uplink:.0f}B/s"}
        | hosts
    }


def _size(racks: Sequence[int] | None) -> int | None:
    """The ranks of a rack, if there are several and they can be the groups of a plan."""
    return group_size(racks) if racks and len(set(racks)) > 1 else None


def _with_rules(plans: Plans, times: dict[tuple[str, int], float]) -> Plans:
    """Plans with a rule for each size instead of those for the all-reduce: the plan with the shortest time."""
    rules = []
    above = 0
    for nbytes, up_to in SIZES:
        of_size = [(seconds, name) for (name, size), seconds in times.items() if size == nbytes]
        if of_size:
            rules.append(Rule("all_reduce", min(of_size)[1], up_to, above=above))
        above = up_to or 0
    others = [rule for rule in plans.rules if not rules or rule.kind != "all_reduce"]
    return replace(plans, rules=[*rules, *others])


def _trials(ranks: Communicator, choice: Choice | None) -> dict[tuple[str, int], float]:
    """Runs the plans that are fastest in simulations, on all ranks; returns times on rank 0. Only it has a choice."""
    table: list[tuple[str, int]] = []
    if choice is not None:
        for nbytes, _ in SIZES[1:]:
            by_time = sorted((seconds, name) for (name, size), seconds in choice.simulated_s.items() if size == nbytes)
            table += [(name, nbytes) for _, name in by_time[:TRIED]]
    tries = array("q", [len(table)])
    ranks.broadcast(tries).wait()
    found: dict[tuple[str, int], float] = {}
    for number in range(tries[0]):
        # The size, and the first operation that runs by the plan; 0 if the ranks keep their plans.
        trial = array("q", [0, 0])
        if choice is not None:
            name, trial[0] = table[number]
            rules = [Rule("all_reduce", name), *choice.plans.rules]
            with suppress(SynclineError):
                trial[1] = ranks.change_plans(replace(choice.plans, rules=rules))
        ranks.broadcast(trial).wait()
        if not trial[1]:
            continue
        values = array("f", bytes(trial[0] // 4 * 4))
        run_until(ranks, trial[1])
        ranks.all_reduce(values).wait()
        began = time.perf_counter()
        for _ in range(REPEATS):
            ranks.all_reduce(values).wait()
        if table:
            found[table[number]] = (time.perf_counter() - began) / REPEATS
    return found


def run_until(ranks: Communicator, first: int) -> None:
    """Runs barriers until the next operation is number ``first`` or later. All ranks call it at the same point."""
    while ranks.begun < first - 1:
        ranks.barrier().wait()


def _words(choice: Choice) -> str:
    """The choice, for people."""
    racks = "no racks were found" if choice.plans.racks is None else f"racks {choice.plans.racks}"
    rules = ", ".join(f"{rule.algorithm} up to {rule.up_to or 'any'} bytes" for rule in choice.plans.rules)
    return f"{racks}; {rules}"
