"""Runs the programs of the guide ``run-collectives.md``."""

from __future__ import annotations

from tests.runtime.guides import answers
from tests.runtime.jobs import free_port


def test_the_first_program_prints_the_sum(tmp_path):
    said = answers("run-collectives.md", "sum.py", tmp_path, 2, MASTER_ADDR=f"127.0.0.1:{free_port()}")
    assert said == [("0 2.0\n", ""), ("1 2.0\n", "")]


def test_the_program_of_messages_and_groups_prints_its_message(tmp_path):
    said = answers("run-collectives.md", "pairs.py", tmp_path, 2, MASTER_ADDR=f"127.0.0.1:{free_port()}")
    assert said == [("", ""), ("0 hello\n", "")]
