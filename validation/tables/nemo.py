"""Performance summaries of NeMo and Megatron-Bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tables.nvidia import EXPERTS, SYSTEMS, nvidia, nvidia_model, nvidia_precision
from tables.recipes import UNLIKE_RECIPES, bridge_kernels, bridge_recompute, nvidia_parameters
from tables.row import Row, made, read, whole

if TYPE_CHECKING:
    from pathlib import Path

EIGHT_BITS = ("fp8", "mxfp8")
"""Precisions of 8 bits."""


def nemo(folder: Path) -> list[Row]:
    """Performance summaries of NeMo and Megatron-Bridge, by container."""
    rows = []
    for name, dataset in (("nemo_megatron_bridge_perf.csv", "bridge"), ("nemo_older_releases.csv", "nemo")):
        for at in read(folder, name):
            release = at["container"]
            task = {"pretrain": "pretrain", "SFT": "sft", "LoRA": "lora"}[at["task"]]
            task = "sft" if at["model"].endswith(" SFT") else task
            cluster, model = SYSTEMS.get(at["system"], at["system"].lower()), nvidia_model(at["model"])
            precision = nvidia_precision(at["precision"], cluster)
            if "alternative" in at["variant"]:
                precision = "mxfp8"
            tp, pp, vp = whole(at["tp"]), whole(at["pp"]), whole(at["vp"])
            micro, fsdp = whole(at["mbs"]), whole(at["fsdp"], 0)
            experts = model.startswith(EXPERTS)
            modern = dataset == "bridge" and release not in ("24.07", "24.09")
            modules = bridge_recompute(release, model, cluster, precision, micro or 1) if modern else ""
            # Megatron-Bridge's tables print n/a for one virtual stage; a blank in older ones says nothing.
            missing = vp is None and not modern and (pp or 1) > 1
            reason = None
            if not at["gbs"]:
                reason = "no batch is published"
            elif missing:
                reason = "virtual stages are not published"
            elif "[^gpt-oss-note]" in at["model_tflops_per_gpu"]:
                reason = "its source notes a regression of this container (cudnn-frontend issue 256)"
            # `cpu_offloading_num_layers` of scripts/performance/configs/llama/llama3_workload_base_configs.py.
            offloaded = fsdp > 1 and model == "llama3-70b" and cluster.startswith("gb")
            offload = ("40 layers" if cluster.startswith("gb200") else "20 layers") if offloaded else ""
            reading = "recomputation and offloading by the recipes of Megatron-Bridge" if modules or offload else ""
            unlike = (release, model, cluster) in UNLIKE_RECIPES
            if unlike:
                reading = "; ".join(
                    each for each in (reading, "micro-batch or chunks are not those of its recipe") if each
                )
            common = nvidia(tp or 1, vp or 1, cluster, model, task)
            if cluster == "gb300-nvl72" and model == "llama3-70b" and task == "pretrain" and precision in EIGHT_BITS:
                common["calibrates"] = "gb300"
            rows.append(
                made(
                    *(dataset, at, model, cluster, whole(at["gpus"])),
                    **(
                        common
                        | ({"calibrates": ""} if unlike else {})
                        | nvidia_parameters(release, model, cluster, precision)
                    ),
                    **(bridge_kernels(release, model, cluster, precision, task) if modern else {}),
                    framework="megatron",
                    tp=tp,
                    pp=pp,
                    virtual_stages=vp or 1,
                    cp=whole(at["cp"]),
                    ep=whole(at["ep"], 1) if experts else None,
                    etp=1 if experts else None,
                    zero=3 if fsdp > 1 else 1,
                    shard_group=fsdp if 1 < fsdp < int(at["gpus"]) else None,
                    micro_batch=micro,
                    global_batch=whole(at["gbs"]),
                    sequence=whole(at["seq"]),
                    precision=precision,
                    recompute="selective" if modules else "none",
                    recompute_modules=modules,
                    offload=offload,
                    step_s=float(at["step_time_s_derived"]) if at["step_time_s_derived"] else None,
                    reading=reading,
                    excluded=reason,
                )
            )
    return rows
