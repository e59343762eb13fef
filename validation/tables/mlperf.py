"""MLPerf Training."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tables.nvidia import nvidia
from tables.row import Row, made, read, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BLACKWELL = ("dgx-b", "gb")
"""How names of clusters with Blackwell begin."""
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
    hopper = cluster is None or not cluster.startswith(BLACKWELL)
    if model == "llama2-70b":
        short = (cp or 1) > 1 and (at["tp"] == "4" or not hopper)
        return "full" if short and at["round"] > "v4.0" else "none"
    if hopper or (model == "llama3-405b" and at["submitter"] == "University-of-Florida"):
        return "none"
    return "full"


def mlperf_fp8_attention(
    at: Row, cluster: str | None, model: str, tp: int | None, cp: int | None, *, fp4: bool
) -> bool:
    """Whether attention of a run of NVIDIA's implementation has 8 bits: ``FP8_DPA`` in the files of its round.

    LoRA: ``config_common.sh`` of v4.0, v5.0 and v5.1; on Hopper in v4.1 and v5.0, the files with ``tp`` 4 and ``cp`` 1
    alone; not in Cisco's of v5.1. Llama 3.1 8B: in 4 bits, whose files source
    ``config_common_fp8attn.sh``. Logs that print their configuration agree.
    """
    if model == "llama3-8b":
        return fp4
    if model != "llama2-70b" or at["submitter"] == "Cisco":
        return False
    if at["round"] in ("v4.1", "v5.0") and (cluster is None or not cluster.startswith(BLACKWELL)):
        return tp == 4 and (cp or 1) == 1
    return at["round"] >= "v4.0"


LOGGED: Mapping[tuple[str, str, str], Mapping[str, Any]] = {
    ("Dell", "1xXE9680Lx8B200-SXM-180GB", "llama2_70b_lora"): {"fp4": True},
    ("Dell", "1xXE9680Lx8H200-SXM-141GB", "llama2_70b_lora"): {"tp": 2},
    ("Nebius", "nebius_b200_n4", "llama2_70b_lora"): {"fp4": False},
    ("Oracle", "1xBM.GPU.B200.8", "llama31_8b"): {"fp4": True},
    ("Supermicro", "SYS-422GS-NBRT-LCC", "llama31_8b"): {"fp4": True},
}
"""What logs of v5.1 print of the configuration that ran, where ``config_file`` is another one's; the first by the file
that has the name of its system."""


def mlperf_logged(at: Row) -> Mapping[str, Any]:
    """What the log of a run prints, if it differs from the columns."""
    return LOGGED.get((at["submitter"], at["system"], at["benchmark"]), {}) if at["round"] == "v5.1" else {}


def mlperf_fp4(at: Row) -> bool:
    """Whether a run has 4 bits.

    The column says so of all runs whose submitter has files for 4 bits, but only those whose name ends in ``_fp4`` set
    ``FP4``, and logs that print their configuration agree. NVIDIA's run of Llama 3.1 405B has such a file.
    """
    if at["fp4"] != "True":
        return False
    named = at["config_file"].endswith("_fp4.sh") or at["benchmark"] == "llama31_405b"
    return bool(mlperf_logged(at).get("fp4", named))


def mlperf_low_precision_parameters(at: Row, model: str, *, fp4: bool) -> bool:
    """Whether NVIDIA's implementation keeps parameters in 8 or 4 bits: ``FP8_PARAMS`` and ``FP8_PARAM_GATHER``.

    Pre-training has it in the files of v4.0 to v5.1, but not in 4 bits; LoRA has it in v4.0 to v5.0, and in 4 bits
    replaces frozen weights by their casts before the first step (``PRE_QUANTIZED_MODEL`` of ``config_common_fp4.sh``).
    """
    if at["round"] < "v4.0":
        return False
    if model == "llama2-70b":
        return fp4 or at["round"] < "v5.1"
    return not fp4


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
        tp = mlperf_logged(at).get("tp", tp)
        fp4 = mlperf_fp4(at)
        fp8 = at["fp8"] == "True" or (at["fp4"] == "True" and not fp4)
        lora = at["benchmark"] == "llama2_70b_lora"
        readings, reason = [], None
        precision = "nvfp4" if fp4 else "fp8"
        if at["fp4"] == "True" and not fp4:
            readings.append("fp8: its configuration does not set FP4")
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
        elif fp4 and lora:
            reason = "350 steps in 4 bits, and the rest in 8 (HEALING_ITER)"
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
                fp8_attention="yes" if mlperf_fp8_attention(at, cluster, model, tp, cp, fp4=fp4) else None,
                low_precision_parameters="yes" if mlperf_low_precision_parameters(at, model, fp4=fp4) else None,
                lora=16 if lora else None,
                step_s=float(at["step_time_s_median"]) if at["step_time_s_median"] else None,
                reading="; ".join(readings) if reason is None else "",
                excluded=reason,
            )
        )
    return rows
