"""The backend `syncline` of torch.distributed: every collective, messages, groups, unusual tensors."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from syncline.hub.certificates import make
from tests.torch.ranks import end, run, start

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.mark.parametrize("world", [2, 3])
def test_every_reduction_of_every_type_gives_the_right_result(world):
    run(world, "reductions")


def test_one_rank_reduces_empty_and_non_contiguous_tensors():
    run(1, "odd")


@pytest.mark.parametrize("case", ["movements", "uneven", "messages", "works", "odd"])
def test_operations_of_three_ranks_give_the_right_results(case):
    run(3, case)


def test_two_ranks_move_every_type():
    run(2, "movements")


def test_several_groups_run_at_once_on_the_same_connections():
    run(3, "groups")


def test_ranks_with_certificates_use_tls(tmp_path):
    make(tmp_path / "certs", job=None, ranks=0, days=1, force=False)
    run(2, "secure", CERTS=str(tmp_path / "certs"))


def test_mismatched_shapes_are_reported_on_all_ranks():
    run(3, "mismatch")


def test_timeouts_are_deadlines_and_name_the_missing_rank():
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


def test_empty_and_unused_parameters_are_accepted():
    run(2, "empty_bucket")


def test_a_group_has_another_backend_for_another_device():
    run(2, "beside_another_backend")


def test_nccl_sends_tensors_on_gpus_in_the_same_group():
    import torch

    if torch.cuda.device_count() < 1:
        pytest.skip("there is no GPU that PyTorch can use")
    run(min(2, torch.cuda.device_count()), "beside_nccl")


@pytest.mark.slow
def test_a_tensor_of_one_gigabyte_is_reduced():
    run(2, "large")


def test_tensors_on_a_gpu_are_reduced():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use")
    run(2, "cuda")
