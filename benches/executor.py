"""All-reduces of the executor, compared with Gloo and Open MPI, on an emulated cluster.

Eight hosts at 1 Gb/s in two racks. Ranks are numbered so that neighbours are in different racks, as a scheduler may
place them. Gloo and MPI cannot change that; the executor reads the racks from a file, and orders ranks by rack. The
cases are all-reduces of several sizes with a core of 1 Gb/s, and the two-level plan with a core of 500 Mb/s, compared
with Gloo in its best and its worst order. Needs root (network namespaces).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from array import array
from dataclasses import dataclass
from pathlib import Path

from emulated import can_emulate, measure, measure_mpi
from emulated import name as bed_name
from peers import GLOO, ROUNDS, Times, arguments, cost, with_mpi
from requirement import requirement
from timing import timed

from syncline.testbed import PAYLOAD

HOSTS, RATE = 8, 1e9
SPEC = """\
schema: syncline-testbed/1
name: {name}
fabric:
  leaf_spine: {{ leaves: 2, hosts_per_leaf: 4, spines: 1, rate: 1Gb/s, uplink_rate: {core} }}
"""
BEST, WORST = "0,1,2,3,4,5,6,7", "0,4,1,5,2,6,3,7"
RACKS = "0 2 4 6\n1 3 5 7\n"
"""Ranks of each rack, in the order ``WORST``."""


@dataclass(frozen=True)
class Case:
    """An all-reduce, and its required speed."""

    nbytes: int
    core: str
    plan: str
    """Plan that the executor runs."""
    bound_s: float | None = None
    """Minimum time that the network allows."""
    within: float | None = None
    """Highest allowed ratio of the executor's time to ``bound_s``."""
    best: float | None = None
    """Required speed relative to Gloo in its best order."""
    worst: float | None = None
    """Required speed relative to Gloo in its worst order."""


LARGE = 26_214_400
RING_S = 2 * (HOSTS - 1) / HOSTS * LARGE * 8 / (RATE * PAYLOAD)
TWO_LEVEL_S = max(RING_S, LARGE * 8 / (RATE / 2 * PAYLOAD))
CASES = {
    "25MB": Case(LARGE, "1Gb/s", "ring", RING_S, 1.08, worst=3.5),
    "64KB": Case(64 << 10, "1Gb/s", "halving_doubling", worst=5.0),
    "4B": Case(4, "1Gb/s", "halving_doubling", worst=2.0),
    "25MB-thin-core": Case(LARGE, "500Mb/s", "two_level", TWO_LEVEL_S, 1.10, best=1.6, worst=6.5),
}


def rank(plan: str, nbytes: int, racks: str) -> None:
    """Runs one rank of the executor."""
    from syncline.runtime import Communicator, Plans, Resources, Rule, Security

    vector = array("f", [1.0]) * (nbytes // 4)
    rules = [Rule("all_reduce", plan)]
    with Communicator.join(
        plans=Plans(rules=rules, racks=racks), security=Security(insecure=True), resources=Resources(congestion="cubic")
    ) as ranks:
        timed(lambda: ranks.all_reduce(vector).wait(), nbytes, first=ranks.rank == 0)


def line(name: str, case: Case, ours: Times, theirs: dict[str, Times], others: Times) -> str:
    """Returns the line to print for a case."""
    median, sent = statistics.median(ours.seconds), 2 * (HOSTS - 1) * case.nbytes
    text = f"{name}: {case.plan} {1e3 * median:.2f} ms (least {1e3 * min(ours.seconds):.2f}{cost(ours, sent)})"
    if case.bound_s is not None and case.within is not None:
        near = median / case.bound_s
        text += (
            f", {near:.2f} of the network's {1e3 * case.bound_s:.0f} ms {requirement(near, case.within, least=False)}"
        )
    for what, bar in (("best", case.best), ("worst", case.worst)):
        if bar is not None and what in theirs:
            seconds = statistics.median(theirs[what].seconds)
            ratio = seconds / median
            text += f"; Gloo in its {what} order {1e3 * seconds:.2f} ms{cost(theirs[what], sent)}, "
            text += f"{ratio:.2f} times as long {requirement(ratio, bar)}"
    if others.seconds:
        seconds = statistics.median(others.seconds)
        text += f"; Open MPI in the worst order {1e3 * seconds:.2f} ms{cost(others, sent)}, "
        text += f"{seconds / median:.2f} times as long"
    return text + "\n"


def main(given: list[str]) -> None:
    """Measures all libraries in turn, and prints a line for each case."""
    python, names = arguments(given, CASES)
    if not can_emulate():
        return
    sys.stdout.write(f"Only the executor reads from a file which rank is in which rack. Racks: {RACKS!r}\n")
    with tempfile.TemporaryDirectory() as folder:
        mpi = with_mpi(folder)
        racks = Path(folder) / "racks.txt"
        racks.write_text(RACKS)
        for name in names:
            case = CASES[name]
            bed = Path(folder) / f"{name}.yaml"
            called = bed_name("executor-bench")
            bed.write_text(SPEC.format(core=case.core, name=called))
            orders = {what: hosts for what, hosts in (("best", BEST), ("worst", WORST)) if getattr(case, what)}
            ours, others = Times(), Times()
            theirs = {what: Times() for what in orders if python}
            for _ in range(ROUNDS):
                program = [sys.executable, __file__, "--rank", case.plan, str(case.nbytes), str(racks)]
                ours += measure(str(bed), program, WORST)
                for what in theirs:
                    program = [str(python), "-W", "ignore", GLOO, str(case.nbytes)]
                    theirs[what] += measure(str(bed), program, orders[what])
                if mpi:
                    others += measure_mpi(str(bed), called, mpi, case.nbytes, WORST)
            sys.stdout.write(line(name, case, ours, theirs, others))
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main(sys.argv[1:])
