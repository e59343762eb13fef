"""One rank of a job on hubs, for tests that kill, stop or restart ranks.

It prints lines of JSON: one with ``step`` after each step, and a last one with the outcome.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from pathlib import Path

from syncline.errors import SynclineError
from syncline.hub import Hub, Racks, Sgd

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.options import of_worker


def say(**what: object) -> None:
    """Prints a line of JSON."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Trains until all steps are done, or an error occurs."""
    settings = json.loads(sys.argv[1])
    steps, pause, elements = settings.pop("steps"), settings.pop("pause", 0.0), settings.pop("elements", 50_000)
    hubs = settings.pop("hubs")
    hubs = Racks(**hubs) if isinstance(hubs, dict) else hubs
    zeros = array("f", [0.0]) * elements
    status, error, contributors = 0, None, 0
    gradient = array("f", zeros)
    before = gradient
    try:
        keys = {"weights": gradient}
        with Hub.join(hubs, keys, optimizer=Sgd(lr=1.0), **of_worker(reduction="sum", **settings)) as hub:
            parameters = array("f", [0.0]) * elements
            hub.start({"weights": parameters})
            for step in range(hub.steps["weights"], steps):
                # Each rank's gradient adds 1 to every parameter.
                gradient = array("f", [-1.0]) * elements
                before = array("f", gradient)
                exchange = hub.push_pull("weights", gradient, keep=True)
                exchange.wait()
                contributors = exchange.contributors
                parameters = gradient
                say(step=step, contributors=contributors)
                time.sleep(pause)
            last = [min(parameters), max(parameters)]
    except SynclineError as raised:
        status, error, last = raised.exit_status, raised.diagnostics[0], []
    intact = gradient == before
    say(status=status, error=error, at=time.time(), intact=intact, last=last, contributors=contributors)
    sys.exit(status)


main()
