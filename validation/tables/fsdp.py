"""FSDP and ZeRO: NeMo Automodel, torchtitan, llm-foundry and InternEvo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tables.nvidia import EXPERTS, nvidia_model
from tables.row import Row, made, read, whole

if TYPE_CHECKING:
    from pathlib import Path


def automodel(folder: Path) -> list[Row]:
    """NeMo Automodel: PyTorch's FSDP2 with kernels of Transformer Engine.

    The table says which rows have DeepEP. Recomputation, attention (PyTorch's but for rows with Transformer Engine and
    DeepEP alone), sequence parallelism, and GPT-OSS's expert parallelism, which the table leaves out, are those of the
    recipes that it names, in `examples/llm_benchmark`.
    """
    recomputed = ("kimi-k2", "qwen3-30b-a3b", "llama3-70b", "qwen2.5-32b")
    rows = []
    for at in read(folder, "nemo_automodel.csv"):
        model = nvidia_model(at["Model"])
        task = "lora" if "LoRA" in at["section"] else "pretrain"
        experts = model.startswith(EXPERTS)
        tp, pp = whole(at["TP"], 1) or 1, whole(at["PP"], 1) or 1
        vp = whole(at["VP"], 1)
        kernels = at["Kernel Optimizations"].split(" + ")
        rows.append(
            made(
                *("automodel", at, model, "dgx-h100", whole(at["#GPUs"])),
                framework="automodel",
                task=task,
                calibrates="experts" if task == "pretrain" and experts else "",
                tp=tp,
                sequence_parallel="yes" if tp > 1 and model == "llama3-70b" else "no",
                pp=pp,
                virtual_stages=vp if pp > 1 else 1,
                cp=whole(at["CP"], 1),
                ep=whole(at["EP"], 8) if experts else None,
                etp=1 if experts else None,
                zero=3,
                recompute="full" if model in recomputed else "none",
                attention="cudnn" if kernels == ["TE", "DeepEP"] else "flash-attention-2",
                dispatcher="fused" if "DeepEP" in kernels else None,
                # `fake_balanced_gate` of the recipes.
                routing="consecutive" if experts else None,
                graphs="none",
                micro_batch=whole(at["MBS"]),
                global_batch=whole(at["GBS"]),
                sequence=whole(at["Seq Length"]),
                precision="bf16",
                overlap_gradients="yes",
                overlap_parameters="yes",
                step_s=float(at["Time per Global Step (s)"]),
            )
        )
    return rows


def torchtitan(folder: Path) -> list[Row]:
    """torchtitan: tokens a second and GPU. A pipeline has as many micro-batches as stages, torchtitan's default."""
    models = {"Llama3.1-8B": "llama3-8b", "Llama3.1-70B": "llama3-70b", "Llama3.1-405B": "llama3-405b"}
    rows = []
    for at in read(folder, "torchtitan.csv"):
        gpus, pp, local = int(at["gpus"]), int(at["pp"]), int(at["local_batch"])
        batch, sequence, tp = int(at["gbs"]), int(at["seq"]), int(at["tp"])
        rows.append(
            made(
                *("torchtitan", at, models.get(at["model"], at["model"].lower()), "h100-grand-teton", gpus),
                framework="torchtitan",
                tp=tp,
                sequence_parallel="yes" if tp > 1 else "no",
                pp=pp,
                split="uneven" if pp > 1 else None,
                cp=whole(at["cp"]),
                dp=whole(at["fsdp"]),
                zero=3,
                micro_batch=local // pp,
                global_batch=batch,
                sequence=sequence,
                precision="fp8" if at["precision"].startswith("FP8") else "bf16",
                gradient_type="fp32",
                recompute="full" if at["act_ckpt"] == "full" else "selective",
                recompute_modules="" if at["act_ckpt"] == "full" else "operators",
                overlap_tp=("yes" if "async" in at["techniques"].lower() else "no") if tp > 1 else None,
                overlap_gradients="yes",
                overlap_parameters="yes",
                overlap_pipeline="no" if pp > 1 else None,
                step_s=batch * sequence / (float(at["tokens_per_s_per_gpu"]) * gpus),
                memory_gib=float(at["mem_gib"]) if at["mem_gib"] else None,
                fits="yes",
                reading="as many micro-batches as stages" if pp > 1 else "",
            )
        )
    return rows


def mosaic(folder: Path) -> list[Row]:
    """MosaicML's llm-foundry: FSDP without pipelines.

    Attention is what `scripts/train/benchmarking` asked for when the table was made: `triton`, the default of
    `submit_benchmarks.py`, but for the large-scale table of January 2024, for which `sweep.py` chose `flash`, with
    flash-attn 2.4.2, for all models but those of 13 and 30 billion parameters.
    """
    clusters = {"h100_80gb": "h100-mosaic", "a100_80gb": "a100-80gb-mosaic", "a100_40gb": "a100-40gb-mosaic"}
    return [
        made(
            *("mosaic", at, at["model"].lower(), clusters.get(at["gpu"], at["gpu"]), whole(at["gpus"])),
            framework="llm-foundry",
            zero=3 if at["sharding"] == "FULL_SHARD" else 2,
            micro_batch=whole(at["mbs"]),
            global_batch=whole(at["gbs"]),
            accumulation=whole(at["ga"]),
            sequence=whole(at["seq"]),
            precision="fp8" if at["precision"] == "amp_fp8" else "bf16",
            gradient_type="bf16",
            recompute="full" if at["act_ckpt"] == "True" else "none",
            attention="flash-attention-2"
            if "Large Scale" in at["section"] and at["model"] not in ("MPT-13b", "MPT-30b")
            else "triton",
            overlap_gradients="yes",
            overlap_parameters="yes",
            step_s=float(at["step_time_s_derived"]),
            fits="yes",
            mfu=float(at["mfu_pct"]),
        )
        for at in read(folder, "mosaic_llm_foundry.csv")
    ]


def internevo(folder: Path) -> list[Row]:
    """InternEvo: ZeRO-1 over all ranks or within groups, by configs/7B_sft.py of its repository."""
    rows = []
    for at in read(folder, "internevo_a100_roce.csv"):
        group = int(at["zero1_group"])
        gpus, tp = int(at["gpus"]), int(at["tp"])
        rows.append(
            made(
                *("internevo", at, "internlm-7b", "a100-internevo", gpus),
                framework="internevo",
                tp=tp,
                pp=whole(at["pp"]),
                zero=1,
                shard_group=group if 0 < group < gpus // tp else None,
                micro_batch=whole(at["mbs"]),
                global_batch=whole(at["gbs"]),
                accumulation=whole(at["micro_num"]),
                sequence=whole(at["seq"]),
                precision="bf16",
                gradient_type="bf16",
                recompute="full" if at["act_ckpt"].upper() == "TRUE" else "none",
                overlap_tp="no" if tp > 1 else None,
                overlap_gradients="yes",
                overlap_parameters="no",
                step_s=float(at["step_time_s_derived"]),
                fits="yes",
            )
        )
    return rows
