"""All-reduces between four processes of one machine, compared with Gloo and Open MPI.

syncline shares memory and, for comparison, also uses TCP over the loopback interface. Gloo only has TCP; Open MPI
shares memory. As root, each runs in a separate network namespace with a chosen congestion control: syncline with reno,
Gloo with reno and with bbr in turn. Otherwise all use the system's congestion control.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path

from peers import GLOO, MPI, ROUNDS, Times, arguments, cost, mpi_arguments, output_of, times_of, with_mpi
from requirement import requirement
from timing import timed

RANKS = 4
CONGESTIONS = ["reno", "bbr"]
SYSTEM = "the system's"
CASES = {"4B": 4, "64KB": 64 << 10, "1MB": 1 << 20, "25MB": 25 << 20, "100MB": 100 << 20}
BAR = 1.5
"""Required ratio of the bus bandwidth over shared memory to Gloo's, at 100 MB."""


def rank(nbytes: int, shared: str) -> None:
    """Runs one rank of syncline."""
    from syncline.runtime import Communicator, Plans, Resources, Rule

    vector = array("f", [0.0]) * (nbytes // 4)
    rules = [Rule("all_reduce", "direct")]
    with Communicator.join(plans=Plans(rules=rules), resources=Resources(shared_memory=shared == "shared")) as ranks:
        timed(lambda: ranks.all_reduce(vector).wait(), nbytes, first=ranks.rank == 0)


def apart(congestion: str) -> list[str]:
    """Words to put before a command to run it in a separate network namespace with this congestion control.

    No words for the system's congestion control.
    """
    if congestion == SYSTEM:
        return []
    set_up = f"ip link set lo up && echo {congestion} > /proc/sys/net/ipv4/tcp_congestion_control"
    return ["unshare", "--net", "sh", "-c", f'{set_up} && exec "$@"', "sh"]


def congestions() -> list[str]:
    """Returns the congestion controls that can be chosen here, syncline's first. Prints which ones cannot."""
    tried = {each: subprocess.run([*apart(each), "true"], check=False, capture_output=True) for each in CONGESTIONS}  # noqa: S603 - our own command
    found = [each for each, attempt in tried.items() if attempt.returncode == 0]
    if missing := [each for each in CONGESTIONS if each not in found]:
        instead = "" if found else "; all use the system's"
        sys.stdout.write(f"congestion controls not available here: {', '.join(missing)}{instead}\n")
    return found or [SYSTEM]


def measure(program: list[str], congestion: str) -> Times:
    """Runs four processes of a program and returns their times."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS)}
    # A shell starts all of them, so that they share the namespace.
    start = " ".join(f'RANK={each} "$@" > $OUT.{each} & P{each}=$!;' for each in range(RANKS))
    wait = " && ".join(f"wait $P{each}" for each in range(RANKS))
    with tempfile.TemporaryDirectory() as folder:
        variables["OUT"] = f"{folder}/out"
        command = [*apart(congestion), "sh", "-c", f"{start} {wait}", "sh", *program]
        output_of(command, {**os.environ, **variables})
        return times_of(Path(folder, "out.0").read_text("utf-8"))


def main(given: list[str]) -> None:
    """Measures all libraries in turn, and prints a line for each case and library."""
    python, names = arguments(given, CASES)
    controls = congestions()
    with tempfile.TemporaryDirectory() as folder:
        mpi = with_mpi(folder)
        for name in names:
            nbytes = CASES[name]
            own = [sys.executable, __file__, "--rank", str(nbytes)]
            found = {what: Times() for what in ("shared memory", "TCP")}
            for _ in range(ROUNDS):
                found["shared memory"] += measure([*own, "shared"], controls[0])
                found["TCP"] += measure([*own, "tcp"], controls[0])
                for congestion in controls if python else ():
                    times = measure([str(python), "-W", "ignore", GLOO, str(nbytes)], congestion)
                    what = f"Gloo, {congestion}"
                    found[what] = found.get(what, Times()) + times
                if mpi:
                    times = times_of(output_of(["mpirun", *MPI, "-np", str(RANKS), mpi, *mpi_arguments(nbytes)]))
                    found["Open MPI"] = found.get("Open MPI", Times()) + times
            for what, times in found.items():
                sys.stdout.write(line(name, what, times, found) + "\n")
            sys.stdout.flush()


def line(name: str, what: str, times: Times, all_found: dict[str, Times]) -> str:
    """Returns the line to print for a case and one library."""
    sent = 2 * (RANKS - 1) * CASES[name]
    median = statistics.median(times.seconds)
    text = f"{name}, {what}: {1e3 * median:.3f} ms (least {1e3 * min(times.seconds):.3f}), "
    text += f"bus {sent / RANKS / median / 1e9:.3f} GB/s{cost(times, sent)}"
    if what != "shared memory":
        return text
    theirs = [statistics.median(each.seconds) for other, each in all_found.items() if other.startswith("Gloo")]
    if theirs:
        ratio = min(theirs) / median
        text += f", {ratio:.2f} times Gloo's at its better congestion control"
        text += f" {requirement(ratio, BAR)}" if name == "100MB" else ""
    if "Open MPI" in all_found:
        text += f", {statistics.median(all_found['Open MPI'].seconds) / median:.2f} times Open MPI's"
    return text


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(int(sys.argv[2]), sys.argv[3])
    else:
        main(sys.argv[1:])
