"""What ``make_recipes.py`` reads out of recipes, on a repository that the test makes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.validation.rows import FOLDER

CONFIGS = """
from dataclasses import replace
BASE = WorkloadBaseConfig(expert_model_parallel_size=8, cuda_graph_impl="transformer_engine", cuda_graph_scope=["attn"])
QWEN3_30B_A3B_PRETRAIN_CONFIG_B200_BF16_V1 = replace(BASE, moe_flex_dispatcher_backend="hybridep")
QWEN3_30B_A3B_PRETRAIN_CONFIG_B200_FP8_MX_V1 = QWEN3_30B_A3B_PRETRAIN_CONFIG_B200_BF16_V1
QWEN3_30B_A3B_PRETRAIN_CONFIG_B200_FP8_MX_V2 = replace(BASE, cuda_graph_impl="full_iteration", moe_a2a_overlap=True)
QWEN3_30B_A3B_PRETRAIN_CONFIG_H100_BF16_V1 = replace(BASE, moe_flex_dispatcher_backend="deepep", cuda_graph_impl=None)
QWEN3_30B_A3B_FINETUNE_CONFIG_H100_BF16_V1 = BASE
LLAMA3_8B_PRETRAIN_CONFIG_H100_BF16_V1 = replace(BASE, cuda_graph_scope="full_iteration")
"""
FUNCTIONS = """
def qwen3_30b_a3b_pretrain_config_h100(precision):
    cfg.model.moe_token_dispatcher_type = "alltoall"
"""
TAGS = ("v0.2.0", "v0.3.0", "v0.3.1", "v0.4.0", "v0.4.2", "v0.5.0", "v0.5.1")


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "scripts/performance/configs/qwen"
    folder.mkdir(parents=True)
    (folder / "qwen3_workload_base_configs.py").write_text(CONFIGS, "utf-8")
    (folder / "qwen3_llm_pretrain.py").write_text(FUNCTIONS, "utf-8")

    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, "-C", tmp_path, *arguments], check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "a")
    for tag in TAGS:
        git("tag", tag)
    return tmp_path


def test_lines_follow_from_assignments_and_functions(checkout):
    done = subprocess.run(
        [sys.executable, FOLDER / "make_recipes.py", checkout], capture_output=True, text=True, check=True
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("2") and not line.startswith("25.09")]
    assert found == [
        "25.11,llama3-8b,dgx-h100,bf16,full,,,",
        "25.11,qwen3-30b-a3b,dgx-b200,bf16,partial,fused,no,no",
        # Of two sizes of job, the second one counts.
        "25.11,qwen3-30b-a3b,dgx-b200,mxfp8,full,all_to_all,yes,no",
        # Its function takes all-to-alls, although the assignment names kernels.
        "25.11,qwen3-30b-a3b,dgx-h100,bf16,none,all_to_all,no,no",
    ]


def test_the_last_release_until_then_counts():
    """Megatron-Bridge v0.3.1 (26.02.01) gave B200 kernels that send tokens; v0.3.0 (26.02) had none there."""
    sys.path.insert(0, FOLDER.as_posix())
    try:
        from tables.recipes import recipe
    finally:
        sys.path.pop(0)
    model, cluster = "qwen3-30b-a3b", "dgx-b200"
    releases = ("25.09", "26.02", "26.02.01", "26.04.01")
    found = [recipe(release, model, cluster, "mxfp8")["dispatcher"] for release in releases]
    assert found == ["all_to_all", "all_to_all", "fused", "fused"]
    assert recipe("25.07", model, cluster, "mxfp8") == {} == recipe("26.04", "mixtral-8x7b", cluster, "bf16")
