"""NVIDIA's DGX Cloud recipes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tables.nvidia import EXPERTS, SYSTEMS, nvidia, nvidia_model
from tables.row import LAYERS, Row, made, read, whole

if TYPE_CHECKING:
    from pathlib import Path


def dgxc_recompute(model: str, cluster: str) -> dict[str, str]:
    """Recomputation, attention and rotation of DeepSeek-V3 in DGX Cloud recipes: ``deepseek_v3/pretraining/launch.sh``.

    Megatron Core 0.12, which its ``setup.sh`` takes, has no kernel that rotates positions into latent attention.

    On Blackwell, Transformer Engine fuses attention whose keys have 192 and values 128 elements from cuDNN 9.11 on,
    which is newer than NeMo 25.04.01.
    """
    if model != "deepseek-v3":
        return {}
    apart = {"recompute": "selective", "rope_fusion": "no"}
    if cluster == "dgx-h100":
        return {**apart, "recompute_modules": "mla_up_proj"}
    return {**apart, "recompute_modules": "core_attention", "attention": "unfused"}


def dgxc(folder: Path) -> list[Row]:
    """NVIDIA's DGX Cloud recipes: step times of three releases."""
    rows = []
    for at in read(folder, "nvidia_dgxc_benchmarking.csv"):
        cluster, model = SYSTEMS.get(at["gpu"], at["gpu"].lower()), nvidia_model(at["model"])
        task = "lora" if "LORA" in at["model"] else "sft" if "SFT" in at["model"] else "pretrain"
        tp, pp = whole(at["tp"], 1) or 1, whole(at["pp"], 1) or 1
        vp = whole(at["vp"], 1) if pp > 1 else 1
        gpus = int(at["gpus"])
        jax = at["model"].startswith("Maxtext")
        readings = []
        group = None
        if jax:
            product = re.fullmatch(r"ici(\d+)\*dcn(\d+)", at["fsdp"])
            group = int(product[1]) * int(product[2]) if product else int(at["fsdp"])
        experts = model.startswith(EXPERTS)
        etp = whole(at["etp"])
        if experts and etp is None:
            etp = tp
            readings.append("etp = tp, Megatron's default")
        micro = whole(at["mbs"])
        if micro is None:
            micro = 1
            readings.append("micro-batch 1, as later releases print it")
        reason = None
        if at["self_check"]:
            reason = f"its source contradicts itself: {at['self_check']}"
        elif at["release"] == "v25.04.02" and model == "nemotron4-340b":
            reason = "virtual stages are blank, and twin rows of other releases have 12"
        elif pp > 12 and task != "pretrain":
            reason = f"pp {pp} is a slip of the source"
        layers = whole(at["layers"])
        common = nvidia(tp, vp or 1, cluster, model, task)
        if jax:
            common |= {"overlap_pipeline": "", "gradient_type": None}
        if model == "deepseek-v3":
            # `tp_comm_overlap=False` in scripts/performance/llm/pretrain_deepseek_v3.py of NeMo 2.3.
            common |= {"overlap_tp": "no"}
        rows.append(
            made(
                *("dgxc", at, model, cluster, gpus),
                **(common | {"calibrates": ""} if jax else common),
                framework="maxtext" if jax else "megatron",
                layers=layers if layers and layers != LAYERS.get(model) else None,
                tp=tp,
                pp=pp,
                virtual_stages=vp,
                cp=whole(at["cp"], 1),
                ep=whole(at["ep"], 1) if experts else None,
                etp=etp if experts else None,
                zero=3 if jax else 1,
                shard_group=group if group and group != gpus else None,
                micro_batch=micro,
                global_batch=whole(at["gbs"]),
                sequence=whole(at["seq"]),
                precision=at["precision"].lower(),
                # `fp8_params` of the launcher's configurations, and of NeMo 2.0's recipe.
                low_precision_parameters="yes" if at["precision"] == "FP8" and not jax else None,
                **(
                    {
                        "recompute": "full" if jax else None if experts else "none",
                        "recompute_modules": "all but qkv" if jax else "",
                    }
                    | dgxc_recompute(model, cluster)
                ),
                step_s=float(at["step_time_s"]),
                mfu=float(at["mfu_reported"].rstrip("%")) if at["mfu_reported"] else None,
                reading="; ".join(readings),
                excluded=reason,
            )
        )
    return rows
