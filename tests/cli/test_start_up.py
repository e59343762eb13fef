"""Commands start quickly: slow packages are imported only when needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pydantic", "rich", "typer", "click", "pandas", "numpy", "torch")


def imported(code: str) -> set[str]:
    """The packages that are loaded after running ``code``."""
    script = f"import sys\nsys.argv = ['syncline', '--version']\n{code}\nprint('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = next(line for line in done.stdout.splitlines() if line.startswith("LOADED"))
    return {name.split(".")[0] for name in loaded.split()[1:]}


@pytest.mark.parametrize("code", ["import syncline", "from syncline.cli import main; main()"])
def test_no_slow_package_is_imported(code: str) -> None:
    assert imported(code).isdisjoint(HEAVY)


def test_a_simulation_imports_no_data_frames() -> None:
    code = (
        "import syncline\n"
        "workload = {'collective': 'all_gather', 'bytes': '1kB'}\n"
        "syncline.simulate(workload=workload, fabric={'shape': 'FC(2)', 'rate': '1GB/s'})"
    )
    assert imported(code).isdisjoint(("pandas", "numpy", "typer"))
