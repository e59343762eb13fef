"""MaxText's runs, none of which is described in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tables.row import Row, made, read

if TYPE_CHECKING:
    from pathlib import Path


def maxtext(folder: Path) -> list[Row]:
    """MaxText's README: FLOP/s without configurations, mostly of TPUs."""
    rows = []
    for at in read(folder, "maxtext_tpu_gpu.csv"):
        tpu = "h100" not in at["Hardware"]
        reason = "no accelerator TPU" if tpu else "batch, sequence and step time are not published"
        model = "llama2-7b" if at["section"] == "Llama2-7B" else "llama2-70b"
        rows.append(made("maxtext", at, model, "dgx-h100", None, framework="maxtext", excluded=reason))
    return rows
