"""Features of other backends that PyTorch's users rely on: nested callbacks, errors, sparse sums, splits, traces."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

import pytest

from tests.torch.ranks import end, run, start

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

TORCH = [int(part) for part in version("torch").split(".")[:2]] if find_spec("torch") else []

CASES = ["coalesced", "nested", "order", "held", "averages", "sparse", "names", "traced", "barrier_at_once"]


def test_features_of_other_backends_work_on_two_ranks():
    run(2, *CASES, cases="parity_cases", within_s=200)


def test_features_of_other_backends_work_on_three_ranks():
    run(3, "coalesced", "averages", "sparse", cases="parity_cases")


def test_power_sgd_gives_the_losses_of_gloo():
    run(2, "power", cases="parity_cases")


@pytest.mark.skipif(find_spec("torch") and TORCH < [2, 15], reason="PyTorch splits groups on GPUs only before 2.15")
def test_a_group_and_its_parts_can_be_split():
    run(4, "split", cases="parity_cases")


def test_errors_have_the_types_that_pytorch_users_catch():
    answers = end(start(2, "errors", cases="parity_cases"))
    assert [status for status, _, _ in answers] == [0, 0], answers


def test_collectives_and_ddp_can_be_compiled():
    run(2, "compiled", cases="parity_cases")
