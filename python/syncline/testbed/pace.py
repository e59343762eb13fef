"""Measures the costs of messages and bytes with the runtime itself: a program for two hosts of a testbed.

``pace.py exchange RANK FIRST OWN CONTROL`` runs one of two ranks. Rank 0 is at address ``FIRST``, this rank at ``OWN``.
They run all-reduces of 4 bytes one after the other, each of which is a message from rank 1 to rank 0 and one back. Rank
1 prints the seconds of each exchange. With ``pace.py stream RANK FIRST OWN CONTROL``, rank 1 sends vectors that rank 0
combines with its own. Rank 0 prints the bytes per second of each vector.
"""

from __future__ import annotations

import json
import sys
import time
from array import array

from syncline.runtime import Communicator, Meeting, Plans, Resources, Rule, Security

PORT = 29_498
WARM_UP, EXCHANGES = 50, 400
STREAMED, STREAMS = 16 << 20, 8
"""The bytes of a vector, and the number of vectors."""


def exchange(ranks: Communicator) -> list[float]:
    """Returns the seconds of each exchange of 4 bytes."""
    word, times = array("f", [0.0]), []
    for step in range(WARM_UP + EXCHANGES):
        began = time.perf_counter()
        ranks.all_reduce(word).wait()
        times += [time.perf_counter() - began] if step >= WARM_UP else []
    return times


def stream(ranks: Communicator) -> list[float]:
    """Returns the bytes per second of each vector that rank 0 combined."""
    vector, rates = array("f", bytes(STREAMED)), []
    for step in range(2 + STREAMS):
        ranks.barrier().wait()
        began = time.perf_counter()
        ranks.reduce(vector).wait()
        rates += [STREAMED / (time.perf_counter() - began)] if step >= 2 else []
    return rates


def main(what: str, rank: int, first: str, own: str, control: str) -> None:
    """Joins the other rank, measures, and prints the result."""
    rules = [Rule("all_reduce", "parameter_server(placement=CC)"), Rule("reduce", "tree(shape=binomial)")]
    joined = Communicator.join(
        rank,
        2,
        f"{first}:{PORT}",
        meeting=Meeting(interfaces=[own]),
        security=Security(insecure=True),
        plans=Plans(rules=rules),
        resources=Resources(shared_memory=False, congestion=control),
    )
    with joined as ranks:
        found = exchange(ranks) if what == "exchange" else stream(ranks)
    if rank == (1 if what == "exchange" else 0):
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    kind, number, leader, here, by = sys.argv[1:]
    main(kind, int(number), leader, here, by)
