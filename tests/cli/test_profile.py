"""``syncline profile``."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from tests.conftest import Cli

NETS = """\
import time
import torch
from torch import nn

def net(width=16):
    return nn.Sequential(nn.Linear(8, width), nn.BatchNorm1d(width), nn.ReLU(inplace=True), nn.Linear(width, 4))

def pair(batch=6):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 8)
            self.inner = nn.Linear(8, 8)
            self.head = nn.Linear(8, 20, bias=False)
            self.head.weight = self.embed.weight
        def forward(self, x):
            y = self.embed(x)
            y = y + nn.functional.scaled_dot_product_attention(y, y, self.inner(y))
            y += 1
            return self.head(y).softmax(-1)
    return Words(), torch.zeros(batch, 5, dtype=torch.long)

def recurrent():
    return nn.LSTM(4, 4), torch.zeros(3, 2, 4)

def sleeps():
    print("ready", flush=True)
    time.sleep(60)

def nothing():
    return 3

def lazy():
    return nn.LazyLinear(4)

def leaves():
    class Leaves(nn.Module):
        def forward(self, x):
            raise SystemExit(3)
    return Leaves()
"""
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.fixture
def nets(cli: Cli) -> Cli:
    cli.write("nets.py", NETS)
    return cli


@needs_torch
@pytest.mark.parametrize("file", ["t.yaml", "t.csv"])
def test_a_profiled_table_works_as_a_compute_model(file: str, nets: Cli) -> None:
    from syncline.models.times import read

    arguments = ["--argument", "width=32", "--input", "8", "--batch", "3", "--repeats", "4", "--warm-up", "1"]
    done = nets("profile", "nets:net", "--out", file, *arguments)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Measured 2 layers of Sequential" in done.stderr
    table, _ = read(str(nets.folder / file))
    passes = [(each.layer, each.pass_) for each in table.times]
    # The gradient of the input data is not needed.
    assert passes == [
        *(("0", key) for key in ("forward", "weight_grad", "update")),
        *(("3", key) for key in ("forward", "input_grad", "weight_grad", "update")),
    ]
    assert all(each.repeats == 4 and each.q1 and each.q3 for each in table.times)
    if file == "t.yaml":
        assert (table.model, table.batch_per_npu, table.data_type) == ("Sequential", 3, "fp32")
        assert table.software.startswith("PyTorch 2.")
        assert "threads" in table.device
    scenario = f"""\
