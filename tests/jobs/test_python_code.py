"""Configurations that are Python code are refused by name, and overrides of a recipe ask for the model once."""

from __future__ import annotations

import pytest

from tests.conftest import Cli


@pytest.mark.parametrize(
    ("software", "named", "remedy"),
    [
        ("torchtitan", "torchtitan", "TOML"),
        ("bridge", "Megatron-Bridge", "run_config.yaml"),
        ("nemo", "NeMo", "NeMo 1"),
    ],
)
def test_python_code_is_refused(cli: Cli, software: str, named: str, remedy: str) -> None:
    done = cli("convert", software, cli.write("recipe.py", "from x import y\n"), "-o", "job.yaml")
    assert done.returncode == 3
    assert f"this is Python code of {named}, which is not run" in done.stderr
    assert remedy in done.stderr
    assert cli("convert", software, "nosuch.py", "-o", "job.yaml").stderr.startswith("error[SL0105]: no such file")


def test_a_file_of_overrides_asks_for_the_model_alone(cli: Cli) -> None:
    file = cli.write("over.yaml", "model: { seq_length: 4096 }\ntrain: { micro_batch_size: 1, global_batch_size: 8 }\n")
    done = cli("convert", "bridge", file, "--gpus", "8", "-o", "job.yaml")
    assert done.returncode == 2
    assert done.stderr.count("error[") == 1
    assert "this file overrides a recipe" in done.stderr and "--model" in done.stderr
    assert cli("convert", "bridge", file, "--gpus", "8", "--model", "llama3-8b", "-o", "job.yaml").returncode == 0
