"""The bundled script matches its source."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

SOURCE = ROOT / "web" / "report"
ASSETS = ROOT / "python" / "syncline" / "report" / "assets"
BUILT = ("report.js", "report.css", "report.js.LICENSES.txt")


def test_the_licences_of_bundled_packages_are_included() -> None:
    text = (ASSETS / "report.js.LICENSES.txt").read_text("utf-8")
    for name in ("echarts 6.1.0", "zrender 6.1.0", "tslib 2.3.0", "Apache License", "BSD 3-Clause", "Apache ECharts"):
        assert name in text


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.timeout(600)
def test_a_build_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("node_modules"))
    installed = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"npm cannot install: {installed.stderr[-300:]}")
    subprocess.run(["npm", "run", "check"], cwd=folder, check=True)
    subprocess.run(["node", "build.mjs", tmp_path / "built"], cwd=folder, check=True)
    for name in BUILT:
        assert (tmp_path / "built" / name).read_bytes() == (ASSETS / name).read_bytes(), f"{name}: run `make web`"
