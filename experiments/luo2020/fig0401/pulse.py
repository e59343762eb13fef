"""Program of one rank in Figure 4.2: messages of 4 bytes back and forth between two hosts. The first rank prints times.

``pulse.py SECONDS INTERVAL``. The printed object has ``at_s``, when each round trip began since the first one, and
``seconds``, how long it took.
"""

from __future__ import annotations

import json
import sys
import time

from syncline.runtime import Communicator, Resources, Security, TimeLimits


def main(seconds: float, interval: float) -> None:
    """Runs a rank."""
    message = bytearray(4)
    at: list[float] = []
    times: list[float] = []
    with Communicator.join(
        security=Security(insecure=True),
        resources=Resources(congestion="cubic"),
        limits=TimeLimits(interval_s=1.0, silence_s=20.0),
    ) as ranks:
        other = 1 - ranks.rank
        began = time.perf_counter()
        while message[0] == 0:
            start = time.perf_counter()
            # The first rank ends the run.
            message[0] = int(start - began > seconds) if ranks.rank == 0 else message[0]
            for sender in (0, 1):
                if ranks.rank == sender:
                    ranks.send(message, other).wait()
                else:
                    ranks.receive(message, other).wait()
            at.append(round(start - began, 3))
            times.append(round(time.perf_counter() - start, 6))
            time.sleep(interval if ranks.rank == 0 else 0)
        if ranks.rank == 0:
            # The first round trip opens the connection's window.
            sys.stdout.write(json.dumps({"at_s": at[1:], "seconds": times[1:]}) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
