"""Printed texts with random bytes changed become fabrics that scenarios take, or are refused with diagnostics."""

from __future__ import annotations

import os
import random
import time

import pytest

import syncline
from syncline.clusters import Given, convert, recognise
from syncline.errors import SynclineError
from syncline.input.yaml import read
from tests.clusters.conftest import PRINTED
from tests.clusters.infiniband_text import Fat
from tests.clusters.test_simai import rails
from tests.clusters.test_slurm import BLOCKS, TREE
from tests.config.test_mutations import changed

CASES = int(os.environ.get("SYNCLINE_FUZZ", "60"))
TEXTS = {
    **{path.name: path.read_text("utf-8") for path in sorted(PRINTED.iterdir())},
    "ibnetdiscover": Fat(hosts=8, interfaces=4, leaves=8, hosts_per_leaf=4, spines=2, cables=2).text(),
    "simai": rails(2, spines=2) + 2_000 * "\n",  # empty lines may change: nothing else is free
    "tree": TREE,
    "blocks": BLOCKS,
}
RATES = {
    "--nvlink": "25GB/s",
    "--nic": "200Gb/s",
    "--pcie": "32GB/s",
    "--cpu": "20GB/s",
    "--uplink": "400Gb/s",
    "--scale-up": "450GB/s",
}


class Any(Given):
    """Options of which not all need be used."""

    def refuse_unused(self) -> None:
        pass


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", TEXTS)
def test_changed_texts_become_fabrics_or_are_refused(name, tmp_path):
    good, accepted = TEXTS[name].encode(), 0
    for case in range(CASES):
        data = changed(good, random.Random(f"{name} {case}"))
        (tmp_path / "printed.txt").write_bytes(data)
        started = time.monotonic()
        try:
            printed = recognise((tmp_path / "printed.txt").as_posix())
            if printed is None:
                continue
            made = convert(printed, Any({**RATES, "--nodes": str(1 + case % 2)}))
        except SynclineError as error:
            assert error.exit_status in (2, 3), (case, data)
            continue
        except BaseException as error:
            raise AssertionError((case, data)) from error
        assert time.monotonic() - started < 10, (case, data)
        fabric = read(made.text, "made.yaml").to_python()
        found = syncline.load({"workload": {"collective": "all_reduce", "bytes": "1MB"}, "fabric": fabric}).check()
        assert all(each["severity"] == "warning" for each in found), (case, data, found)
        accepted += 1
    assert accepted
