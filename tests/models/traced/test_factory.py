"""Scenarios that name a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

from syncline.config.load import Loaded, load
from syncline.errors import SynclineError

NETS = """\
import torch
from torch import nn

def net(width=4):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2))

def pair(batch=16):
    return nn.Linear(8, 4).half(), torch.zeros(batch, 8, dtype=torch.float16)

def words():
    return nn.Embedding(100, 8)

def broken():
    raise RuntimeError("no weights here")

def leaves():
    raise SystemExit(3)

def nothing():
    return 3

def takes(width, *, deep=False):
    return nn.Linear(8, width)

def talks():
    print("building")
    return nn.Linear(8, 4)

def lazy():
    return nn.LazyLinear(4)

def needs_values():
    rates = [each.item() for each in torch.linspace(0, 1, 2)]
    return nn.Sequential(nn.Linear(8, 2), nn.Dropout(rates[0]))

number = 3
"""
REST = "fabric: { shape: Ring(4), rate: 25GB/s }\ncompute: { model: systolic, memory: 900GB/s }\n"


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Loaded]:
    """A function that loads a scenario from another working directory; the scenario is beside the module of
    networks."""
    folder = tmp_path / "job"
    folder.mkdir()
    name = f"nets_{tmp_path.name}".replace("-", "_")
    (folder / f"{name}.py").write_text(NETS)
    (folder / f"{name}_bad.py").write_text("import absent_package_of_syncline\n")
    (folder / f"{name}_worse.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)

    def loaded(workload: str) -> Loaded:
        (folder / "s.yaml").write_text(f"workload: {{ {workload} }}\n{REST}".replace("nets", name))
        return load("job/s.yaml")

    return loaded


def test_a_module_becomes_its_layers(scenario: Callable[[str], Loaded]) -> None:
    text = "module: 'nets:net', arguments: { width: 5 }, inputs: [{ shape: [8] }], batch_per_npu: 6, iterations: 2"
    loaded = scenario(text)
    workload = loaded.resolved["workload"]
    assert (workload["model"], workload["types"]["parameters"], workload["iterations"]) == ("Sequential", "fp32", 2)
    assert [(each["name"], each["parameters"], each["inputs"]) for each in workload["layers"]] == [
        ("0", 45, 48),
        ("2", 12, 30),
    ]
    assert loaded.check() == []


def test_a_factory_may_give_its_inputs(scenario: Callable[[str], Loaded]) -> None:
    workload = scenario("module: 'nets:pair', arguments: { batch: 3 }").resolved["workload"]
    assert workload["types"]["parameters"] == "fp16"
    assert workload["layers"][0]["inputs"] == 24


def test_inputs_may_be_identifiers(scenario: Callable[[str], Loaded]) -> None:
    workload = scenario("module: 'nets:words', inputs: [{ shape: [7], type: int64 }]").resolved["workload"]
    assert workload["layers"][0]["outputs"] == 32 * 7 * 8


def test_a_factory_that_needs_values_must_be_built_for_real(scenario: Callable[[str], Loaded]) -> None:
    text = "module: 'nets:needs_values', inputs: [{ shape: [8] }]"
    assert scenario(f"{text}, build: real").check() == []
    with pytest.raises(SynclineError, match="build: real"):
        scenario(text)


def test_output_of_a_factory_goes_to_stderr(
    scenario: Callable[[str], Loaded], capsys: pytest.CaptureFixture[str]
) -> None:
    scenario("module: 'nets:talks', inputs: [{ shape: [8] }]")
    assert capsys.readouterr() == ("", "building\n")


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("module: nets", "not a valid name of a factory"),
        ("module: 'nets:net:x'", "not a valid name of a factory"),
        ("module: 'absent_of_syncline:net'", "there is no Python module `absent_of_syncline`"),
        ("module: 'nets_bad:net'", "ModuleNotFoundError"),
        ("module: 'nets_worse:net'", "ZeroDivisionError: division by zero"),
        ("module: 'nets:nett'", "did you mean `net`?"),
        # No name is similar: the error lists the module's own names before imported ones.
        ("module: 'nets:entirely_different'", "allowed: broken, "),
        ("module: 'nets:number'", "cannot be called"),
        ("module: 'nets:nothing'", "does not return a PyTorch module"),
        ("module: 'nets:broken'", "RuntimeError: no weights here"),
        ("module: 'nets:leaves'", "SystemExit: 3"),
        ("module: 'nets:net'", "the inputs of the module are unknown"),
        ("module: 'nets:net', arguments: { widht: 3 }, inputs: [{ shape: [8] }]", "did you mean `width`?"),
        ("module: 'nets:takes', inputs: [{ shape: [8] }]", "missing a required argument: 'width'"),
        ("module: 'nets:takes', arguments: { width: 3, depe: 1 }, inputs: [{ shape: [8] }]", "allowed: width, deep"),
        ("module: 'nets:lazy', inputs: [{ shape: [8] }]", "the parameters of LazyLinear have no shape yet"),
        ("module: 'nets:net', inputs: [{ shape: [8], type: int64 }]", "are of different types: float32, int64"),
        ("module: 'nets:net', inputs: [{ shape: [8] }], costs: { rleu: 2 }", "the module calls no operator `rleu`"),
        ("module: 'nets:net', inputs: [{ shape: [9] }]", "forward pass of Sequential.0 fails"),
        ("module: 'nets:net', inputs: [{ shape: [8] }], sharding: { 'x.*': row }", "no layer matches `x.*`"),
        ("module: 'nets:net', inputs: [{ shape: [8], type: float31 }]", "did you mean `float32`?"),
        ("module: 'nets:net', inputs: [{ shape: [0] }]", "at least 1"),
        ("module: 'nets:pair', batch_per_npu: 5", "found `5`, allowed: 16"),
        ("module: 'nets:net', modul: 3", "unknown key `modul`"),
    ],
)
def test_invalid_workloads_are_refused(workload: str, expected: str, scenario: Callable[[str], Loaded]) -> None:
    with pytest.raises(SynclineError) as caught:
        scenario(workload)
    assert expected in " ".join(str(caught.value).split())
    assert all(each["place"]["file"] == "job/s.yaml" for each in caught.value.diagnostics)
    assert caught.value.exit_status == 2
