"""Where a chunk of a four-phase all-reduce spends its time: the breakdown of Figures 12b and 16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.harness.plot import BLUE, GREEN, GREY, ORANGE, PURPLE, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline import Result

PHASES = 4
PARTS = (
    *(f"queue_P{phase}_s" for phase in range(PHASES + 1)),
    *(f"network_P{phase}_s" for phase in range(1, PHASES + 1)),
)
"""``queue_P0_s`` is the wait in the ready queue; ``queue_P1_s`` to ``queue_P4_s`` are waits in the scheduling queues of
the phases; ``network_P1_s`` to ``network_P4_s`` are delays of the phases' messages."""
COLOURS = (GREY, BLUE, ORANGE, GREEN, PURPLE)
"""One colour for each phase; network delays are hatched."""


def delays(result: Result) -> list[tuple[float, ...]]:
    """The delays of every collective, in the order of ``PARTS``; 0 for phases that a collective does not have."""
    phases = result.table("phases")
    found = [[ready] + [0.0] * 2 * PHASES for ready in result.table("collectives")["ready_queue_delay_s"]]
    columns = (phases[name] for name in ("collective", "phase", "queue_delay_s", "network_delay_s"))
    for collective, phase, queue, network in zip(*columns, strict=True):
        found[collective][phase] = queue
        found[collective][PHASES + phase] = network
    return [tuple(each) for each in found]


def parts(columns: Sequence[Sequence[float]], scale: float) -> list[Part]:
    """Layers of stacked bars, one bar for each column of delays in the order of ``PARTS``."""
    made = []
    for index, name in enumerate(PARTS):
        kind, phase = name.removesuffix("_s").split("_P")
        values = [scale * column[index] for column in columns]
        made.append(Part(f"{kind} P{phase}", values, COLOURS[int(phase)], "////" if kind == "network" else ""))
    return made
