"""What recipes of NeMo and Megatron-Bridge do, by container: recomputation, kernels and parameters in low precision."""

from __future__ import annotations

from tables.nvidia import EXPERTS
from tables.row import FOLDER, read


def bridge_recompute(release: str, model: str, cluster: str, precision: str, micro: int) -> str:
    """Modules that Megatron-Bridge's recipes recompute: scripts/performance/configs of NVIDIA-NeMo/Megatron-Bridge."""
    if model == "deepseek-v3":
        if cluster == "dgx-h100":
            return "mla_up_proj mlp"
        newest = release in ("26.06", "26.06.01", "26.08")
        return "" if cluster == "gb300-nvl72" and newest and micro == 1 and precision == "mxfp8" else "mla_up_proj"
    if model == "gpt-oss-120b" and precision == "bf16" and cluster in ("gb200-nvl72", "dgx-b200", "dgx-h100"):
        return "layernorm moe_act"
    return ""


RECIPES = read(FOLDER, "recipes.csv")
"""What recipes of Megatron-Bridge do with kernels, by release: ``make_recipes.py``."""


def recipe(release: str, model: str, cluster: str, precision: str) -> dict[str, str]:
    """The line of :data:`RECIPES` that counts for a container: the last one until then; empty if there is none."""
    found: dict[str, str] = {}
    for line in RECIPES:
        same = (line["model"], line["cluster"]) == (model, cluster) and precision in line["precisions"].split()
        if same and line["release"] <= release:
            found = line
    return found


FP8_ATTENTION = (
    ("26.06", "deepseek-v3", ("gb300",)),
    ("26.06", "gpt-oss-120b", ("gb",)),
    ("26.06", "qwen3-235b", ("gb",)),
    ("26.06", "qwen3-30b", ("gb", "b300")),
    ("26.06.01", "deepseek-v3", ("b300",)),
    ("26.06.01", "qwen3-235b", ("b200", "b300")),
    ("26.06.01", "qwen3-30b", ("b200",)),
)
"""Recipes of MXFP8 whose attention has 8 bits: container from which on, beginnings of names of model and cluster.

``fp8_dot_product_attention`` in ``scripts/performance/configs`` of Megatron-Bridge v0.5.0 (26.06) and v0.5.1
(26.06.01), and in ``src/megatron/bridge/perf_recipes`` of v0.6.0 (26.08)."""

UNLIKE_RECIPES = (
    ("25.11", "gpt-oss-120b", "gb200-nvl72"),
    ("25.11", "gpt-oss-120b", "dgx-h100"),
    ("25.11", "qwen3-235b-a22b", "dgx-b200"),
    ("25.11", "qwen3-30b-a3b", "dgx-h100"),
    ("26.02.01", "llama3-70b", "gb300-nvl72"),
)
"""Rows whose table has another micro-batch or number of chunks than the recipe of their container: 1 for 4 (and
sequences of 8,192 tokens for 4,096), 4 for 1, 2 chunks for 4, 2 and 24 for 1 and 12, and 2 and 1 for 1 and 5. What else
those runs changed is unknown."""


def bridge_graphs(release: str, model: str, cluster: str, precision: str, task: str) -> str:
    """Whether the recipe of a container puts the kernels of a dense model into CUDA graphs.

    :data:`RECIPES` have it for pretraining. Of LoRA, ``scripts/performance/configs`` of NVIDIA-NeMo/Megatron-Bridge say
    it from 25.11 on: the scope is ``mlp``, a part of a layer.
    """
    blackwell = cluster.removeprefix("dgx-").startswith(("b", "gb"))
    if task == "lora" and model == "llama3-70b" and blackwell and release >= "25.11":
        return "partial"
    found = recipe(release, model, cluster, precision) if task == "pretrain" else {}
    return found.get("graphs", "none")


NO_RECIPE = {"graphs": "none", "dispatcher": "all_to_all", "overlap_experts": "no", "fused_experts": "no"}
"""What runs with experts do with kernels, without a recipe."""


def bridge_kernels(release: str, model: str, cluster: str, precision: str, task: str) -> dict[str, str]:
    """What the recipe of a container does with kernels: graphs, and what concerns experts."""
    if not model.startswith(EXPERTS):
        return {"graphs": bridge_graphs(release, model, cluster, precision, task)}
    found = recipe(release, model, cluster, precision)
    cells = {name: found.get(name, usual) for name, usual in NO_RECIPE.items()}
    if cells["dispatcher"] == "fused":
        cells["dispatch_multiprocessors"] = dispatch_multiprocessors(release, model, cluster)
    low_precision_output = model in ("deepseek-v3", "gpt-oss-120b") and cells["fused_experts"] == "yes"
    eight = precision == "mxfp8" and any(
        release >= since and model.startswith(start) and cluster.removeprefix("dgx-").startswith(clusters)
        for since, start, clusters in FP8_ATTENTION
    )
    return {
        **cells,
        "low_precision_output_layer": "yes" if low_precision_output else "no",
        "fp8_attention": "yes" if eight else "no",
    }


def nvidia_parameters(release: str, model: str, cluster: str, precision: str) -> dict[str, str]:
    """Whether parameters are kept and gathered in 8 or 4 bits in the recipe of a container, and whether that overlaps.

    From ``mixed_precision.py`` of NeMo 2.0 to 2.4 and of Megatron-Bridge, tags v0.1.0rc4 to v0.5.0: ``fp8_params``,
    then ``fp8_param_gather`` and ``fp4_param_gather``, which recipes of blocks (DeepSeek-V3 on H100), of GPT-OSS and of
    Kimi K2 turn off. Containers before 24.12 are those of the launcher, whose examples do not set it. Recipes of MXFP8
    do not overlap it in 25.07 and 25.11 (``scripts/performance``).
    """
    in_bf16 = model.startswith(("gpt-oss", "kimi")) or (model, cluster) == ("deepseek-v3", "dgx-h100")
    since = {"fp8": "24.12", "mxfp8": "25.07", "nvfp4": "26.06"}.get(precision)
    if since is None:
        return {}
    found = {"low_precision_parameters": "yes" if release >= since and not in_bf16 else "no"}
    if precision == "mxfp8" and release in ("25.07", "25.11"):
        found["overlap_parameters"] = "no"
    return found


def dispatch_multiprocessors(release: str, model: str, cluster: str) -> str:
    """Multiprocessors that the recipe of a container lends to the kernels that send tokens to experts.

    Recipes for performance give HybridEP 32 (``moe_hybridep_num_sms`` in ``scripts/performance``); DeepEP has the 20 of
    Megatron Core (``moe_deepep_num_sms``): on H100 at first, and in DeepSeek-V3 on B200 from 26.06 on.
    """
    deepep = {
        "dgx-h100": release < "26.02" or (model == "qwen3-30b-a3b" and release < "26.04"),
        "dgx-b200": model == "deepseek-v3" and release >= "26.06",
    }
    return "20" if deepep.get(cluster, False) else "32"
