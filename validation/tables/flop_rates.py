"""NVIDIA's tables that give FLOP/s instead of step times: long sequences, and Megatron's MoE model zoo."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tables.nvidia import SYSTEMS, nvidia, nvidia_model
from tables.row import Row, made, read, whole

if TYPE_CHECKING:
    from pathlib import Path


def long_sequences(folder: Path) -> list[Row]:
    """NeMo's table of long sequences with context parallelism, which gives FLOP/s. Rows without it lack a mesh."""
    shapes = {"llama3-8b": (32, 4096, 1 / 4, 14336, 128256), "llama2-7b": (32, 4096, 1, 11008, 32000)}
    rows = []
    for at in read(folder, "nemo_long_sequence_cp.csv"):
        case, cluster = at["case"].split(" - ")
        model = nvidia_model(case)
        layers, hidden, kv, ffn, vocab = shapes[model]
        sequence, batch, gpus = int(at["seq_k"]) * 1024, int(at["gbs"]), int(at["gpus"])
        # FLOP of a token as NeMo counted them then: attention in full, not only its causal half.
        per_layer = layers * hidden**2 * (12 + 12 * kv + 18 * ffn / hidden + 12 * sequence / hidden)
        flop = batch * sequence * (per_layer + 6 * vocab * hidden)
        tp = int(at["tp"])
        rows.append(
            made(
                *("long-sequence", at, model, SYSTEMS.get(cluster, cluster.lower()), gpus),
                **{**nvidia(tp, 1, SYSTEMS.get(cluster, cluster.lower()), model, "pretrain"), "calibrates": ""},
                framework="megatron",
                tp=tp,
                pp=whole(at["pp"]),
                cp=whole(at["cp"]),
                dp=whole(at["dp"]),
                zero=1,
                micro_batch=1,
                global_batch=batch,
                sequence=sequence,
                precision="fp8",
                recompute="none",
                step_s=flop / (float(at["tflops_with_cp"]) * 1e12 * gpus),
                reading="micro-batch 1; step time from FLOP/s, with attention counted in full",
            )
        )
    return rows


def model_zoo(folder: Path) -> list[Row]:
    """Megatron's MoE model zoo, which gives FLOP/s. A token has the FLOP that Megatron-Bridge counts for the model."""
    known = [at for at in read(folder, "nemo_megatron_bridge_perf.csv") if at["model"] == "Qwen3_235B_a22B"]
    known = [at for at in known if at["seq"] == "4096" and re.fullmatch(r"\d+", at["model_tflops_per_gpu"])]
    tokens = sum(float(at["tokens_per_s_per_gpu"]) for at in known)
    per_token = sum(float(at["model_tflops_per_gpu"]) for at in known) * 1e12 / tokens
    rows = []
    for at in read(folder, "megatron_moe_modelzoo.csv"):
        h100 = at["GPU"] == "H100"
        gpus = int(at["NNODES"]) * (8 if h100 else 4)
        cluster, sequence, batch = SYSTEMS.get(at["GPU"], at["GPU"].lower()), int(at["SEQ_LEN"]), int(at["GBS"])
        tp, vp = int(at["TP"]), whole(at["VPP"], 1) or 1
        rate = None if h100 else float(at["TFLOPS"]) * 1e12
        mxfp8 = at["Precision"] == "MXFP8"
        rows.append(
            made(
                *("model-zoo", at, "qwen3-235b-a22b", cluster, gpus),
                **nvidia(tp, vp, cluster, "qwen3-235b-a22b", "pretrain"),
                framework="megatron",
                tp=tp,
                pp=whole(at["PP"]),
                virtual_stages=vp,
                cp=whole(at["CP"]),
                ep=whole(at["EP"]),
                etp=1,
                zero=1,
                micro_batch=whole(at["MBS"]),
                global_batch=batch,
                sequence=sequence,
                precision=at["Precision"].lower() or "bf16",
                # Its commands: HybridEP, with the multiprocessors of Megatron Core (`moe_hybridep_num_sms`), and graphs
                # of attention, router and preprocessing; with MXFP8, overlap and recomputation.
                recompute="" if h100 else "selective" if mxfp8 else "none",
                recompute_modules="moe_act layernorm" if mxfp8 else "",
                offload="expert_fc1 moe_act" if "offloading" in at["Notes"] else "",
                graphs="" if h100 else "partial",
                dispatcher="" if h100 else "fused",
                dispatch_multiprocessors="" if h100 else "16",
                overlap_experts="" if h100 else "yes" if mxfp8 and sequence == 4096 else "no",
                step_s=None if rate is None else batch * sequence * per_token / (rate * gpus),
                reading="" if h100 else "step time from FLOP/s, with the FLOP that Megatron-Bridge counts for a token",
                excluded="stages, experts' parallelism and micro-batch are not given" if h100 else None,
            )
        )
    return rows
