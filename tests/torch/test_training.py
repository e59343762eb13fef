"""Training on generated data: losses over the backend, over the hook and with FSDP2 are the same as over Gloo."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import pytest

from syncline.hub import HubResources, Service
from tests.torch.ranks import ROOT, end, run, start

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

NEAR = 1e-4
"""Relative tolerance of losses after twelve steps: sums of floats in another order differ in their last digits."""


WAYS = ["gloo+ddp", "gloo+hook", "gloo+hub", "gloo+optimizer", "syncline+ddp", "syncline+hook", "syncline+fsdp"]


@cache
def losses(world, *ways):
    """Returns the losses of each way of training, by rank and step."""
    with Service(port=0, resources=HubResources(cores=2)) as service:
        outs = run(world, "train", *ways, SYNCLINE_HUBS=service.addresses[0])
    said = [[[float.fromhex(value) for value in line.split()] for line in out.splitlines()] for out in outs]
    return [list(ranks) for ranks in zip(*said, strict=True)]


def test_losses_are_those_of_gloo():
    gloo, *others = losses(3, *WAYS, "syncline+ddp")
    assert [len(each) for each in gloo] == [12] * 3
    assert gloo[0][-1] < 0.8 * gloo[0][0]
    for way, found in zip(WAYS[1:], others, strict=False):
        for ours, theirs in zip(found, gloo, strict=True):
            assert ours == pytest.approx(theirs, rel=NEAR), way
    # With in_order, a second run gives the same bits.
    assert others[-1] == others[WAYS.index("syncline+ddp") - 1]


def test_two_ranks_give_the_same_bits_as_gloo():
    # A sum of two contributions does not depend on their order.
    gloo, hook, hub, optimizer, backend = losses(2, *WAYS[:5])
    assert [hook, hub, backend] == [gloo] * 3
    # PyTorch's optimizer rounds only once when it multiplies and adds.
    for ours, theirs in zip(optimizer, gloo, strict=True):
        assert ours == pytest.approx(theirs, rel=NEAR)


def test_an_error_of_the_hook_says_what_was_under_way():
    (status, said, err), _ = end(start(2, "hook_fails"))
    assert status == 0, err
    for words in (
        "rank 1 has not begun operation",
        "all_reduce of 10100 f32 (sum), 40400 bytes",
        "after 2.",
        "bucket 0",
    ):
        assert words in said, said


def test_torchrun_finds_a_backend_that_the_program_has_not_imported(tmp_path):
    (tmp_path / "job.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('syncline')\n"
        "total = torch.ones(1)\n"
        "dist.all_reduce(total)\n"
        "dist.destroy_process_group()\n"
        "os.write(1, b'%d\\n' % total.item())\n"
    )
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node=3", "--standalone"]
    done = subprocess.run(
        [*command, tmp_path / "job.py"], cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3"] * 3
