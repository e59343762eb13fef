"""The wheel works in an empty virtual environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.timeout(1800)
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    subprocess.run(["make", "wheel"], cwd=ROOT, check=True)
    wheel = max((ROOT / "dist").glob("syncline-*.whl"), key=lambda path: path.stat().st_mtime)
    assert "-cp311-abi3-" in wheel.name
    subprocess.run([sys.executable, "-m", "venv", "alone"], cwd=tmp_path, check=True)
    binaries = tmp_path / "alone" / "bin"
    subprocess.run([binaries / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
    subprocess.run([binaries / "syncline", "doctor"], cwd=tmp_path, check=True)
    subprocess.run([binaries / "syncline", "init", "demo"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [binaries / "syncline", "simulate", "demo.yaml"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "Bottleneck: " in done.stdout
