"""Commands start quickly: slow packages are imported only when needed."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

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


def test_a_command_imports_the_arguments_of_its_own_group_only() -> None:
    from syncline.cli.app import GROUPS

    script = (
        "import sys\nfrom syncline.cli.app import command\n"
        "command().main(['convert', '--help'], standalone_mode=False)\n"
        "print('LOADED', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert [each for each in GROUPS if f"syncline.cli.arguments.{each}" in loaded] == ["scenarios"]


def test_each_file_of_arguments_holds_the_commands_that_are_listed_for_it() -> None:
    from syncline.cli import arguments
    from syncline.cli.app import GROUPS

    files = {each.stem for each in Path(arguments.__path__[0]).glob("[a-z]*.py")}
    assert files == {*GROUPS, "shared"}
    for file, names in GROUPS.items():
        group = typer.main.get_group(import_module(f"syncline.cli.arguments.{file}").app)
        assert names == (group.name,) or names == tuple(group.commands)


def test_a_simulation_imports_no_data_frames() -> None:
    code = (
        "import syncline\n"
        "workload = {'collective': 'all_gather', 'bytes': '1kB'}\n"
        "syncline.simulate(workload=workload, fabric={'shape': 'FC(2)', 'rate': '1GB/s'})"
    )
    assert imported(code).isdisjoint(("pandas", "numpy", "typer"))
