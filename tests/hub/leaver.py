"""A hub, and a rank that pushes a large vector over a slow network and leaves. Rank 0 runs the hub.

The hub prints a line of JSON with its events and the duration of the job.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array

from syncline.hub import Hub, HubResources, Service
from syncline.runtime import Security, TimeLimits

ELEMENTS = 1_000_000
"""4 MB, or three seconds at 10 Mb/s."""


def serve(address: str) -> None:
    """Runs the hub until the job is over."""
    with Service([address], resources=HubResources(cores=1), security=Security(insecure=True)) as service:
        while not service.status()["jobs"]:
            time.sleep(0.01)
        began = time.monotonic()
        while service.status()["jobs"]:
            time.sleep(0.01)
        reported = {"took_s": time.monotonic() - began, "events": service.events()}
        sys.stdout.write(json.dumps(reported) + "\n")


def main() -> None:
    """Runs the hub on rank 0; pushes and leaves on the other rank."""
    hub = os.environ["SYNCLINE_PEERS"].split(",")[0]
    if os.environ["RANK"] == "0":
        return serve(hub)
    vector = array("f", [1.0]) * ELEMENTS
    with Hub.join(
        hub, {"w": vector}, rank=0, world=1, security=Security(insecure=True), limits=TimeLimits(wait_s=60.0)
    ) as job:
        job.push("w", vector)
    return None


main()
