"""SimuMax's runs of Megatron on B200."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tables.row import Row, made, read, whole

if TYPE_CHECKING:
    from pathlib import Path


def simumax(folder: Path) -> list[Row]:
    """SimuMax: Megatron on one B200 server. Its own predictions are not taken. Memory is what was allocated."""
    models = {
        "Llama3-70B": "llama3-70b",
        "Llama3-405B": "llama3-405b",
        "DeepSeek-V2": "deepseek-v2",
        "DeepSeek-V3": "deepseek-v3",
    }
    rows = []
    for at in read(folder, "simumax_b200.csv"):
        dp, count, micro, tp = int(at["dp"]), int(at["micro_batches"]), int(at["mbs"]), int(at["tp"])
        model = models.get(at["model"], at["model"].lower())
        experts = model.startswith("deepseek")
        rows.append(
            made(
                *("simumax", at, model, "b200-simumax", whole(at["gpus"])),
                framework="megatron",
                layers=whole(at["layers"]),
                tp=tp,
                sequence_parallel="yes" if tp > 1 else "no",
                pp=whole(at["pp"]),
                cp=whole(at["cp"]),
                ep=whole(at["ep"]) if experts else None,
                etp=1 if experts else None,
                dp=dp,
                zero=1,
                micro_batch=micro,
                global_batch=dp * count * micro,
                accumulation=count,
                sequence=whole(at["seq"]),
                precision="bf16",
                gradient_type="fp32",
                recompute="none",
                step_s=float(at["real_step_time_ms"]) / 1000,
                memory_gib=float(at["real_alloc_gib"]),
                fits="yes",
                reading="one dense layer, no multi-token prediction" if experts else "",
            )
        )
    return rows
