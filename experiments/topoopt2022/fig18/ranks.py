"""Program of one rank of the prototype, on a host of a testbed. Rank 0 prints the times or losses as JSON.

``ranks.py PLAN BYTES STEPS`` sums a vector repeatedly. ``ranks.py PLAN train STEPS`` trains a linear model on data that
each rank has a part of, and prints its loss after each step.
"""

from __future__ import annotations

import json
import random
import sys
import time
from array import array

from syncline.runtime import Communicator, Plans, Resources, Rule, Security

MESSAGE = 64 << 10
"""Bytes of a message."""
WARM_UP = 2
"""Untimed exchanges at the beginning, which open the connections and their windows."""
FEATURES, SAMPLES, RATE = 64, 32, 0.05
"""Size of the linear model, samples of a rank in a step, and rate of learning."""


def times(ranks: Communicator, nbytes: int, steps: int) -> list[float]:
    """Seconds of each all-reduce after the warm-up."""
    vector = array("f", bytes(nbytes // 4 * 4))
    found = []
    for step in range(WARM_UP + steps):
        began = time.perf_counter()
        ranks.all_reduce(vector).wait()
        found += [time.perf_counter() - began] if step >= WARM_UP else []
    return found


def losses(ranks: Communicator, steps: int) -> list[float]:
    """Loss of a linear model after each step of gradient descent, with gradients and losses summed over all ranks."""
    truth = random.Random(0)  # noqa: S311 - data of an example
    wanted = [truth.gauss(0, 1) for _ in range(FEATURES)]
    drawn = random.Random(1 + ranks.rank)  # noqa: S311 - data of an example
    weights = [0.0] * FEATURES
    found = []
    for _ in range(steps):
        sums = array("f", bytes(4 * (FEATURES + 1)))
        for _ in range(SAMPLES):
            inputs = [drawn.gauss(0, 1) for _ in range(FEATURES)]
            error = sum((w - v) * x for w, v, x in zip(weights, wanted, inputs, strict=True))
            sums[FEATURES] += error * error
            for at, x in enumerate(inputs):
                sums[at] += error * x
        ranks.all_reduce(sums).wait()
        count = SAMPLES * ranks.world
        weights = [w - RATE * gradient / count for w, gradient in zip(weights, sums, strict=False)]
        found.append(sums[FEATURES] / count)
    return found


def main() -> None:
    """Runs the rank."""
    plan, what, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with Communicator.join(
        plans=Plans(rules=[Rule("all_reduce", plan, message=MESSAGE)]),
        security=Security(insecure=True),
        resources=Resources(congestion="cubic"),
    ) as ranks:
        found = losses(ranks, steps) if what == "train" else times(ranks, int(what), steps)
        if ranks.rank == 0:
            sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
