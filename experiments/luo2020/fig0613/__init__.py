"""Figures 6.13 and 6.14: 2-level aggregation on groups by a probe, on random groups, and flat aggregation."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.cluster import cluster
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.harness.testbed import Measured, Session
from experiments.luo2020.beside import CALIBRATED
from experiments.luo2020.cloud import CLOUD, HOSTS, IN_GROUPS, RACKS, TENANTS, judged, percentile, predicted_s, rack
from experiments.luo2020.exchange import NEAR
from syncline.grouping import Settings, find
from syncline.quantity import digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from syncline.distances import Measured as Distances

FOLDER = Path(__file__).parent
NBYTES = 1 << 20
ROUNDS, QUIET_ROUNDS = 40, 8
"""Rounds with the traffic of other tenants, and without. In each round, every arm runs an all-reduce."""
SEEDS = (1, 2, 3)
"""Seeds of the balanced random groups."""
FLAT, PROBED, RANDOM = "flat (FA)", "2-level, probed", "2-level, random"
ARMS = (FLAT, PROBED, RANDOM)
AZURE, EC2 = 1.3, 3.9
GROUPS = RACKS
"""Groups of hosts: the root of the number of hosts, as in the dissertation (4.2.1), and as many as racks."""
OVERSUBSCRIBED = (1.0, 2.0, 4.0, 8.0)

GAIN = Claim(
    "luo-10",
    "Fig. 6.13",
    "2-level aggregation on groups by a probe is 1.3 (Azure) to 3.9 times (EC2) as fast, on average, as on balanced "
    "random groups.",
)
OVER_FLAT = Claim(
    "luo-fig0613-flat",
    "Fig. 6.13",
    "2-level aggregation on groups by a probe is faster than flat aggregation, on average, at the median and at the "
    "95th percentile.",
)
STABLE = Claim(
    "luo-fig0614",
    "Fig. 6.14",
    "times of 2-level aggregation vary less on groups by a probe than on balanced random groups: the range from the "
    "5th to the 95th percentile is smaller.",
)
TIMES = Claim(
    "luo-fig0613-predicted",
    "Prediction",
    f"simulated times are within {NEAR:.0%} of the measured medians without other tenants.",
)


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """The numbers of Figure 6.13: mean, median and 95th percentile."""
    return {"mean": mean(seconds), "P50": percentile(seconds, 0.5), "P95": percentile(seconds, 0.95)}


def balanced(seed: int) -> list[int]:
    """Balanced random groups: the group of each host."""
    groups = [host % GROUPS for host in range(HOSTS)]
    random.Random(seed).shuffle(groups)  # noqa: S311 - no secrets
    return groups


def by_groups(groups: Sequence[int]) -> list[int]:
    """The hosts, group by group."""
    return sorted(range(len(groups)), key=lambda host: (groups[host], host))


def predictions(runner: Runner, groups: Sequence[int], oversubscribed: float = HOSTS / RACKS) -> dict[str, float]:
    """The simulated time of each arm without other tenants; of random groups, the mean."""
    levels = f"two_level(group={HOSTS // GROUPS})"

    def taken(plan: str, order: Sequence[int]) -> float:
        return predicted_s(runner, plan, order, NBYTES, oversubscribed)

    return {
        FLAT: taken("parameter_server", range(HOSTS)),
        PROBED: taken(levels, by_groups(groups)),
        RANDOM: mean(taken(levels, by_groups(balanced(seed))) for seed in SEEDS),
    }


def measure(runner: Runner) -> Findings:
    """Simulates the arms without other tenants, and measures them without and with."""
    found = runner.bench.collect(
        Session("groups", lambda python: session(python, quick=runner.quick), quick=runner.quick)
    )
    racks = [rack(host) for host in range(HOSTS)]
    groups = racks if isinstance(found, str) else list(found.values["groups"])
    predicted = predictions(runner, groups)
    times = Table(
        "times",
        f"All-reduces of 1 MiB by {HOSTS} hosts, without other tenants (alone) and with them",
        (
            "arm",
            "predicted_s",
            "alone_s",
            "error_off",
            "mean_s",
            "P50_s",
            "P95_s",
            "P5_s",
            "over flat_ratio",
            "all-reduces",
        ),
    )
    values = Table("values", "All measured all-reduces", ("arm", "traffic", "seconds_s"), listed=False)
    alone: dict[str, float] = {}
    shared: dict[str, list[float]] = {}
    for arm in ARMS:
        if isinstance(found, str):
            times.add(arm, predicted[arm], found, *[None] * 7)
            continue
        quiet, shared[arm] = (_of(found.values[key], arm) for key in ("alone", "shared"))
        alone[arm] = percentile(quiet, 0.5)
        ratio = mean(shared[FLAT]) / mean(shared[arm])
        parts = [percentile(shared[arm], part) for part in (0.5, 0.95, 0.05)]
        error = predicted[arm] / alone[arm] - 1
        times.add(arm, predicted[arm], alone[arm], error, mean(shared[arm]), *parts, ratio, len(shared[arm]))
        for traffic, seconds in (("alone", quiet), ("shared", shared[arm])):
            for each in seconds:
                values.add(arm, traffic, each)
    verdicts = [
        _gain(predicted, shared, found),
        _over_flat(predicted, shared, found),
        _stable(shared, found),
        judged(
            TIMES, {arm: (predicted[arm], alone[arm]) for arm in alone}, WHY, found if isinstance(found, str) else ""
        ),
    ]
    return Findings([times, _swept(runner, groups), _found(found, racks), values], verdicts)


WHY = (
    "Links between racks decide for flat aggregation and for random groups, and links of hosts for probed ones. With "
    "flat aggregation each host receives from fifteen others at a time; probably queues overflow then, and TCP waits. "
    "The network model has neither queues nor loss."
)


def _of(times: Mapping[str, Sequence[float]], arm: str) -> list[float]:
    """The times of an arm; of random groups, those of all seeds together."""
    return [each for name, seconds in times.items() if name.startswith(arm) for each in seconds]


def _swept(runner: Runner, groups: Sequence[int]) -> Table:
    """The predicted gain by oversubscription."""
    table = Table(
        "oversubscribed",
        "Simulated gain of probed groups over random ones and over flat aggregation, by oversubscription of racks, "
        "without other tenants",
        ("oversubscribed", "over random_ratio", "over flat_ratio"),
    )
    for each in OVERSUBSCRIBED[2:3] if runner.quick else OVERSUBSCRIBED:
        found = predictions(runner, groups, each)
        table.add(f"{each:g}:1", found[RANDOM] / found[PROBED], found[FLAT] / found[PROBED])
    return table


def _found(found: Measured | str, racks: Sequence[int]) -> Table:
    """How well the groups by the probe match the racks."""
    table = Table("groups", "Groups by the probe", ("by", "groups", "pairs as in racks_fraction"))
    if isinstance(found, str):
        table.add(found, None, None)
    else:
        groups = found.values["groups"]
        same = [(groups[a] == groups[b]) == (racks[a] == racks[b]) for a, b in combinations(range(HOSTS), 2)]
        table.add(found.values["by"], len(set(groups)), mean(same))
    return table


def _source(found: Measured | str) -> str:
    return f" (predicted: {found})" if isinstance(found, str) else ""


def _gain(predicted: Mapping[str, float], shared: Mapping[str, Sequence[float]], found: Measured | str) -> Verdict:
    simulated = predicted[RANDOM] / predicted[PROBED]
    ratio = mean(shared[RANDOM]) / mean(shared[PROBED]) if shared else simulated
    return GAIN.judged(
        AZURE * (1 - NEAR) <= ratio <= EC2 * (1 + NEAR),
        f"{ratio:.2f} times with other tenants, simulated {simulated:.2f} without{_source(found)}",
        "Of what a host sends on the first level, four fifths cross racks if groups are random, and nothing if they "
        f"are racks. So the gain grows with oversubscription, here {HOSTS // RACKS}:1, up to that ratio; the table has "
        "others. The dissertation does not say how oversubscribed its clouds were.",
    )


def _over_flat(predicted: Mapping[str, float], shared: Mapping[str, Sequence[float]], found: Measured | str) -> Verdict:
    if shared:
        flat, probed = (summary(shared[arm]) for arm in (FLAT, PROBED))
        ratios = {name: flat[name] / probed[name] for name in flat}
    else:
        ratios = {"simulated": predicted[FLAT] / predicted[PROBED]}
    return OVER_FLAT.judged(
        min(ratios.values()) > 1,
        ", ".join(f"{name} {ratio:.2f} times" for name, ratio in ratios.items()) + _source(found),
        "Flat aggregation sends 2 N (C - 1) vectors between C racks of N hosts, and 2-level aggregation 2 (C - 1).",
    )


def _stable(shared: Mapping[str, Sequence[float]], found: Measured | str) -> Verdict:
    if not shared:
        return STABLE.judged(holds=False, measured=f"0 measured ({found})", why="Nothing was measured.")
    ranges = {arm: percentile(of, 0.95) - percentile(of, 0.05) for arm, of in shared.items()}
    return STABLE.judged(
        ranges[PROBED] < ranges[RANDOM],
        ", ".join(f"{arm} {digits(1e3 * each)} ms" for arm, each in ranges.items()),
        "Other tenants' flows share the links between racks, through which random groups send most of their bytes, and "
        "probed groups a quarter of that.",
    )


# The session


def session(python: str, *, quick: bool) -> dict[str, Any]:
    """Probes the cloud while other tenants send, finds groups, and measures the arms without and with tenants."""
    rounds, alone = (2, 1) if quick else (ROUNDS, QUIET_ROUNDS)
    with cluster(CLOUD, python, traffic=TENANTS) as bed:
        by, groups = grouped(bed.probe("both", "--samples", "200"))
        arms: dict[str, tuple[str, list[int] | None]] = {
            FLAT: ("parameter_server", None),
            PROBED: ("two_level", groups),
            **{f"{RANDOM} {seed}": ("two_level", balanced(seed)) for seed in SEEDS},
        }
        program = [str(IN_GROUPS), str(NBYTES)]
        bed.traffic(on=False)
        (quiet,) = bed.run([*program, str(alone), json.dumps(arms)])
        bed.traffic(on=True)
        (shared,) = bed.run([*program, str(rounds), json.dumps(arms)])
    return {"by": by, "groups": groups, "alone": quiet, "shared": shared}


def grouped(measured: Distances) -> tuple[str, list[int]]:
    """Groups of equal size: by rates, or by round trips if rates show none. Also says by which."""
    for by in ("rate", "rtt"):
        found = find(measured, Settings(groups=GROUPS, balance=0.0, by="rate" if by == "rate" else "rtt"))
        if found.found and set(Counter(found.groups).values()) == {HOSTS // GROUPS}:
            return by, list(found.groups)
    raise RuntimeError("the probe shows no groups")


def draw(findings: Findings) -> Figure:
    """Draws the distribution of times, and the speed-ups over flat aggregation."""
    times, values = findings.table("times"), findings.table("values")
    figure, (left, right) = plot.new(columns=2, height=3.0)
    for index, arm in enumerate(ARMS):
        seconds = sorted(values.column("seconds_s", arm=arm, traffic="shared"))
        if seconds:
            at = [(number + 1) / len(seconds) for number in range(len(seconds))]
            left.plot([1e3 * each for each in seconds], at, color=plot.COLOURS[index], label=arm)
        (predicted,) = times.column("predicted_s", arm=arm)
        left.axvline(1e3 * predicted, color=plot.COLOURS[index], linestyle=":", label=f"{arm}: predicted, alone")
    left.set_xlabel("all-reduce with other tenants [ms]")
    left.set_ylabel("part of all-reduces")
    left.legend(fontsize=6)
    bars: dict[str, list[float]] = {}
    predicted = dict(zip(ARMS, times.column("predicted_s"), strict=True))
    bars["predicted, alone"] = [predicted[FLAT] / predicted[arm] for arm in ARMS[1:]]
    if values.rows:
        of = {arm: summary(values.column("seconds_s", arm=arm, traffic="shared")) for arm in ARMS}
        bars |= {name: [of[FLAT][name] / of[arm][name] for arm in ARMS[1:]] for name in of[FLAT]}
    plot.grouped(right, bars)
    right.set_xticks(range(len(ARMS) - 1), labels=[arm.replace(", ", ",\n") for arm in ARMS[1:]])
    right.axhline(1, color=plot.GREY, linewidth=0.8)
    right.set_ylabel("times as fast as flat aggregation")
    right.legend()
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "2-level aggregation on groups by a probe, on random groups, and flat aggregation",
    (GAIN, OVER_FLAT, STABLE, TIMES),
    measure,
    draw,
    networks=("flow",),
    calibrated=CALIBRATED,
    runs=True,
)
