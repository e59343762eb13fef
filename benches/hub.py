"""A parameter hub beside Gloo's ring, on an emulated cluster. Usage: hub.py [--gloo PYTHON] [CASE ...].

Eight workers at 500 Mb/s and one host at 4 Gb/s on a switch, which is the hub's: non-colocated and central, as luo2020
has it. Gloo's eight ranks are the workers; the ninth host idles, so the networks are not the same, and the hub's is
dearer. PYTHON is one that has PyTorch. Needs root (network namespaces).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

WORKERS = 8
RATE, HUB_RATE = 500e6, 4e9
LINKS = "".join(
    f"    - {{ from: npu{host}, to: switch0, rate: {'4Gb/s' if host == WORKERS else '500Mb/s'} }}\n"
    for host in range(WORKERS + 1)
)
SPEC = f"""\
schema: syncline-testbed/1
name: hub-bench
fabric:
  npus: {WORKERS + 1}
  switches: 1
  links:
{LINKS}"""
PAYLOAD = 1448 / 1514
"""Of a link's rate, what TCP's payload has."""
CASES = {"25MB": 26_214_400, "1MB": 1 << 20, "64KB": 64 << 10, "4B": 4}
BARS = {"25MB": 1.5, "64KB": 8.0}
"""How many times as fast as Gloo the hub is asked to be."""
WITHIN = 1.15
"""How near the wire's bound the hub is asked to be, at 25 MB."""
ROUNDS = 3


def bound(nbytes: int) -> float:
    """Seconds in which the wire could do it: pushes and answers overlap."""
    return max(8 * nbytes / (RATE * PAYLOAD), WORKERS * 8 * nbytes / (HUB_RATE * PAYLOAD))


def repeats(nbytes: int) -> int:
    """Exchanges that are timed."""
    return 5 if nbytes > 1 << 22 else 40


def hub(nbytes: int) -> None:
    """One rank of the job, or the hub's host; rank 0 prints the seconds of each exchange."""
    from syncline.hub import Hub, Service

    peers = os.environ["SYNCLINE_PEERS"].split(",")
    rank = int(os.environ["RANK"])
    if rank == WORKERS:
        with Service([peers[WORKERS]], cores=2, insecure=True, congestion="cubic") as service:
            while not service.status()["jobs"]:
                time.sleep(0.01)
            service.drain(600)
            while not service.ended:
                time.sleep(0.05)
        return
    vector = array("f", [1.0]) * (nbytes // 4)
    options = {"rank": rank, "world": WORKERS, "insecure": True, "congestion": "cubic"}
    with Hub.join(peers[WORKERS], {"vector": vector}, **options) as job:
        times = []
        for step in range(2 + repeats(nbytes)):
            began = time.perf_counter()
            job.push_pull("vector", vector).wait()
            times += [time.perf_counter() - began] if step >= 2 else []
    if rank == 0:
        sys.stdout.write(json.dumps(times) + "\n")


def gloo(nbytes: int) -> None:
    """One of Gloo's ranks; rank 0 prints the seconds of each all-reduce."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    vector = torch.ones(nbytes // 4)
    times = []
    for step in range(2 + repeats(nbytes)):
        began = time.perf_counter()
        dist.all_reduce(vector)
        times += [time.perf_counter() - began] if step >= 2 else []
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps(times) + "\n")
    dist.destroy_process_group()


def measure(bed: str, program: list[str], hosts: str) -> list[float]:
    """Seconds of each exchange, of a program that runs on these hosts."""
    command = [sys.executable, "-m", "syncline", "testbed", "run", bed, "--hosts", hosts, "--", *program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own command
    if done.returncode:
        sys.exit(done.stderr)
    line = next(line for line in done.stdout.splitlines() if "[" in line and "," in line)
    return list(json.loads(line[line.rindex("[") :]))


def main(arguments: list[str]) -> None:
    """Measures both in turn, and prints a line for each case."""
    python = arguments[1] if arguments[:1] == ["--gloo"] else None
    names = arguments[2:] if python else arguments
    with tempfile.TemporaryDirectory() as folder:
        bed = Path(folder) / "bed.yaml"
        bed.write_text(SPEC)
        for name in names or list(CASES):
            nbytes = CASES[name]
            ours: list[float] = []
            theirs: list[float] = []
            for _ in range(ROUNDS):
                ours += measure(str(bed), [sys.executable, __file__, "--hub", str(nbytes)], f"0-{WORKERS}")
                if python:
                    program = [python, "-W", "ignore", __file__, "--ring", str(nbytes)]
                    theirs += measure(str(bed), program, f"0-{WORKERS - 1}")
            median = statistics.median(ours)
            text = f"{name}: hub {1e3 * median:.2f} ms (least {1e3 * min(ours):.2f})"
            if name == "25MB":
                near = median / bound(nbytes)
                text += f", {near:.2f} of the wire's {1e3 * bound(nbytes):.0f} ms ({WITHIN} is asked for: "
                text += "reached)" if near <= WITHIN else "NOT reached)"
            if theirs:
                ratio = statistics.median(theirs) / median
                text += f"; Gloo {1e3 * statistics.median(theirs):.2f} ms, {ratio:.2f} times as long"
                if name in BARS:
                    text += f" ({BARS[name]} is asked for: {'reached' if ratio >= BARS[name] else 'NOT reached'})"
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hub"]:
        hub(int(sys.argv[2]))
    elif sys.argv[1:2] == ["--ring"]:
        gloo(int(sys.argv[2]))
    else:
        main(sys.argv[1:])
