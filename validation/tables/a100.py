"""Megatron-LM and Megatron-DeepSpeed on A100: published tables, vTrain's runs and the log of BLOOM."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tables.row import Row, made, read, whole

if TYPE_CHECKING:
    from pathlib import Path

SC21 = {
    **dict.fromkeys(("1.7B",), ("gpt-1.7b", 16, 1)),
    **dict.fromkeys(("3.6B",), ("gpt-3.6b", 16, 1)),
    **dict.fromkeys(("7.5B",), ("gpt-7.5b", 16, 1)),
    **dict.fromkeys(("18B", "18.4B"), ("gpt-18.4b", 8, 1)),
    **dict.fromkeys(("39B", "39.1B"), ("gpt-39.1b", 4, 1)),
    **dict.fromkeys(("76B", "76.1B"), ("gpt-76.1b", 2, 3)),
    **dict.fromkeys(("145B", "145.6B"), ("gpt-145.6b", 2, 2)),
    **dict.fromkeys(("310B", "310.1B"), ("gpt-310.1b", 1, 2)),
    **dict.fromkeys(("530B", "529.6B"), ("gpt-529.6b", 1, 3)),
    **dict.fromkeys(("1T", "1008B"), ("gpt-1008b", 1, 1)),
}
"""Models of SC21's Table 1, and their micro-batches and virtual stages by examples/sc21/run_table_1.sh of
NVIDIA/Megatron-LM, which recomputes in full."""

KORTHIKANTI = {
    "megatron-22B": "megatron-22b",
    "gpt3-175B": "gpt-175b",
    "turing-530B": "megatron-530b",
    "megatron-1T": "megatron-1t",
}


def megatron(folder: Path) -> list[Row]:
    """Korthikanti et al., Table 5; SC21, Table 1; Megatron-Core's README."""
    rows = []
    for at in read(folder, "megatron_published.csv"):
        mesh = {"tp": whole(at["tp"]), "pp": whole(at["pp"])}
        batch = {"global_batch": whole(at["gbs"]), "sequence": whole(at["seq"])}
        common = {"framework": "megatron", "mfu": whole(at["mfu_pct"]), "gradient_type": "fp32", **mesh, **batch}
        off = dict.fromkeys(("overlap_tp", "overlap_gradients", "overlap_parameters", "overlap_pipeline"), "no")
        if name := KORTHIKANTI.get(at["model"]):
            selective = "attn_only" in at["note"]
            rows.append(
                made(
                    *("korthikanti", at, name, "dgx-a100-selene", whole(at["gpus"])),
                    **common,
                    **off,
                    precision="fp16",
                    virtual_stages=whole(at["vp"]),
                    micro_batch=whole(at["mbs"]),
                    step_s=float(at["step_time_s"]),
                    zero=0,
                    sequence_parallel="yes" if "seq_par=True" in at["note"] else "no",
                    recompute="selective" if selective else "full" if "full" in at["note"] else "none",
                    recompute_modules="core_attention" if selective else "",
                    attention="unfused",
                )
            )
        elif "SC21" in at["source"] and (found := SC21.get(at["model"])):
            rows.append(
                made(
                    *("sc21", at, found[0], "dgx-a100-selene", whole(at["gpus"])),
                    **{**common, **off, "gradient_type": "fp16"},
                    precision="fp16",
                    virtual_stages=found[2],
                    micro_batch=found[1],
                    step_s=float(at["step_time_s"]),
                    zero=0,
                    recompute="full",
                    attention="unfused",
                    reading="micro-batch and virtual stages from examples/sc21/run_table_1.sh",
                )
            )
        else:
            excluded = "micro-batch, virtual stages and step time are not published"
            rows.append(
                made(
                    "megatron-core",
                    at,
                    f"megatron-core-{at['model'].lower()}",
                    "dgx-h100",
                    whole(at["gpus"]),
                    **common,
                    excluded=excluded,
                )
            )
    return rows


