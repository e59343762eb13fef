"""A parameter hub compared with Gloo's ring, on an emulated cluster.

Eight workers at 500 Mb/s and the hub's host at 4 Gb/s are on one switch: a non-colocated, central hub in the terms of
luo2020. Gloo's eight ranks are the workers, and the ninth host idles. So the networks are not the same, and the hub's
is more expensive. Needs root (network namespaces).
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from array import array
from pathlib import Path

from emulated import can_emulate, measure
from emulated import name as bed_name
from peers import GLOO, ROUNDS, Times, arguments, cost
from requirement import requirement
from timing import timed

from syncline.testbed import PAYLOAD

WORKERS = 8
RATE, HUB_RATE = 500e6, 4e9
LINKS = "".join(
    f"    - {{ from: npu{host}, to: switch0, rate: {'4Gb/s' if host == WORKERS else '500Mb/s'} }}\n"
    for host in range(WORKERS + 1)
)
SPEC = f"""\
schema: syncline-testbed/1
name: {bed_name("hub-bench")}
fabric:
  npus: {WORKERS + 1}
  switches: 1
  links:
{LINKS}"""
CASES = {"25MB": 26_214_400, "1MB": 1 << 20, "64KB": 64 << 10, "4B": 4}
BARS = {"25MB": 1.5, "64KB": 8.0}
"""Required speed of the hub relative to Gloo."""
WITHIN = 1.15
"""Highest allowed ratio of the hub's time to the network's bound, at 25 MB."""


def bound(nbytes: int) -> float:
    """Minimum seconds that the network allows for an exchange; pushes and answers overlap."""
    return max(8 * nbytes / (RATE * PAYLOAD), WORKERS * 8 * nbytes / (HUB_RATE * PAYLOAD))


def hub(nbytes: int) -> None:
    """Runs one rank of the job, or the hub on its host; rank 0 prints the seconds of each exchange."""
    from syncline.hub import Hub, HubResources, Service
    from syncline.runtime import Security

    peers = os.environ["SYNCLINE_PEERS"].split(",")
    rank = int(os.environ["RANK"])
    if rank == WORKERS:
        with Service(
            [peers[WORKERS]], resources=HubResources(cores=2, congestion="cubic"), security=Security(insecure=True)
        ) as service:
            while not service.status()["jobs"]:
                time.sleep(0.01)
            service.drain(600)
            while not service.ended:
                time.sleep(0.05)
        return
    vector = array("f", [1.0]) * (nbytes // 4)
    joined = Hub.join(
        peers[WORKERS],
        {"vector": vector},
        rank=rank,
        world=WORKERS,
        security=Security(insecure=True),
        congestion="cubic",
    )
    with joined as job:
        timed(lambda: job.push_pull("vector", vector).wait(), nbytes, first=rank == 0)


def main(given: list[str]) -> None:
    """Measures both in turn, and prints a line for each case."""
    python, names = arguments(given, CASES)
    if not can_emulate():
        return
    sys.stdout.write("The hub's network has one host more than Gloo's; its link is eight times as fast as others.\n")
    with tempfile.TemporaryDirectory() as folder:
        bed = Path(folder) / "bed.yaml"
        bed.write_text(SPEC)
        for name in names:
            nbytes = CASES[name]
            ours, theirs = Times(), Times()
            for _ in range(ROUNDS):
                ours += measure(str(bed), [sys.executable, __file__, "--hub", str(nbytes)], f"0-{WORKERS}")
                if python:
                    program = [python, "-W", "ignore", GLOO, str(nbytes)]
                    theirs += measure(str(bed), program, f"0-{WORKERS - 1}")
            # A hub sends each vector twice, a ring 1.75 times.
            median, vectors = statistics.median(ours.seconds), WORKERS * nbytes
            text = f"{name}: hub {1e3 * median:.2f} ms (least {1e3 * min(ours.seconds):.2f}{cost(ours, vectors)})"
            if name == "25MB":
                near = median / bound(nbytes)
                text += f", {near:.2f} of the network's {1e3 * bound(nbytes):.0f} ms"
                text += f" {requirement(near, WITHIN, least=False)}"
            if theirs.seconds:
                ratio = statistics.median(theirs.seconds) / median
                text += f"; Gloo {1e3 * statistics.median(theirs.seconds):.2f} ms{cost(theirs, vectors)}, "
                text += f"{ratio:.2f} times as long"
                text += f" {requirement(ratio, BARS[name])}" if name in BARS else ""
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hub"]:
        hub(int(sys.argv[2]))
    else:
        main(sys.argv[1:])
