"""nanotron's runs on H100."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tables.row import Row, made, read, whole

if TYPE_CHECKING:
    from pathlib import Path


def nanotron(folder: Path) -> list[Row]:
    """Hugging Face's Ultra-Scale Playbook: all rows. Readings are those of nanotron's own script."""
    rows = []
    for at in read(folder, "nanotron_ultrascale_h100.csv"):
        nodes, tp, pp, layers = int(at["nodes"]), int(at["tp"]), int(at["pp"]), int(at["layers"])
        ok = at["status"] == "ok"
        products = int(at["mbs"]) * int(at["ga"]) * int(at["dp"])
        reason = None
        if products != int(at["gbs"]):
            reason = f"micro-batch x accumulation x dp = {products}, but the global batch is {at['gbs']}"
        elif pp > layers:
            reason = f"{pp} stages for {layers} layers"
        # On inputs alone; the fourth condition, predicted memory below 68 GiB, needs a prediction.
        passes = nodes <= 16 and tp <= 8 and (pp == 1 or nodes == 1 or at["zero"] == "1")
        rows.append(
            made(
                *("nanotron", at, at["model"].replace(" ", "-").lower(), "h100-hugging-face", whole(at["gpus"])),
                framework="nanotron",
                filters="inputs" if passes else "",
                calibrates="nanotron" if passes and ok else "",
                tp=tp,
                sequence_parallel="yes" if tp > 1 else "no",
                pp=pp,
                split="cost",
                dp=whole(at["dp"]),
                zero=whole(at["zero"]),
                micro_batch=whole(at["mbs"]),
                global_batch=whole(at["gbs"]),
                accumulation=whole(at["ga"]),
                sequence=whole(at["seq"]),
                precision="bf16",
                gradient_type="fp32",
                recompute="none",
                overlap_tp="yes" if tp > 1 else "",
                step_s=float(at["step_time_s_derived"]) if ok else None,
                memory_gib=float(at["gpu_mem_gb"]) if ok and at["gpu_mem_gb"] else None,
                fits="yes" if ok else "failed",
                mfu=float(at["mfu_pct"]) if ok else None,
                excluded=reason,
            )
        )
    return rows
