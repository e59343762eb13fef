"""PyTorch modules as models of a search for strategy and topology."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

from syncline.design.joint import read, search
from syncline.errors import SynclineError

NETS = """\
import torch
from torch import nn

def net(width=32):
    return nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 8))

def pair(batch=6):
    return net(), torch.zeros(batch, 16)

def number():
    return net(), 3
"""


def spec(folder: Path, module: dict[str, Any], **changes: Any) -> str:
    (folder / "joint_nets.py").write_text(NETS, "utf-8")
    path = folder / "spec.yaml"
    given = {"module": module, "servers": 4, "degree": 2, "link": "10Gb/s", "search": {"proposals": 100}}
    path.write_text(json.dumps({**given, **changes}), "utf-8")
    return str(path)


def flop(path: str) -> list[int]:
    """Forward operations of an accelerator, if all servers share the samples."""
    operators = read(path).graph["operators"]
    return [int(each["choices"][-1]["forward"]["ops"]["flop"].removesuffix("FLOP")) for each in operators]


def test_a_module_is_a_chain_of_its_layers(tmp_path: Path):
    path = spec(tmp_path, {"factory": "joint_nets:net", "inputs": [{"shape": [16]}]}, parameters={"batch": 8})
    request = read(path)
    assert (request.name, request.model.batch) == ("Sequential", 8)
    assert request.model.parameters == 16 * 32 + 32 + 32 * 8 + 8
    # 2 FLOP for each multiply-add, and 1 for each element of the ReLU.
    assert flop(path) == [8 * (2 * 16 * 32 + 32), 8 * 2 * 32 * 8]
    assert search(request).answer.step_s > 0
    # Matrices are split by columns.
    split = read(spec(tmp_path, {"factory": "joint_nets:net", "inputs": [{"shape": [16]}]}, split_parameters=True))
    assert [operator.features for operator in split.model.operators] == [32, 8]


def test_the_inputs_of_the_factory_give_the_batch(tmp_path: Path):
    path = spec(tmp_path, {"factory": "joint_nets:pair", "arguments": {"batch": 5}})
    assert read(path).model.batch == 5
    assert flop(path) == [5 * (2 * 16 * 32 + 32), 5 * 2 * 32 * 8]
    other = spec(tmp_path, {"factory": "joint_nets:pair"}, parameters={"batch": 10})
    assert flop(other) == [10 * (2 * 16 * 32 + 32), 10 * 2 * 32 * 8]


@pytest.mark.parametrize(
    ("module", "changes", "message", "key"),
    [
        ({"factory": "joint_nets:net"}, {}, "the inputs of the module are unknown", "module.inputs"),
        ({"factory": "joint_nets:number"}, {}, "not tensors with a first dimension", "module.inputs"),
        ({"factory": "joint_nets:nett"}, {}, "has no `nett`", "module.factory"),
        ({"factory": "joint_nets:net", "arguments": {"wide": 3}}, {}, "does not take these", "module.arguments"),
        ({"factory": "joint_nets:pair"}, {"parameters": {"layers": 3}}, "layers", "parameters.layers"),
        ({"factory": "joint_nets:pair"}, {"parameters": {"batch": 1.5}}, "whole number", "parameters.batch"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, module: dict[str, Any], changes: dict[str, Any], message: str, key: str):
    with pytest.raises(SynclineError) as caught:
        _ = read(spec(tmp_path, module, **changes)).model
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic["key"] == key
    assert message in str(caught.value)
