"""One rank that sums vectors repeatedly, and prints lines of JSON about it. Usage: worker.py [SETTINGS].

With ``renew`` (the arguments of :meth:`Communicator.renew`) it goes on after ranks are lost, and lets in waiting ranks.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from syncline.errors import SynclineError
from syncline.runtime import Communicator

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.options import of_rank


def say(**what: Any) -> None:
    """Prints a line of JSON for the test."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def agree(ranks: Communicator, step: int) -> int:
    """Returns the step at which all ranks go on: that of the rank that is furthest."""
    furthest = array("q", [step])
    ranks.all_reduce(furthest, "max", keep=True).wait()
    return furthest[0]


def renew(ranks: Communicator, step: int, how: dict[str, Any]) -> int:
    """Begins a new epoch, and returns the step at which ranks go on."""
    while True:
        ranks.renew(**how)
        say(ranks=ranks.ranks, epoch=ranks.epoch, at=time.time())
        # Another rank may be lost at once.
        with contextlib.suppress(SynclineError):
            return agree(ranks, step)


def main() -> None:
    """Joins, and sums until an error occurs or the steps are done."""
    settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    steps, elements = settings.pop("steps", 1 << 30), settings.pop("elements", 100_000)
    odd, again = settings.pop("odd", {}), settings.pop("renew", None)
    try:
        ranks = Communicator.join(elastic=again is not None, **of_rank(**settings))
    except SynclineError as error:
        say(error=error.diagnostics[0], status=error.exit_status, at=time.time())
        return
    with ranks:
        values = array("f", [0.0]) * odd.get(str(ranks.rank), elements)
        step = agree(ranks, 0) if ranks.epoch else 0
        first = step
        while step < steps:
            values[:] = array("f", [1.0 + step % 7]) * len(values)
            waits = array("i", [len(ranks.waiting)])
            # The value of the vector if the next operation fails and leaves it unchanged.
            kept = 1.0 + step % 7
            try:
                ranks.all_reduce(values, keep=True).wait()
                kept *= ranks.world
                if again is not None:
                    ranks.all_reduce(waits, "max", keep=True).wait()
            except SynclineError as error:
                intact = all(value == kept for value in values)
                say(error=error.diagnostics[0], status=error.exit_status, at=time.time(), intact=intact)
                if again is None:
                    return
                try:
                    step = renew(ranks, step, again)
                except SynclineError as error:
                    say(error=error.diagnostics[0], status=error.exit_status, at=time.time())
                    return
                continue
            assert all(value == (1.0 + step % 7) * ranks.world for value in values)
            if step == first:
                say(step=step)
            step += 1
            if again is not None and waits[0]:
                step = renew(ranks, step, again)
        say(done=steps)


main()
