"""What all source tables have in common: the columns, how a table is read, and how a row is made and judged."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import overload

from syncline.clusters.known import clusters as known_clusters

FOLDER = Path(__file__).parents[1]
"""The folder of ``runs.csv``, ``recipes.csv`` and ``models.yaml``."""

COLUMNS = (
    *("id", "dataset", "source", "framework", "task", "calibrates", "filters"),
    *("model", "layers", "cluster", "gpus"),
    *("tp", "sequence_parallel", "pp", "virtual_stages", "schedule", "split", "cp", "ep", "etp", "dp"),
    *("zero", "shard_group", "micro_batch", "global_batch", "accumulation", "sequence"),
    *("precision", "gradient_type", "recompute", "recompute_modules", "attention", "rope_fusion"),
    *("optimizer", "lora", "offload"),
    *("overlap_tp", "overlap_gradients", "overlap_parameters", "overlap_pipeline", "overlap_experts"),
    *(
        "graphs",
        "dispatcher",
        "routing",
        "dispatch_multiprocessors",
        "fused_experts",
        "low_precision_output_layer",
        "fp8_attention",
    ),
    "low_precision_parameters",
    *("step_s", "memory_gib", "fits", "mfu", "reading", "excluded"),
)

CALIBRATES = {
    "vtrain": "a100",
    "torchtitan": "fsdp",
    "mosaic": "fsdp",
    "internevo": "fsdp",
}
"""Constants that rows of a data set may be fitted to; those of NVIDIA's tables are in :mod:`tables.nvidia`."""

_CLUSTERS = frozenset(known_clusters())

UNKNOWN_MODELS = {
    "deepseek-v4-flash": "its attention and its hyper-connections are not modelled",
    "nemotron-h-56b": "state-space layers are not modelled",
    "nemotron-3-nano": "state-space layers are not modelled",
    "nemotron-3-super": "state-space layers are not modelled",
    "nemotron-3-ultra": "state-space layers are not modelled",
    "nemotron-3.5-lightning": "state-space layers are not modelled",
    "t5-3b": "encoders are not modelled",
    "mt5-3b": "encoders are not modelled",
    "bert-4b": "encoders are not modelled",
}

