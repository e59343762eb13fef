"""Hubs on a slow network, on an emulated cluster."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.testbed.specs import needs_namespaces

WORKER = Path(__file__).parent / "leaver.py"

SLOW = """\
schema: syncline-testbed/1
name: slow-{number}
fabric:
  npus: [hub, worker]
  switches: [tor]
  links:
    - {{ from: hub, to: tor, rate: 10Mb/s }}
    - {{ from: worker, to: tor, rate: 10Mb/s }}
"""


@needs_namespaces
def test_a_rank_that_leaves_slowly_is_not_lost(cli):
    """Fault: a rank leaves while its last pushes take seconds -> it counts as left, and not as lost"""
    bed = cli.write("bed.yaml", SLOW.format(number=os.getpid()))
    run = cli("testbed", "run", bed, "--", sys.executable, WORKER)
    assert run.returncode == 0, run.stderr
    reported = next(json.loads(line.partition("] ")[2]) for line in run.stdout.splitlines() if line.startswith("[0] "))
    assert reported["took_s"] > 2.0
    assert [each["event"] for each in reported["events"]] == ["job_opened", "rank_joined", "rank_left", "job_ended"]
