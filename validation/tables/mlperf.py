"""MLPerf Training."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tables.nvidia import nvidia
from tables.row import Row, made, read, whole

if TYPE_CHECKING:
    from pathlib import Path

BENCHMARKS = {
    "gpt3": "gpt3-175b",
    "llama31_405b": "llama3-405b",
    "llama31_8b": "llama3-8b",
    "llama2_70b_lora": "llama2-70b",
}


def mlperf_cluster(at: Row) -> str | None:
    """The cluster of an MLPerf system by its accelerator and its network; None if the accelerator is not NVIDIA's."""
    card = at["accelerator"]
    if "NVIDIA" not in card or "NVL-141GB" in card:
        return None
    if "A100" in card:
        return "dgx-a100-selene"
    if "GB300" in card:
        return "gb300-nvl72"
    if "GB200" in card:
        return "gb200-nvl72"
    if "B300" in card:
        return "dgx-b300"
    if "B200" in card:
        return "dgx-b200"
    if "H200" in card:
        return "h200-8x200" if "200Gb/s, Management: 2x100" in at["host_network"] else "dgx-h200"
    if "H100" in card:
        if at["gpus_per_node"] == "4":
            return "h100-4gpu"
        if at["submitter"] == "Oracle":
            return "h100-oracle"
        return "h100-4x400" if at["submitter"] == "SCITIX" else "dgx-h100"
    return None


def mlperf_graphs(at: Row, cluster: str | None, model: str, cp: int | None) -> str:
    """Whether a run of NVIDIA's implementation has its kernels in CUDA graphs, by the configuration of its round.

    ``FULL_CUDA_GRAPH``, ``LAYER_CUDA_GRAPH`` and ``MCORE_CUDA_GRAPH`` in the files ``config_*.sh`` of
    mlcommons/training_results_v4.0, v4.1, v5.0 and v5.1. LoRA has graphs from v4.1 on where context parallelism makes
    kernels short: on Hopper with ``tp`` 4, on Blackwell always.
    """
    hopper = cluster is None or not cluster.startswith(("dgx-b", "gb"))
    if model == "llama2-70b":
        short = (cp or 1) > 1 and (at["tp"] == "4" or not hopper)
        return "full" if short and at["round"] > "v4.0" else "none"
    if hopper or (model == "llama3-405b" and at["submitter"] == "University-of-Florida"):
        return "none"
    return "full"


def mlperf_fp8_attention(at: Row, cluster: str | None, model: str, tp: int | None, cp: int | None) -> bool:
    """Whether attention of a run of NVIDIA's implementation has 8 bits: ``FP8_DPA`` in the files of its round.

    LoRA: ``config_common.sh`` of v4.0, v5.0 and v5.1; in v4.1 the files of B200, and of H100 with ``tp`` 4 and ``cp``
    1, but not those with ``cp`` 2. Llama 3.1 8B in 4 bits: two files source ``config_common_fp8attn.sh``, those of
    GB200 and GB300 on eight accelerators.
    """
    if model == "llama3-8b":
        return bool(re.search(r"config_GB[23]00_2x4x2xtp1pp1cp1_8b_fp4", at["config_file"]))
    if model != "llama2-70b":
        return False
    if at["round"] == "v4.1":
        return cluster == "dgx-b200" or (tp == 4 and (cp or 1) == 1)
    return at["round"] >= "v4.0"


def mlperf_low_precision_parameters(at: Row, model: str, *, fp4: bool) -> bool:
    """Whether NVIDIA's implementation keeps and gathers parameters in 8 bits: ``FP8_PARAMS`` and ``FP8_PARAM_GATHER``.

    Pre-training has it in the files of v4.0 to v5.1, but not in 4 bits; LoRA has it in v4.0 to v5.0.
    """
    if at["round"] < "v4.0" or fp4:
        return False
    return model != "llama2-70b" or at["round"] < "v5.1"


def mlperf(folder: Path) -> list[Row]:
    """MLPerf Training: median step time of the logs. The configuration file fills in a blank degree of parallelism."""
    rows = []
    for at in read(folder, "mlperf_training_llm.csv"):
        model = BENCHMARKS.get(at["benchmark"], at["benchmark"])
        cluster = mlperf_cluster(at)
        named = re.search(r"tp(\d+)pp(\d+)cp(\d+)", at["config_file"])
        tp, pp, cp = (
            whole(at[key]) or (int(named[at_group]) if named else None)
            for at_group, key in ((1, "tp"), (2, "pp"), (3, "cp"))
        )
        cp = cp or (1 if tp else None)  # GPT-3 ran without context parallelism, which its configurations do not name
        vp = (whole(at["vp"], 1) or 1) if (pp or 1) > 1 else 1
        fp8, fp4 = at["fp8"] == "True", at["fp4"] == "True"
        lora = at["benchmark"] == "llama2_70b_lora"
        readings, reason = [], None
        precision = "nvfp4" if fp4 else "fp8"
        if not fp8 and not fp4:
            if at["benchmark"] == "llama31_8b":
                reason = "the precision is not recorded"
            elif tp:
                readings.append("fp8: runs in FP4 set it in their configuration, and this one does not")
        if cluster is None:
            reason = f"no accelerator {at['accelerator']}"
        elif at["config_consistent"] != "yes":
            reason = "the parallelism is not confirmed"
        elif fp4 and cluster.startswith(("h200", "dgx-h200", "dgx-h100")):
            reason = "FP4 on a card without"
        common = nvidia(tp or 1, vp, "", model, "lora" if lora else "pretrain")
        if at["submitter"] == "University-of-Florida" and model == "llama3-405b":
            common["overlap_tp"] = "no"  # TP_COMM_OVERLAP is commented out in its configuration
        micro = whole(at["mbs"])
        if micro is None:
            micro = 1
            readings.append("micro-batch 1")
        rows.append(
            made(
                *("mlperf", {**at, "source": f"{at['source']}: {at['submitter']}, {at['system']}"}, model),
                cluster or "dgx-h100",
                whole(at["gpus"]),
                **common,
                framework="megatron",
                tp=tp,
                pp=pp,
                virtual_stages=vp,
                cp=cp,
                zero=1,
                micro_batch=micro,
                global_batch=whole(at["gbs"]),
                accumulation=whole(at["ga"]),
                sequence=whole(at["seq"]),
                precision=precision,
                recompute="none",
                graphs=mlperf_graphs(at, cluster, model, cp),
                fp8_attention="yes" if mlperf_fp8_attention(at, cluster, model, tp, cp) else None,
                low_precision_parameters="yes" if mlperf_low_precision_parameters(at, model, fp4=fp4) else None,
                lora=16 if lora else None,
                step_s=float(at["step_time_s_median"]) if at["step_time_s_median"] else None,
                reading="; ".join(readings) if reason is None else "",
                excluded=reason,
            )
        )
    return rows
