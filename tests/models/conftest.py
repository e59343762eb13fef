"""The published layer files, if they are available."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def published():
    """Reads a layer file of the astra2020 study: ``{name: (forward, input-grad, weight-grad bytes)}`` in file order."""
    root = Path(__file__).resolve().parents[2]
    shared = Path(os.environ.get("SYNCLINE_SHARED", root.parent / "shared"))
    folder = shared / "data" / "astra1" / "workload"
    if not folder.is_dir():
        pytest.skip("the published layer files are not here; set SYNCLINE_SHARED")

    def read(file, header=2):
        lines = (folder / file).read_text().splitlines()[header:]
        rows = [line.split() for line in lines if line.split()]
        return [(row[0], int(row[4]), int(row[7]), int(row[10])) for row in rows]

    return read
