"""A hub, and a rank that pushes much over a slow network and leaves, for a test: host 0 is the hub's.

The hub says as JSON what has happened, and how long the job took.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array

from syncline.hub import Hub, Service

ELEMENTS = 1_000_000
"""4 MB, or three seconds at 10 Mb/s."""


def serve(address: str) -> None:
    """Serves until the job is over."""
    with Service([address], cores=1, insecure=True) as service:
        while not service.status()["jobs"]:
            time.sleep(0.01)
        began = time.monotonic()
        while service.status()["jobs"]:
            time.sleep(0.01)
        said = {"took_s": time.monotonic() - began, "events": service.events()}
        sys.stdout.write(json.dumps(said) + "\n")


def main() -> None:
    """Serves, or pushes and leaves."""
    hub = os.environ["SYNCLINE_PEERS"].split(",")[0]
    if os.environ["RANK"] == "0":
        return serve(hub)
    vector = array("f", [1.0]) * ELEMENTS
    with Hub.join(hub, {"w": vector}, rank=0, world=1, insecure=True, wait_s=60.0) as job:
        job.push("w", vector)
    return None


main()
