"""What a change of plans costs, compared with a small all-reduce.

Ranks on this machine sum small vectors, in rounds with and without changes of plans. What all-reduces of a round take
in addition, over the number of its changes, is the cost of a change. It must be less than one small all-reduce. Changes
are made one at a time, each some time after the one before was decided.

In a training job there is a pause between two all-reduces, for which ranks sleep here, as they do while an accelerator
computes. Without pauses, all cores are busy with all-reduces, and every instruction of a change delays one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from array import array

from requirement import print_out, requirement

from syncline.runtime import Communicator, Plans, Rule

RANKS = 4
NBYTES = 4096
OPERATIONS = {"with pauses": 400, "without pauses": 4000}
"""All-reduces of a round."""
COMPUTE_S = 0.001
"""Pause between two all-reduces."""
ROUNDS = 7
PAUSE_S = 0.01
"""Pause between two changes."""
PORT = 29437


def _round(ranks: Communicator, pauses: str, *, change: bool) -> tuple[float, int]:
    """The time of the all-reduces of a round in seconds, and the number of its changes of plans."""
    values = array("f", [0.0] * (NBYTES // 4))
    done, changes = threading.Event(), 0

    def make_changes() -> None:
        nonlocal changes
        while not done.wait(PAUSE_S):
            # The same plan in another order: the operations themselves cost the same by both editions.
            order = list(range(ranks.world)) if changes % 2 else list(reversed(range(ranks.world)))
            ranks.change_plans(Plans(rules=[Rule("all_reduce", "direct")], order=order))
            changes += 1

    ranks.barrier().wait()
    thread = threading.Thread(target=make_changes)
    if change and ranks.rank == 0:
        thread.start()
    took = 0.0
    for _ in range(OPERATIONS[pauses]):
        if pauses == "with pauses":
            time.sleep(COMPUTE_S)
            # Ranks wake at different times, which is not part of the all-reduce.
            ranks.barrier().wait()
        began = time.perf_counter()
        ranks.all_reduce(values).wait()
        took += time.perf_counter() - began
    done.set()
    if thread.is_alive():
        thread.join()
    ranks.barrier().wait()
    return took, changes


def _rank() -> None:
    with Communicator.join(plans=Plans(rules=[Rule("all_reduce", "direct")])) as ranks:
        rounds = {
            pauses: [(_round(ranks, pauses, change=False), _round(ranks, pauses, change=True)) for _ in range(ROUNDS)]
            for pauses in OPERATIONS
        }
    if ranks.rank == 0:
        print_out(json.dumps(rounds))


def main() -> None:
    """Prints the cost of a change, and whether it is as required."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().rank:
        _rank()
        return
    common = {**os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": f"127.0.0.1:{PORT}"}
    processes = [
        subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, __file__, "--rank"], env={**common, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(RANKS)
    ]
    said = [process.communicate()[0] for process in processes]
    for pauses, rounds in json.loads(said[0]).items():
        small = statistics.median(plain / OPERATIONS[pauses] for (plain, _), _ in rounds)
        cost = statistics.median((changed - plain) / max(changes, 1) for (plain, _), (changed, changes) in rounds)
        changes = sum(changes for _, (_, changes) in rounds)
        ratio = cost / small
        verdict = requirement(ratio, 1.0, least=False) if pauses == "with pauses" else ""
        print_out(
            f"{pauses}: all-reduce of {NBYTES} B on {RANKS} ranks {small * 1e6:.0f} us, change of plans"
            f" {cost * 1e6:.0f} us ({changes} changes), {ratio:.2f} all-reduces {verdict}"
        )


if __name__ == "__main__":
    main()
