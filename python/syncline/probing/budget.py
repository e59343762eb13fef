"""Divides a budget of time among rounds: how many samples a pair gets, and how long its transfers may take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.probing.estimates import MIN_SAMPLES
from syncline.quantity import counted, time

DEFAULT_SAMPLES = 1_000
"""Samples of a pair, if neither their number nor a budget is given."""
MAX_PLANNED_SAMPLES = 10_000
"""The most samples that a budget is spent on: as many as luo2020 5.2.2 takes."""
PAIR_S = 10.0
"""The longest that a pair echoes without a budget, once it has the least number of samples."""
RATE_S = 0.5
"""Time for the transfers of a pair, without a budget."""
MIN_RATE_S, MAX_RATE_S = 0.1, 1.0
"""Time for the transfers of a pair with a budget."""
MAX_SAMPLES = 1_000_000
MIN_BUDGET_S = 2.0
MAX_BUDGET_S = 7 * 86_400.0
USED = 0.9
"""The share of the time left that is planned: rounds take longer at times."""


@dataclass(frozen=True)
class Wanted:
    """What to measure."""

    rtt: bool = True
    rate: bool = False
    samples: int | None = None
    """Echoes per pair; ``None`` for as many as the budget allows."""
    budget_s: float | None = None
    """Time for everything, from start to end."""

    def __post_init__(self) -> None:
        """Checks the numbers.

        :raises SynclineError: a number is out of range.
        """
        if self.samples is not None and not MIN_SAMPLES <= self.samples <= MAX_SAMPLES:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "this number of samples is not possible",
                    key="--samples",
                    found=str(self.samples),
                    allowed=f"{MIN_SAMPLES} to {MAX_SAMPLES:,}",
                    help=f"fewer than {MIN_SAMPLES} samples give no 95 % interval of the 10th percentile",
                )
            )
        if self.budget_s is not None and not MIN_BUDGET_S <= self.budget_s <= MAX_BUDGET_S:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "the budget is out of range",
                    key="--budget",
                    found=f"{self.budget_s:g} s",
                    allowed=f"{MIN_BUDGET_S:g} s to a week",
                    help="starting agents and first contact take a second or more",
                )
            )


@dataclass(frozen=True)
class Costs:
    """What a first try has shown."""

    echo_s: float
    """Time of one echo of the slowest pair."""
    step_s: float
    """Time of a step of a round beyond its measurements: orders and answers."""


@dataclass(frozen=True)
class Plan:
    """What each pair gets."""

    samples: int
    """Echoes; 0 if round trips are not measured."""
    rate_s: float
    """Time for transfers; 0 if rates are not measured."""


def plan(wanted: Wanted, rounds: int, costs: Costs, left_s: float | None, spent_s: float = 0.0) -> Plan:
    """Returns what each pair gets in ``rounds`` rounds within ``left_s`` seconds.

    :raises SynclineError: the time is too short for the least that is useful. The error names a budget that suffices.
    """
    if left_s is None:
        return Plan((wanted.samples or DEFAULT_SAMPLES) if wanted.rtt else 0, RATE_S if wanted.rate else 0.0)
    steps = wanted.rtt + wanted.rate
    wish = wanted.samples or MIN_SAMPLES
    least_s = costs.step_s * steps + (wish * costs.echo_s if wanted.rtt else 0) + (MIN_RATE_S if wanted.rate else 0)
    each_s = left_s * USED / max(rounds, 1)
    if each_s < least_s:
        whole = spent_s + least_s * rounds / USED
        # Round up generously: a suggestion that fails again would not help.
        suggestion = math.ceil(1.25 * whole / 5) * 5
        what = [f"{wish:,} samples"] * wanted.rtt + ["transfers"] * wanted.rate
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                f"the budget is too short for {counted(rounds, 'round')} with {' and '.join(what)} of each pair",
                key="--budget",
                found=time(spent_s + left_s),
                help=f"--budget {suggestion}s suffices; or fewer --samples, or fewer pairs: --schedule sampled",
            )
        )
    spare_s = each_s - costs.step_s * steps
    echoes_s = wish * costs.echo_s if wanted.rtt else 0.0
    rate_s = min(max(spare_s / steps, MIN_RATE_S), MAX_RATE_S, spare_s - echoes_s) if wanted.rate else 0.0
    if not wanted.rtt:
        return Plan(0, rate_s)
    possible = math.floor((spare_s - rate_s) / costs.echo_s)
    samples = wanted.samples or min(MAX_PLANNED_SAMPLES, possible)
    return Plan(max(samples, MIN_SAMPLES), rate_s)