VTRAIN = {"3.6": "gpt-3.6b", "18.4": "gpt-18.4b", "39.1": "gpt-39.1b", "175": "gpt-175b"}


def vtrain(folder: Path) -> list[Row]:
    """Runs of vTrain on several nodes. The set ``single`` is its authors' predictions: never taken."""
    return [
        made(
            *("vtrain", at, VTRAIN.get(at["params_b"], f"gpt-{at['params_b']}b"), "a100-vtrain", whole(at["gpus"])),
            framework="megatron-deepspeed",
            tp=whole(at["tp"]),
            pp=whole(at["pp"]),
            dp=whole(at["dp"]),
            zero=0,
            micro_batch=whole(at["mbs"]),
            global_batch=whole(at["gbs"]),
            sequence=whole(at["seq"]),
            precision="fp16",
            gradient_type="fp16",
            recompute="full",
            attention="unfused",
            **dict.fromkeys(("overlap_tp", "overlap_gradients", "overlap_parameters", "overlap_pipeline"), "no"),
            step_s=float(at["step_time_s"]),
            reading="vocabulary 51,200",
            excluded="" if at["set"] == "multi" else "a prediction of vTrain, not a measurement",
        )
        for at in read(folder, "vtrain_ground_truth.csv")
    ]


def bloom(folder: Path) -> list[Row]:
    """BigScience's log of trial runs. Only rows with all inputs are usable; two columns are swapped in some tables."""
    rows = []
    for at in read(folder, "bigscience_bloom_jeanzay.csv"):
        if not at["gpus"]:
            continue  # an empty line of the log
        size = re.search(r"HIDDEN=(\d+)\s*[/;]\s*NLAYERS=(\d+)", at["context"])
        on_a100 = at["gpu"] == "A100-80GB"
        step = at["step_time_s"] or re.sub(r"s$", "", at["speed_raw"])
        step_s = float(step) if re.fullmatch(r"[\d.]+", step) else None
        out = at["mem"] == "OOM" or at["speed_raw"] == "OOM"
        memory = re.fullmatch(r"(\d+)GB", at["mem"])
        reason = None
        if not on_a100 or size is None or not at["nheads"]:
            reason = "hidden size, layers or heads are not given"
        elif not all(at[key] for key in ("dp", "tp", "pp", "mbs", "gbs")):
            reason = "the mesh or the batch is not given"
        elif step_s and at["tflops_per_gpu"]:
            # Model FLOP with recomputation, as the log counts them: 8 x parameters x tokens.
            counted = 8e9 * float(at["size"].rstrip("B")) * int(at["gbs"]) * 2048 / (step_s * int(at["gpus"])) / 1e12
            if not 0.9 < counted / float(at["tflops_per_gpu"]) < 1.1:
                reason = "step time and FLOP/s contradict each other"
        rows.append(
            made(
                *("bloom", at, f"bloom-{size[1]}-{size[2]}-{at['nheads']}" if size and at["nheads"] else "bloom-176b"),
                "a100-jean-zay" if on_a100 else "v100-jean-zay",
                whole(at["gpus"]),
                framework="megatron-deepspeed",
                tp=whole(at["tp"]),
                pp=whole(at["pp"]),
                dp=whole(at["dp"]) if reason is None else None,
                zero=whole(at["zero_stage"], 1),
                micro_batch=whole(at["mbs"]),
                global_batch=whole(at["gbs"]),
                sequence=2048,
                precision="bf16" if on_a100 else "fp16",
                gradient_type="fp32" if on_a100 else "fp16",
                recompute="full",
                attention="unfused",
                step_s=step_s,
                memory_gib=float(memory[1]) if memory else None,
                fits="no" if out else "yes" if step_s else "",
                reading="vocabulary 250,880: it gives the sizes that the log prints" if reason is None else "",
                excluded=reason,
            )
        )
    return rows
