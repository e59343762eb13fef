"""What is best: the shortest step, the cheapest one, or the one that takes least energy.

An accelerator costs its price for as long as the step takes, whatever it does. It draws the power of its board while it
computes, and :data:`WAITING` of it while it waits: for communication, for other stages, for the processor that launches
kernels. So the energy of a step is::

    accelerators x board power x (computing + WAITING x (step - computing))

where ``computing`` is the mean over stages. Processors, network, power supplies and cooling are not counted, unless the
power that is given has their part.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.design.parallel.search_configurations import Configuration

WAITING = 0.5
"""Part of its power that an accelerator draws while it waits; an assumption. GPUs of training jobs come to the power of
their boards while they compute, and draw much less while they synchronise; how much less depends on the model (Patel et
al., "Characterizing Power Management Opportunities for LLMs in the Cloud", ASPLOS 2024)."""
COMPUTING = ("products", "attention", "element_wise", "ends", "update")
"""Parts of a step in which accelerators compute."""


class Objective(StrEnum):
    """What is best."""

    TIME = "time"
    """The shortest step."""
    DOLLARS = "dollars"
    """The step that costs least."""
    ENERGY = "energy"
    """The step that takes least energy."""


@dataclass(frozen=True)
class Costs:
    """What an accelerator costs and draws."""

    board_w: float
    """Its power while it computes, in watts."""
    usd_per_h: float | None = None
    """Its price for an hour, in dollars; None if it is not known."""
    waiting: float = WAITING
    """Part of its power that it draws while it waits, from 0 to 1."""

    def usd(self, configuration: Configuration) -> float | None:
        """Dollars of a step; None without a price."""
        return None if self.usd_per_h is None else hours(configuration) * self.usd_per_h

    def joules(self, configuration: Configuration) -> float:
        """Energy of a step, in joules."""
        waiting = configuration.step_s - configuration.computing_s
        return configuration.accelerators * self.board_w * (configuration.computing_s + self.waiting * waiting)

    def score(self, configuration: Configuration, objective: Objective) -> float:
        """What the best configuration has least of: seconds, accelerator-hours (all cost the same) or joules."""
        match objective:
            case Objective.TIME:
                return configuration.step_s
            case Objective.DOLLARS:
                return hours(configuration)
            case Objective.ENERGY:
                return self.joules(configuration)

    def parts(self, configuration: Configuration, objective: Objective) -> dict[str, float]:
        """The parts of :meth:`score`, by the parts of the step; stages that compute less than the slowest one wait."""
        if objective is not Objective.ENERGY:
            each = 1.0 if objective is Objective.TIME else configuration.accelerators / 3600
            return {name: each * seconds for name, seconds in configuration.parts.items()}
        slowest = sum(configuration.parts[name] for name in COMPUTING)
        mean = configuration.computing_s / slowest if slowest > 0 else 0.0
        power = configuration.accelerators * self.board_w
        found = {
            name: power * seconds * (mean if name in COMPUTING else self.waiting)
            for name, seconds in configuration.parts.items()
        }
        found["bubble"] += power * self.waiting * (slowest - configuration.computing_s)
        return found


def hours(configuration: Configuration) -> float:
    """Accelerator-hours of a step."""
    return configuration.accelerators * configuration.step_s / 3600
