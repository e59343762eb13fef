"""The backend `syncline` of torch.distributed: every collective, messages, groups, unusual tensors."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from syncline.hub.certificates import make
from tests.torch.ranks import end, run, start

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.mark.parametrize("world", [2, 3])
def test_reductions(world):
    run(world, "reductions")


def test_one_rank():
    run(1, "odd")


@pytest.mark.parametrize("case", ["movements", "uneven", "messages", "works", "odd"])
def test_three_ranks(case):
    run(3, case)


def test_movements_of_two_ranks():
    run(2, "movements")


def test_groups():
    run(3, "groups")


def test_certificates_beside_the_store(tmp_path):
    make(tmp_path / "certs", job=None, ranks=0, days=1, force=False)
    run(2, "secure", CERTS=str(tmp_path / "certs"))


def test_mismatched_shapes_are_reported_on_all_ranks():
    run(3, "mismatch")


def test_timeouts_become_deadlines():
    answers = end(start(2, "late"))
    assert [status for status, _, _ in answers] == [0, 0], answers


def test_a_timeout_may_be_longer_than_that_of_the_group():
    answers = end(start(2, "patient"), within_s=60)
    assert [status for status, _, _ in answers] == [0, 0], answers


def test_a_killed_rank_is_named_by_all():
    answers = end(start(3, "killed"))
    assert [status for status, _, _ in answers] == [0, -9, 0], answers


def test_processes_end_with_operations_under_way():
    answers = end(start(2, "at_exit"), within_s=60)
    assert [status for status, _, _ in answers] == [0, 0], answers
    assert not any("Traceback" in err for _, _, err in answers), answers


def test_empty_and_unused_parameters():
    run(2, "empty_bucket")


@pytest.mark.slow
def test_a_tensor_of_one_gigabyte():
    run(2, "large")


def test_gpu():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use")
    run(2, "cuda")
