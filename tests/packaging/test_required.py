"""If CI says that a machine has what a test needs, skipping the test is a failure."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import ROOT

TEST = """
import pytest

@pytest.mark.skipif(True, reason="PyTorch is not installed")
def test_torch():
    pass

def test_other():
    pytest.skip("there is no GPU")
"""


def outcome(tmp_path, requires):
    """The last output line of a pytest run with tests that skip themselves."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_makereport\n")
    (tmp_path / "test_it.py").write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "SYNCLINE_REQUIRES": requires, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip().splitlines()[-1]


def test_a_skip_for_lack_of_a_requirement_fails(tmp_path):
    assert "1 skipped, 1 error" in outcome(tmp_path, "torch")
    assert "1 skipped, 1 error" in outcome(tmp_path, "namespaces torch")


def test_other_skips_are_not_failures(tmp_path):
    assert "2 skipped" in outcome(tmp_path, "")
    assert "2 skipped" in outcome(tmp_path, "namespaces")
