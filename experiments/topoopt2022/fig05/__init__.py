"""Figure 5 and section 3.3: ring permutations."""

from __future__ import annotations

from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.topoopt2022.traffic import SERVERS, STRIDES, draw_links
from syncline import SynclineError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

SCENARIO = Path(__file__).parent / "rings.yaml"
COUNT = 12

GENERATORS = Claim("topo-01", "3.3", "the strides that generate a ring through 12 servers are 1, 5, 7 and 11.")
SPEED = Claim("topo-fig05", "3.3", "every permutation reduces equally fast if every two servers are joined.")


def measure(runner: Runner) -> Findings:
    """Tries every stride; the core proves each plan, and refuses one that does not reduce."""
    found = Table("strides", f"Rings among {COUNT} servers, by stride", ("stride", "time_s", "links"))
    for stride in range(1, COUNT):
        try:
            result = runner.simulate(
                SCENARIO, {"collectives.algorithms.dim1.all_reduce": f"multi_ring(strides={stride})"}
            )
        except SynclineError:
            continue
        used = sum(carried > 0 for carried in result.table("links")["carried_bytes"])
        found.add(stride, result.summary.total_time_s, used)
    return Findings([found], [_generators(found), _speed(found)])


def _generators(found: Table) -> Verdict:
    strides, links = found.column("stride"), found.column("links")
    return GENERATORS.judged(
        strides == [1, 5, 7, 11] and set(links) == {COUNT},
        f"strides {', '.join(map(str, strides))}, each over {links[0]} links",
        "A stride visits all servers if and only if it has no divisor in common with their number: "
        f"{', '.join(f'gcd({stride}, 12) = {gcd(stride, COUNT)}' for stride in (5, 6))}.",
    )


def _speed(found: Table) -> Verdict:
    times = found.column("time_s")
    return SPEED.judged(
        max(times) == min(times),
        f"{min(times) * 1e3:.6g} ms to {max(times) * 1e3:.6g} ms",
        "Each server sends 2 x 11 / 12 of the vector to one other server.",
    )


def draw(_: Findings) -> Figure:
    """Draws the rings of Figure 5, through 16 servers."""
    figure, axes = plot.new(len(STRIDES), width=7.5, height=2.8)
    for axis, stride, colour in zip(axes, STRIDES, plot.COLOURS, strict=False):
        links = [(server, (server + stride) % SERVERS, colour) for server in range(SERVERS)]
        draw_links(axis, f"stride {stride}", links)
    return figure


EXPERIMENT = Experiment(Path(__file__).parent, "ring permutations", (GENERATORS, SPEED), measure, draw, (), ("flow",))
