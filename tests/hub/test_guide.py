"""Runs the program of the guide ``parameter-hub.md``."""

from __future__ import annotations

from syncline.hub import Service
from tests.runtime.guides import answers


def test_the_first_program_prints_what_the_guide_says(tmp_path):
    with Service(port=0) as service:
        outputs = answers("parameter-hub.md", "train.py", tmp_path, 2, SYNCLINE_HUBS=service.addresses[0])
    assert outputs == [("0 9.55\n", ""), ("1 9.55\n", "")]
