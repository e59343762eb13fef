"""Program of one rank in Figure 6.15: all-reduces for some time, with or without a tuner.

``follow.py MODE BYTES BLOCKS FILE``. ``MODE`` is the tuner's, ``BLOCKS`` the blocks of the balanced assignment with
which the job begins; the run ends once ``FILE`` exists. Each rank prints an object: what it has sent over time
(``sent``: pairs of a step and bytes). Rank 0 adds ``steps``, the times at which all-reduces ended, in seconds since
1970, and ``decisions``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from pathlib import Path

from syncline.runtime import Communicator, Plans, Resources, Rule, Security, TimeLimits
from syncline.tuning import Mode, Settings, Tuner, even_groups, quicktune

MESSAGE = 8 << 10
"""Bytes of a message: a quarter of a block of 32 KiB, as the tuner cuts them."""
PATIENT = TimeLimits(interval_s=1.0, silence_s=20.0)
"""Many ranks share the machine's cores, and may be silent for a while."""
EVERY = 4
"""Steps between two readings of what was sent."""


def main(mode: Mode, nbytes: int, blocks: int, end: Path) -> None:
    """Runs a rank."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # As in the dissertation, masters are assigned; other plans are not tried.
    settings = Settings(algorithms=(), messages=())
    balanced = quicktune(even_groups(world), [1.0] * world, blocks).plan()
    vector = array("f", bytes(nbytes // 4 * 4))
    with (
        Communicator.join(
            plans=Plans(rules=[Rule("all_reduce", balanced, message=MESSAGE)]),
            security=Security(insecure=True),
            resources=Resources(congestion="cubic"),
            limits=PATIENT,
        ) as ranks,
        Tuner(ranks, mode, settings) as tuner,
    ):
        steps: list[float] = []
        sent: list[tuple[int, int]] = []
        ended = False
        while not ended:
            # Rank 0 ends the run: all ranks see the sum.
            vector[0] = float(rank == 0 and end.exists())
            ranks.all_reduce(vector).wait()
            ended = vector[0] > 0
            steps.append(time.time())
            if len(steps) % EVERY == 0:
                sent.append((len(steps), sum(each.sent_bytes for each in ranks.connections)))
        found: dict[str, object] = {"sent": sent}
        if rank == 0:
            decisions = [each.as_dict() for each in tuner.decisions]
            found |= {"steps": [round(each, 3) for each in steps], "decisions": decisions}
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    tuner_mode: Mode = "on" if sys.argv[1] == "on" else "off"
    main(tuner_mode, int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