workload: {{ module: 'nets:net', arguments: {{ width: 32 }}, inputs: [{{ shape: [8] }}], batch_per_npu: 3 }}
compute: {{ model: table, file: {file}, compute_power: 2 }}
fabric: {{ shape: Ring(2), rate: 1GB/s }}
"""
    nets.write("s.yaml", scenario)
    simulated = nets("simulate", "s.yaml")
    assert simulated.returncode == 0, simulated.stderr
    assert f"compute measured ({file}" in " ".join(simulated.stdout.split())
    if file == "t.yaml":
        nets.write("s.yaml", scenario.replace("batch_per_npu: 3", "batch_per_npu: 4"))
        assert "a different batch_per_npu" in nets("check", "s.yaml").stderr


@needs_torch
def test_attention_tied_weights_and_in_place_operations_are_measured(nets: Cli) -> None:
    from syncline.models.times import read

    done = nets("profile", "nets:pair", "--out", "t.yaml", "--repeats", "1", "--warm-up", "0")
    assert done.returncode == 0, done.stderr
    table, _ = read(str(nets.folder / "t.yaml"))
    assert [(each.layer, each.pass_) for each in table.times] == [
        *(("embed", key) for key in ("forward", "weight_grad", "update")),
        *(("inner", key) for key in ("forward", "input_grad", "weight_grad", "update")),
        # It shares the embedding's weights; the embedding updates them.
        *(("embed#2", key) for key in ("forward", "input_grad", "weight_grad")),
    ]
    nets.write(
        "s.yaml",
        "workload: { module: 'nets:pair' }\ncompute: { model: table, file: t.yaml }\n"
        "fabric: { shape: Ring(2), rate: 1GB/s }\n",
    )
    assert nets("check", "s.yaml").returncode == 0


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["nets:nett", "--out", "t.yaml"], 2, "did you mean `net`?"),
        (["nets:nothing", "--out", "t.yaml"], 2, "does not return a PyTorch module"),
        (["nets:net", "--out", "t.yaml"], 2, "the inputs of the module are unknown"),
        (["nets:net", "--out", "t.yaml", "--input", "9"], 2, "the forward pass of Sequential.0 fails"),
        (["nets:net", "--out", "t.yaml", "--input", "8x"], 2, "not a valid input shape"),
        (["nets:net", "--out", "t.yaml", "--input", "8:float31"], 2, "did you mean `float32`?"),
        (["nets:net", "--out", "t.yaml", "--input", "8", "--argument", "width"], 2, "not of the form KEY=VALUE"),
        (["nets:net", "--out", "t.yaml", "--input", "8", "--argument", "width=[1"], 3, "not well-formed YAML"),
        (["nets:net", "--out", "t.yaml", "--input", "8", "--device", "cudda"], 2, "no such device"),
        (["nets:net", "--out", "t.yaml", "--input", "8", "--device", "cuda:99"], 2, "no such device"),
        (["nets:net", "--out", "t.yaml", "--input", "8", "--repeats", "0"], 2, "--repeats"),
        (["nets:net", "--out", "t.yaml", "--input", "8", "--repeats", "1000001"], 2, "--repeats"),
        (["nets:net", "--out", "t.yaml", "--input", "8", "--argument", "widht=3"], 2, "did you mean `width`?"),
        (["nets:lazy", "--out", "t.yaml", "--input", "8"], 2, "have no shape yet"),
        (["nets:leaves", "--out", "t.yaml", "--input", "8"], 2, "SystemExit: 3"),
        (["nets:pair", "--out", "t.yaml", "--batch", "3"], 2, "--batch needs --input"),
        (["nets:recurrent", "--out", "t.yaml"], 2, "cannot be measured layer by layer"),
        (["nets:net", "--out", "none/t.yaml", "--input", "8"], 3, "the folder does not exist"),
        (["nets:net", "--out", ".", "--input", "8"], 3, "it is a folder"),
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str], status: int, expected: str, nets: Cli) -> None:
    done = nets("profile", *arguments)
    assert done.returncode == status, done.stderr
    assert expected in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert not (nets.folder / "t.yaml").exists()


@needs_torch
def test_ctrl_c_saves_nothing(nets: Cli) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "syncline", "profile", "nets:sleeps", "--out", "t.yaml"],
        cwd=nets.folder,
        env=nets.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stderr
    assert process.stderr.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted: no results were saved" in err
    assert "Traceback" not in err
    assert not (nets.folder / "t.yaml").exists()


ABSENT = """\
import importlib.util as u
real = u.find_spec
u.find_spec = lambda name, *a: None if name == "torch" else real(name, *a)
"""


@pytest.mark.parametrize("command", ["profile", "check"])
def test_without_pytorch_the_error_says_how_to_install_it(command: str, cli: Cli) -> None:
    cli.write("sitecustomize.py", ABSENT)
    cli.write("s.yaml", "workload: { module: 'nets:net' }\nfabric: { shape: Ring(2), rate: 1GB/s }\n")
    arguments = ["nets:net", "--out", "t.yaml", "--input", "8"] if command == "profile" else ["s.yaml"]
    done = cli(command, *arguments, PYTHONPATH=str(cli.folder))
    assert done.returncode == (2 if command == "profile" else 1)
    assert "error[SL0902]: PyTorch is not installed" in done.stderr
    assert 'pip install "torch>=2.14"' in " ".join(done.stderr.split())
