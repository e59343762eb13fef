"""One rank: sums again and again, and says how it went in lines of JSON. Usage: worker.py [SETTINGS]."""

from __future__ import annotations

import json
import sys
import time
from array import array
from typing import Any

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Pace


def say(**what: Any) -> None:
    """A line for whoever watches."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Joins, and sums until something goes wrong or the steps are done."""
    settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    steps, elements = settings.pop("steps", 1 << 30), settings.pop("elements", 100_000)
    odd = settings.pop("odd", {})
    pace = Pace(**settings.pop("pace", {}))
    try:
        ranks = Communicator.join(pace=pace, **settings)
    except SynclineError as error:
        say(error=error.diagnostics[0], status=error.exit_status, at=time.time())
        return
    with ranks:
        values = array("f", [1.0]) * odd.get(str(ranks.rank), elements)
        for step in range(steps):
            before = values[0]
            try:
                ranks.all_reduce(values, keep=True).wait()
            except SynclineError as error:
                intact = all(value == before for value in values)
                say(error=error.diagnostics[0], status=error.exit_status, at=time.time(), intact=intact)
                return
            assert all(value == before * ranks.world for value in values)
            values[:] = array("f", [1.0 + step % 7]) * len(values)
            if step == 0:
                say(step=step)
        say(done=steps)


main()
