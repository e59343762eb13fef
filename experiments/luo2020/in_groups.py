"""Program of one rank: all-reduces by several plans in turn, on one job. The first rank prints the times.

``in_groups.py BYTES ROUNDS ARMS``. ``ARMS`` is a JSON object: for each name, a plan and, if it needs groups, the group
of each rank: ``{"flat": ["parameter_server", null], "pairs": ["two_level", [0, 0, 1, 1]]}``. In each round every arm
runs once, so that all meet the same network. The printed object has the seconds of each all-reduce, by name, and
``at_s``: when each round began, since the first one. Arms use the same connections.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array

from syncline.runtime import Communicator, Plans, Resources, Rule, Security, TimeLimits

WARM_UP = 1
PATIENT = TimeLimits(interval_s=1.0, silence_s=20.0)
"""Many ranks share the machine's cores, and may be silent for a while."""


def main(nbytes: int, rounds: int, arms: dict[str, tuple[str, list[int] | None]]) -> None:
    """Runs a rank."""
    vector = array("f", bytes(nbytes // 4 * 4))
    found: dict[str, list[float]] = {name: [] for name in ("at_s", *arms)}
    with Communicator.join(
        security=Security(insecure=True), resources=Resources(congestion="cubic"), limits=PATIENT
    ) as ranks:
        groups = {
            name: ranks.group(range(ranks.world), name, plans=Plans(rules=[Rule("all_reduce", plan)], racks=racks))
            for name, (plan, racks) in arms.items()
        }
        start = 0.0
        for step in range(WARM_UP + rounds):
            start = time.perf_counter() if step == WARM_UP else start
            if step >= WARM_UP:
                found["at_s"].append(round(time.perf_counter() - start, 3))
            for name, group in groups.items():
                group.barrier().wait()
                began = time.perf_counter()
                group.all_reduce(vector).wait()
                found[name] += [round(time.perf_counter() - began, 5)] if step >= WARM_UP else []
        ranks.barrier().wait()
    if int(os.environ["RANK"]) == 0:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