PRECISIONS = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""Precisions of linear layers that estimates know."""

LAYERS = {
    name: int(layers)
    for name, layers in re.findall(
        r"^(\S+):\n(?:  .*\n)*?  layers: (\d+)$", (FOLDER / "models.yaml").read_text(encoding="utf-8"), re.MULTILINE
    )
}
"""Layers of each model of ``models.yaml``."""

Row = dict[str, str]


def read(folder: Path, name: str) -> list[Row]:
    """The rows of one source table, each with the number of its line under ``line``."""
    with (folder / name).open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        return [{**{key: value or "" for key, value in row.items()}, "line": str(reader.line_num)} for row in reader]


@overload
def whole(text: str, default: int) -> int: ...


@overload
def whole(text: str, default: None = None) -> int | None: ...


def whole(text: str, default: int | None = None) -> int | None:
    """A whole number; ``default`` for an empty or absent one."""
    text = text.strip()
    if text in ("", "-", "NA", "n/a", "N/A", "None", "null"):
        return default
    return int(float(text))


def decimal(value: float | None) -> str:
    """A number with six digits."""
    return "" if value is None else f"{value:.6g}"


def made(dataset: str, source: Row, model: str, cluster: str, gpus: int | None, /, **values: object) -> Row:
    """A row with what all data sets have in common; an absent or None value is an empty cell."""
    row = dict.fromkeys(COLUMNS, "")
    row.update(
        id=f"{dataset}-{source['line']}",
        dataset=dataset,
        source=source.get("source", ""),
        task="pretrain",
        calibrates=CALIBRATES.get(dataset, ""),
        model=model,
        cluster=cluster,
        gpus="" if gpus is None else str(gpus),
        sequence_parallel="no",
        attention="flash",
        optimizer="adam",
    )
    for key, value in values.items():
        if key not in row:
            raise KeyError(key)
        row[key] = "" if value is None else decimal(value) if isinstance(value, float) else str(value)
    return finished(row)


def finished(row: Row) -> Row:
    """Adds what follows from the other cells, and the reason if the row cannot be used."""
    for key in ("pp", "cp", "tp", "virtual_stages"):
        row[key] = row[key] or ("" if row["excluded"] else "1")
    reason = row["excluded"] or UNKNOWN_MODELS.get(row["model"])
    if not reason and row["model"] not in LAYERS:
        reason = "its architecture is not described"
    if not reason and row["cluster"] not in _CLUSTERS:
        reason = "its machine is not described"
    if not reason and row["precision"] not in PRECISIONS:
        reason = f"products in {row['precision'] or 'an unknown precision'} are not modelled"
    reason = reason or _mesh(row)
    row["excluded"] = reason or ""
    if row["pp"] == "1":
        row["virtual_stages"], row["schedule"], row["split"] = "1", "", ""
    elif row["pp"] and not row["schedule"]:
        row["schedule"] = "interleaved" if row["virtual_stages"] not in ("", "1") else "1f1b"
    if row["pp"] not in ("", "1") and not row["split"] and row["virtual_stages"] and row["model"] in LAYERS:
        row["split"] = _split(row)
    if row["excluded"]:
        row["calibrates"], row["filters"] = "", ""
    return row


def _mesh(row: Row) -> str | None:
    """Fills in ``dp`` and ``accumulation``; returns why they do not exist."""
    if not row["gpus"]:
        return "the number of GPUs is not published"
    gpus, parts = int(row["gpus"]), int(row["tp"]) * int(row["pp"]) * int(row["cp"])
    if gpus % parts:
        return f"{gpus} GPUs are not divisible by tp x pp x cp = {parts}"
    if row["dp"] and int(row["dp"]) * parts != gpus:
        return f"tp x pp x cp x dp = {parts * int(row['dp'])}, not {gpus}"
    dp = gpus // parts
    row["dp"] = str(dp)
    if row["ep"]:
        experts = int(row["ep"]) * int(row["etp"] or 1) * int(row["pp"])
        if gpus % experts:
            return f"{gpus} GPUs are not divisible by ep x etp x pp = {experts}"
    for key, name in (("global_batch", "global batch"), ("micro_batch", "micro-batch"), ("sequence", "sequence")):
        if not row[key]:
            return f"the {name} is not published"
    batch, micro = int(row["global_batch"]), int(row["micro_batch"])
    if batch % (dp * micro):
        return f"global batch {batch} is no multiple of dp x micro-batch = {dp * micro}"
    count = str(batch // (dp * micro))
    if row["accumulation"] and row["accumulation"] != count:
        return f"accumulation {row['accumulation']}, but global batch / (dp x micro-batch) = {count}"
    row["accumulation"] = count
    if not row["step_s"] and row["fits"] == "":
        return "no step time is published"
    return None


def _split(row: Row) -> str:
    """How layers are split over stages: the rule that makes all stages equal.

    ``even``: layers alone. ``ends``: embedding and head count as a layer each, as NeMo can do. ``layout``: the last
    chunk has fewer layers, so that embedding, head and the layer for multi-token prediction together count as three, as
    in the layouts of NVIDIA's recipes. ``uneven``: none of these.
    """
    layers = int(row["layers"] or LAYERS[row["model"]])
    chunks = int(row["pp"]) * int(row["virtual_stages"])
    if row["model"] == "deepseek-v3" and (chunks == 32 or row["dataset"] == "dgxc"):
        # Et|(tt|)*30mL: two layers in each chunk but the first and the last one. DGX Cloud recipes: 64 / pp layers, one
        # less in the first stage and two less in the last one.
        return "ends"
    for name, extra in (("even", 0), ("ends", 2), ("layout", 3)):
        if (layers + extra) % chunks == 0:
            return name
    return "uneven"
