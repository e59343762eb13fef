"""Workloads of PyTorch modules are saved as their layers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import syncline
from syncline.config.load import load
from syncline.design.bandwidth import portable, result_files
from syncline.design.bandwidth.candidate import request
from syncline.design.bandwidth.search_rates import search
from syncline.input.node import from_python
from syncline.input.source import Source, from_file

ELSEWHERE = {"compute": {"model": "roofline", "accelerator": "A100"}, "fabric": {"shape": "Ring(4)", "rate": "1GB/s"}}


@pytest.mark.parametrize(
    "workload",
    [
        {"model": "decoder", "layers": 2, "sequence": 64, "micro_batches": 3, "parallel": {"tensor": 2, "zero": 1}},
        {"model": "resnet50", "iterations": 2, "precision": "fp16", "optimizer": "none"},
        {"model": "dlrm", "parallel": {"data": "all"}},
    ],
)
def test_saved_layers_read_back_unchanged(workload: dict[str, object]) -> None:
    resolved = load({"workload": workload, **ELSEWHERE}).resolved["workload"]
    again = load({"workload": portable.layers(workload, resolved), **ELSEWHERE}).resolved["workload"]
    assert again == {key: value for key, value in resolved.items() if key != "model"}


def test_the_scenario_of_the_winner_needs_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This test replaces tracing with built-in layers; the next test uses PyTorch itself."""
    from syncline.models import registry, traced
    from syncline.models.traced import factory

    built = registry.layers("mlp", precision="fp16")
    found_in = SimpleNamespace(layers=built, precision="fp16", name="net", batch_per_npu=32)
    monkeypatch.setattr(factory, "build", lambda *_, **__: (None, ()))
    monkeypatch.setattr(traced, "from_torch", lambda *_, **__: found_in)
    workload = {"module": "only_here:net", "iterations": 2, "parallel": {"data": "all", "overlap": "none"}}
    spec = {"name": "net", **ELSEWHERE, "workload": workload, "budget": {"rate_per_npu": "10GB/s"}}
    found = search(request(Source(from_python({**spec, "fabric": {"shape": "Ring(2)_Switch(2)"}}))))
    monkeypatch.undo()
    result_files.save(found, str(tmp_path / "found"))
    text = (tmp_path / "found" / "scenario.yaml").read_text("utf-8")
    assert "module" not in text
    again = syncline.simulate(tmp_path / "found" / "scenario.yaml")
    assert again.summary.step_time_s == found.results[0].summary.step_time_s
    assert again.summary.iterations == 2


def test_the_winner_of_a_module_runs_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "only_here.py").write_text(
        "from torch import nn\n\n\n"
        "def net(width):\n"
        "    return nn.Sequential(nn.Linear(width, width), nn.Linear(width, 8))\n",
        "utf-8",
    )
    (here / "asked.yaml").write_text(
        "workload: { module: 'only_here:net', arguments: { width: 512 }, inputs: [{ shape: [512] }], iterations: 2 }\n"
        "compute: { model: roofline, accelerator: A100 }\n"
        "fabric: { shape: Ring(2)_Switch(2) }\n"
        "budget: { rate_per_npu: 10GB/s }\n",
        "utf-8",
    )
    found = search(request(from_file(str(here / "asked.yaml"))))
    result_files.save(found, str(there / "found"))
    (here / "only_here.py").unlink()
    monkeypatch.chdir(there)
    again = syncline.simulate("found/scenario.yaml")
    assert again.summary.step_time_s == found.results[0].summary.step_time_s
