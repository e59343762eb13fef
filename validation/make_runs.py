"""Writes ``runs.csv``: measured training runs from public sources, in one schema.

``python validation/make_runs.py FOLDER`` reads the source tables in FOLDER and writes ``runs.csv`` beside this file;
``--check`` compares instead. The tables are not part of the repository; ``README.md`` lists them, the columns, the
filters and every reading. Each table has one function here, and each reading of what a table leaves open is a
constant or a comment in it. The same tables always give the same bytes. This is one long file, because every table
needs its own reading, and readings are compared side by side.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from pathlib import Path

from syncline.clusters.known import clusters as known_clusters

HERE = Path(__file__).parent

COLUMNS = (
    *("id", "dataset", "source", "framework", "task", "calibrates", "filters"),
    *("model", "layers", "cluster", "gpus"),
    *("tp", "sequence_parallel", "pp", "virtual_stages", "schedule", "split", "cp", "ep", "etp", "dp"),
    *("zero", "shard_group", "micro_batch", "global_batch", "accumulation", "sequence"),
    *("precision", "gradient_type", "recompute", "recompute_modules", "attention", "optimizer", "lora", "offload"),
    *("overlap_tp", "overlap_gradients", "overlap_parameters", "overlap_pipeline", "overlap_experts"),
    *("graphs", "dispatcher", "dispatch_multiprocessors", "fused_experts", "narrow_output", "narrow_attention"),
    "narrow_parameters",
    *("step_s", "memory_gib", "fits", "mfu", "reading", "excluded"),
)

CALIBRATES = {
    "vtrain": "a100",
    "torchtitan": "fsdp",
    "mosaic": "fsdp",
    "internevo": "fsdp",
}
"""Constants that rows of a data set may be fitted to; those of NVIDIA's tables are in :func:`_nvidia_calibrates`."""

_CLUSTERS = frozenset(known_clusters())

DERIVED = ("dgx-b300", "gb300-nvl72")
"""Clusters whose kernels follow from another accelerator's: their rows calibrate no software."""

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

EXPERTS = ("deepseek", "qwen3-30b", "qwen3-235b", "mixtral", "gpt-oss", "kimi", "grok", "llama4")
"""How names of models with experts begin."""

EXPERTS_OF_THE_BAR = ("deepseek-v3", "qwen3", "mixtral", "gpt-oss", "kimi")
"""Those whose rows have a bar; rows of other models with experts calibrate nothing."""

PRECISIONS = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""Precisions of linear layers that estimates know."""

LAYERS = {
    name: int(layers)
    for name, layers in re.findall(
        r"^(\S+):\n(?:  .*\n)*?  layers: (\d+)$", (HERE / "models.yaml").read_text(encoding="utf-8"), re.MULTILINE
    )
}
"""Layers of each model of ``models.yaml``."""

Row = dict[str, str]


def read(folder: Path, name: str) -> list[Row]:
    """The rows of one source table, each with the number of its line under ``line``."""
    with (folder / name).open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        return [{**{key: value or "" for key, value in row.items()}, "line": str(reader.line_num)} for row in reader]


def whole(text: str, default: int | None = None) -> int | None:
    """A whole number; ``default`` for an empty or absent one."""
    text = text.strip()
    if text in ("", "-", "NA", "n/a", "N/A", "None", "null"):
        return default
    return int(float(text))


def decimal(value: float | None) -> str:
    """A number with six digits."""
    return "" if value is None else f"{value:.6g}"


def made(dataset: str, source: Row, model: str, cluster: str, gpus: int | None, **values: object) -> Row:
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
        return f"{gpus} GPUs do not divide by tp x pp x cp = {parts}"
    if row["dp"] and int(row["dp"]) * parts != gpus:
        return f"tp x pp x cp x dp = {parts * int(row['dp'])}, not {gpus}"
    dp = gpus // parts
    row["dp"] = str(dp)
    if row["ep"]:
        experts = int(row["ep"]) * int(row["etp"] or 1) * int(row["pp"])
        if gpus % experts:
            return f"{gpus} GPUs do not divide by ep x etp x pp = {experts}"
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


# --------------------------------------------------------------------------------------------------------------------
# Megatron-LM and Megatron-DeepSpeed on A100
# --------------------------------------------------------------------------------------------------------------------

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


# --------------------------------------------------------------------------------------------------------------------
# nanotron
# --------------------------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------------------------
# NVIDIA's tables: NeMo, Megatron-Bridge, DGX Cloud recipes, Automodel
# --------------------------------------------------------------------------------------------------------------------

SYSTEMS = {
    "DGX-H100": "dgx-h100",
    "H100": "dgx-h100",
    "DGX-B200": "dgx-b200",
    "B200": "dgx-b200",
    "DGX-B300": "dgx-b300",
    "DGX-GB200": "gb200-nvl72",
    "GB200": "gb200-nvl72",
    "DGX-GB300": "gb300-nvl72",
    "DGX-A100-80GB SuperPOD": "dgx-a100-selene",
}

NVIDIA_MODELS = (
    *(("deepseekv4 flash", "deepseek-v4-flash"), ("deepseek", "deepseek-v3"), ("gpt oss 120b", "gpt-oss-120b")),
    *(("gpt oss 20b", "gpt-oss-20b"), ("gpt-oss 20b", "gpt-oss-20b"), ("kimi", "kimi-k2"), ("grok", "grok-1")),
    *(("qwen3_30b", "qwen3-30b-a3b"), ("qwen3 moe 30b", "qwen3-30b-a3b"), ("qwen3_235b", "qwen3-235b-a22b")),
    *(("qwen2.5 7b", "qwen2.5-7b"), ("qwen2.5 32b", "qwen2.5-32b"), ("nemotron_3_nano", "nemotron-3-nano")),
    *(("nemotron_3_super", "nemotron-3-super"), ("nemotron_3_ultra", "nemotron-3-ultra")),
    *(("nemotron v3 super", "nemotron-3-super"), ("nemotron_3_5", "nemotron-3.5-lightning")),
    *(("nemotron-h", "nemotron-h-56b"), ("nemotron-8b", "nemotron-8b"), ("nemotron-22b", "nemotron-22b")),
    *(("nemotron4 15b", "nemotron4-15b"), ("nemotron4 340b", "nemotron4-340b"), ("nemotron-340b", "nemotron4-340b")),
    *(("nemotron 340b", "nemotron4-340b"), ("llama4-scout", "llama4-scout"), ("llama4 maverick", "llama4-maverick")),
    *(("nemotron-15b", "nemotron4-15b"), ("llama4-maverick", "llama4-maverick"), ("llama4 scout", "llama4-scout")),
    *(("mixtral-8x7b", "mixtral-8x7b"), ("mixtral-8x22b", "mixtral-8x22b"), ("mistral-7b", "mistral-7b")),
    *(("llama2-7b", "llama2-7b"), ("llama2-13b", "llama2-13b"), ("llama2-70b", "llama2-70b")),
    *(("llama3.1-405b", "llama3-405b"), ("llama3.1 405b", "llama3-405b"), ("llama 3.1 405b", "llama3-405b")),
    *(("llama 3.1 70b", "llama3-70b"), ("llama 3.1 8b", "llama3-8b"), ("llama3-70b", "llama3-70b")),
    *(("llama3_70b", "llama3-70b"), ("llama3 70b", "llama3-70b"), ("maxtext llama3 70b", "llama3-70b")),
    *(("llama3-8b", "llama3-8b"), ("llama3_8b", "llama3-8b"), ("llama3 8b", "llama3-8b")),
    *(("gpt3-5b", "gpt3-5b"), ("gpt3-20b", "gpt3-20b"), ("gpt3-175b", "gpt3-175b"), ("gpt-3 5b", "gpt3-5b")),
    *(("gpt-3 175b", "gpt3-175b"), ("nemo megatron", "gpt3-175b")),
    *(("t5 3b", "t5-3b"), ("mt5 3b", "mt5-3b"), ("bert 4b", "bert-4b")),
)
"""How names of models begin in NVIDIA's tables."""


def nvidia_model(name: str) -> str:
    """The model that a table of NVIDIA names."""
    return next((model for start, model in NVIDIA_MODELS if name.lower().startswith(start)), name.lower())


def nvidia_precision(text: str, cluster: str) -> str:
    """The precision of the linear layers; attention and logits stay in BF16.

    FP8 is scaled by tensor. Parenthesised rows of container 25.09 (``alt-quantization``) and of 25.07 use MXFP8 on
    Blackwell, and blocks on Hopper.
    """
    words = {"BF16": "bf16", "FP8": "fp8", "FP8-CS": "fp8", "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "NVFP4": "nvfp4"}
    if "alt-quantization" in text:
        return "fp8" if cluster == "dgx-h100" else "mxfp8"
    return words.get(text, text.lower())


def nvidia(tp: int, vp: int, cluster: str, model: str, task: str) -> dict[str, object]:
    """What NeMo's and Megatron-Bridge's recipes have in common: overlaps, sequence parallelism, bf16 gradients.

    Point-to-point transfers overlap where stages are interleaved.
    """
    return {
        "sequence_parallel": "yes" if tp > 1 else "no",
        "gradient_type": "bf16",
        "overlap_tp": "yes" if tp > 1 else "",
        "overlap_gradients": "yes",
        "overlap_parameters": "yes",
        "overlap_pipeline": "yes" if vp > 1 else "no",
        "task": task,
        "calibrates": _nvidia_calibrates(cluster, model, task),
    }


def _nvidia_calibrates(cluster: str, model: str, task: str) -> str:
    if task != "pretrain" or cluster in DERIVED:
        return ""
    if model.startswith(EXPERTS):
        return "experts" if model.startswith(EXPERTS_OF_THE_BAR) else ""
    return "h100" if cluster == "dgx-h100" else ""


def bridge_recompute(release: str, model: str, cluster: str, precision: str, micro: int) -> str:
    """Modules that Megatron-Bridge's recipes recompute: scripts/performance/configs of NVIDIA-NeMo/Megatron-Bridge."""
    if model == "deepseek-v3":
        if cluster == "dgx-h100":
            return "mla_up_proj mlp"
        newest = release in ("26.06", "26.06.01", "26.08")
        return "" if cluster == "gb300-nvl72" and newest and micro == 1 and precision == "mxfp8" else "mla_up_proj"
    if model == "gpt-oss-120b" and precision == "bf16" and cluster in ("gb200-nvl72", "dgx-b200", "dgx-h100"):
        return "layernorm moe_act"
    return ""


RECIPES = read(Path(__file__).parent, "recipes.csv")
"""What recipes of Megatron-Bridge do with kernels, by release: ``make_recipes.py``."""


def recipe(release: str, model: str, cluster: str, precision: str) -> dict[str, str]:
    """The line of :data:`RECIPES` that counts for a container: the last one until then; empty if there is none."""
    found: dict[str, str] = {}
    for line in RECIPES:
        same = (line["model"], line["cluster"]) == (model, cluster) and precision in line["precisions"].split()
        if same and line["release"] <= release:
            found = line
    return found


NARROW_ATTENTION = (
    ("26.06", "deepseek-v3", ("gb300",)),
    ("26.06", "gpt-oss-120b", ("gb",)),
    ("26.06", "qwen3-235b", ("gb",)),
    ("26.06", "qwen3-30b", ("gb", "b300")),
    ("26.06.01", "deepseek-v3", ("b300",)),
    ("26.06.01", "qwen3-235b", ("b200", "b300")),
    ("26.06.01", "qwen3-30b", ("b200",)),
)
"""Recipes of MXFP8 whose attention has 8 bits: container from which on, beginnings of names of model and cluster.

``fp8_dot_product_attention`` in ``scripts/performance/configs`` of Megatron-Bridge v0.5.0 (26.06) and v0.5.1
(26.06.01), and in ``src/megatron/bridge/perf_recipes`` of v0.6.0 (26.08)."""


UNLIKE_RECIPES = (
    ("25.11", "gpt-oss-120b", "gb200-nvl72"),
    ("25.11", "gpt-oss-120b", "dgx-h100"),
    ("25.11", "qwen3-235b-a22b", "dgx-b200"),
    ("25.11", "qwen3-30b-a3b", "dgx-h100"),
    ("26.02.01", "llama3-70b", "gb300-nvl72"),
)
"""Rows whose table has another micro-batch or number of chunks than the recipe of their container: 1 for 4 (and
sequences of 8,192 tokens for 4,096), 4 for 1, 2 chunks for 4, 2 and 24 for 1 and 12, and 2 and 1 for 1 and 5. What else
those runs changed is unknown."""


NARROW = ("fp8", "mxfp8")
"""Precisions of 8 bits."""


def bridge_graphs(release: str, model: str, cluster: str, precision: str, task: str) -> str:
    """Whether the recipe of a container puts the kernels of a dense model into CUDA graphs.

    :data:`RECIPES` have it for pretraining. Of LoRA, ``scripts/performance/configs`` of NVIDIA-NeMo/Megatron-Bridge say
    it from 25.11 on: the scope is ``mlp``, a part of a layer.
    """
    blackwell = cluster.removeprefix("dgx-").startswith(("b", "gb"))
    if task == "lora" and model == "llama3-70b" and blackwell and release >= "25.11":
        return "partial"
    found = recipe(release, model, cluster, precision) if task == "pretrain" else {}
    return found.get("graphs", "none")


NO_RECIPE = {"graphs": "none", "dispatcher": "all_to_all", "overlap_experts": "no", "fused_experts": "no"}
"""What runs with experts do with kernels, without a recipe."""


def bridge_kernels(release: str, model: str, cluster: str, precision: str, task: str) -> dict[str, str]:
    """What the recipe of a container does with kernels: graphs, and what concerns experts."""
    if not model.startswith(EXPERTS):
        return {"graphs": bridge_graphs(release, model, cluster, precision, task)}
    found = recipe(release, model, cluster, precision)
    cells = {name: found.get(name, usual) for name, usual in NO_RECIPE.items()}
    if cells["dispatcher"] == "fused":
        cells["dispatch_multiprocessors"] = dispatch_multiprocessors(release, model, cluster)
    narrow = model in ("deepseek-v3", "gpt-oss-120b") and cells["fused_experts"] == "yes"
    eight = precision == "mxfp8" and any(
        release >= since and model.startswith(start) and cluster.removeprefix("dgx-").startswith(clusters)
        for since, start, clusters in NARROW_ATTENTION
    )
    return {
        **cells,
        "narrow_output": "yes" if narrow else "no",
        "narrow_attention": "yes" if eight else "no",
    }


def nvidia_parameters(release: str, model: str, cluster: str, precision: str) -> dict[str, str]:
    """Whether parameters are kept and gathered in 8 or 4 bits in the recipe of a container, and whether that overlaps.

    From ``mixed_precision.py`` of NeMo 2.0 to 2.4 and of Megatron-Bridge, tags v0.1.0rc4 to v0.5.0: ``fp8_params``,
    then ``fp8_param_gather`` and ``fp4_param_gather``, which recipes of blocks (DeepSeek-V3 on H100), of GPT-OSS and of
    Kimi K2 turn off. Containers before 24.12 are those of the launcher, whose examples do not set it. Recipes of MXFP8
    do not overlap it in 25.07 and 25.11 (``scripts/performance``).
    """
    wide = model.startswith(("gpt-oss", "kimi")) or (model, cluster) == ("deepseek-v3", "dgx-h100")
    since = {"fp8": "24.12", "mxfp8": "25.07", "nvfp4": "26.06"}.get(precision)
    if since is None:
        return {}
    found = {"narrow_parameters": "yes" if release >= since and not wide else "no"}
    if precision == "mxfp8" and release in ("25.07", "25.11"):
        found["overlap_parameters"] = "no"
    return found


def dispatch_multiprocessors(release: str, model: str, cluster: str) -> str:
    """Multiprocessors that the recipe of a container lends to the kernels that send tokens to experts.

    Recipes for performance give HybridEP 32 (``moe_hybridep_num_sms`` in ``scripts/performance``); DeepEP has the 20 of
    Megatron Core (``moe_deepep_num_sms``): on H100 at first, and in DeepSeek-V3 on B200 from 26.06 on.
    """
    deepep = {
        "dgx-h100": release < "26.02" or (model == "qwen3-30b-a3b" and release < "26.04"),
        "dgx-b200": model == "deepseek-v3" and release >= "26.06",
    }
    return "20" if deepep.get(cluster, False) else "32"


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
            if cluster == "gb300-nvl72" and model == "llama3-70b" and task == "pretrain" and precision in NARROW:
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


def dgxc_recompute(model: str, cluster: str) -> dict[str, str]:
    """Recomputation and attention of DeepSeek-V3 in DGX Cloud recipes: ``deepseek_v3/pretraining/launch.sh``.

    On Blackwell, Transformer Engine fuses attention whose keys have 192 and values 128 elements from cuDNN 9.11 on,
    which is newer than NeMo 25.04.01.
    """
    if model != "deepseek-v3":
        return {}
    if cluster == "dgx-h100":
        return {"recompute": "selective", "recompute_modules": "mla_up_proj"}
    return {"recompute": "selective", "recompute_modules": "core_attention", "attention": "unfused"}


def dgxc(folder: Path) -> list[Row]:
    """NVIDIA's DGX Cloud recipes: step times of three releases."""
    rows = []
    for at in read(folder, "nvidia_dgxc_benchmarking.csv"):
        cluster, model = SYSTEMS.get(at["gpu"], at["gpu"].lower()), nvidia_model(at["model"])
        task = "lora" if "LORA" in at["model"] else "sft" if "SFT" in at["model"] else "pretrain"
        tp, pp = whole(at["tp"], 1) or 1, whole(at["pp"], 1) or 1
        vp = whole(at["vp"], 1) if pp > 1 else 1
        gpus = int(at["gpus"])
        jax = at["model"].startswith("Maxtext")
        readings = []
        group = None
        if jax:
            product = re.fullmatch(r"ici(\d+)\*dcn(\d+)", at["fsdp"])
            group = int(product[1]) * int(product[2]) if product else int(at["fsdp"])
        experts = model.startswith(EXPERTS)
        etp = whole(at["etp"])
        if experts and etp is None:
            etp = tp
            readings.append("etp = tp, Megatron's default")
        micro = whole(at["mbs"])
        if micro is None:
            micro = 1
            readings.append("micro-batch 1, as later releases print it")
        reason = None
        if at["self_check"]:
            reason = f"its source contradicts itself: {at['self_check']}"
        elif at["release"] == "v25.04.02" and model == "nemotron4-340b":
            reason = "virtual stages are blank, and twin rows of other releases have 12"
        elif pp > 12 and task != "pretrain":
            reason = f"pp {pp} is a slip of the source"
        layers = whole(at["layers"])
        common = nvidia(tp, vp or 1, cluster, model, task)
        if jax:
            common |= {"overlap_pipeline": "", "gradient_type": None}
        if model == "deepseek-v3":
            # `tp_comm_overlap=False` in scripts/performance/llm/pretrain_deepseek_v3.py of NeMo 2.3.
            common |= {"overlap_tp": "no"}
        rows.append(
            made(
                *("dgxc", at, model, cluster, gpus),
                **(common | {"calibrates": ""} if jax else common),
                framework="maxtext" if jax else "megatron",
                layers=layers if layers and layers != LAYERS.get(model) else None,
                tp=tp,
                pp=pp,
                virtual_stages=vp,
                cp=whole(at["cp"], 1),
                ep=whole(at["ep"], 1) if experts else None,
                etp=etp if experts else None,
                zero=3 if jax else 1,
                shard_group=group if group and group != gpus else None,
                micro_batch=micro,
                global_batch=whole(at["gbs"]),
                sequence=whole(at["seq"]),
                precision=at["precision"].lower(),
                # `fp8_params` of the launcher's configurations, and of NeMo 2.0's recipe.
                narrow_parameters="yes" if at["precision"] == "FP8" and not jax else None,
                **(
                    {
                        "recompute": "full" if jax else None if experts else "none",
                        "recompute_modules": "all but qkv" if jax else "",
                    }
                    | dgxc_recompute(model, cluster)
                ),
                step_s=float(at["step_time_s"]),
                mfu=float(at["mfu_reported"].rstrip("%")) if at["mfu_reported"] else None,
                reading="; ".join(readings),
                excluded=reason,
            )
        )
    return rows


def automodel(folder: Path) -> list[Row]:
    """NeMo Automodel: PyTorch's FSDP2. It does not say what is recomputed."""
    rows = []
    for at in read(folder, "nemo_automodel.csv"):
        model = nvidia_model(at["Model"])
        task = "lora" if "LoRA" in at["section"] else "pretrain"
        experts = model.startswith(EXPERTS)
        tp, pp = whole(at["TP"], 1) or 1, whole(at["PP"], 1) or 1
        vp = whole(at["VP"], 1)
        rows.append(
            made(
                *("automodel", at, model, "dgx-h100", whole(at["#GPUs"])),
                framework="fsdp2",
                task=task,
                calibrates="experts" if task == "pretrain" and experts else "",
                tp=tp,
                sequence_parallel="yes" if tp > 1 else "no",
                pp=pp,
                virtual_stages=vp if pp > 1 else 1,
                cp=whole(at["CP"], 1),
                ep=whole(at["EP"], 1) if experts else None,
                etp=1 if experts else None,
                zero=3,
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
        narrow = at["Precision"] == "MXFP8"
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
                recompute="" if h100 else "selective" if narrow else "none",
                recompute_modules="moe_act layernorm" if narrow else "",
                offload="expert_fc1 moe_act" if "offloading" in at["Notes"] else "",
                graphs="" if h100 else "partial",
                dispatcher="" if h100 else "fused",
                dispatch_multiprocessors="" if h100 else "16",
                overlap_experts="" if h100 else "yes" if narrow and sequence == 4096 else "no",
                step_s=None if rate is None else batch * sequence * per_token / (rate * gpus),
                reading="" if h100 else "step time from FLOP/s, with the FLOP that Megatron-Bridge counts for a token",
                excluded="stages, experts' parallelism and micro-batch are not given" if h100 else None,
            )
        )
    return rows


# --------------------------------------------------------------------------------------------------------------------
# MLPerf Training
# --------------------------------------------------------------------------------------------------------------------

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


def mlperf_narrow_attention(at: Row, cluster: str | None, model: str, tp: int | None, cp: int | None) -> bool:
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


def mlperf_narrow_parameters(at: Row, model: str, *, fp4: bool) -> bool:
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
                narrow_attention="yes" if mlperf_narrow_attention(at, cluster, model, tp, cp) else None,
                narrow_parameters="yes" if mlperf_narrow_parameters(at, model, fp4=fp4) else None,
                lora=16 if lora else None,
                step_s=float(at["step_time_s_median"]) if at["step_time_s_median"] else None,
                reading="; ".join(readings) if reason is None else "",
                excluded=reason,
            )
        )
    return rows


# --------------------------------------------------------------------------------------------------------------------
# FSDP and ZeRO
# --------------------------------------------------------------------------------------------------------------------


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


def maxtext(folder: Path) -> list[Row]:
    """MaxText's README: FLOP/s without configurations, mostly of TPUs."""
    rows = []
    for at in read(folder, "maxtext_tpu_gpu.csv"):
        tpu = "h100" not in at["Hardware"]
        reason = "no accelerator TPU" if tpu else "batch, sequence and step time are not published"
        model = "llama2-7b" if at["section"] == "Llama2-7B" else "llama2-70b"
        rows.append(made("maxtext", at, model, "dgx-h100", None, framework="maxtext", excluded=reason))
    return rows


# --------------------------------------------------------------------------------------------------------------------


NEWEST_LAST = ("dgxc",)
"""Tables whose later rows restate earlier ones: the later row counts. In others the first one counts."""


def mark_repeats(rows: list[Row]) -> None:
    """Excludes rows that restate another of the same data set: same run, same result to the last digit."""
    seen: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if row["excluded"] or not row["step_s"] or row["dataset"] == "nanotron":
            continue
        key = tuple(row[name] for name in ("dataset", "model", "layers", "cluster", "gpus", "global_batch", "sequence"))
        key += tuple(row[name] for name in ("precision", "task", "step_s"))
        first = seen.get(key)
        if first is None:
            seen[key] = row
            continue
        older, newer = (first, row) if row["dataset"] in NEWEST_LAST else (row, first)
        older.update(excluded=f"repeats {newer['id']}", calibrates="", filters="")
        seen[key] = newer


def runs(folder: Path) -> list[Row]:
    """All rows, in the order of the tables."""
    tables = (megatron, vtrain, bloom, nanotron, nemo, dgxc, automodel, long_sequences, model_zoo, mlperf, torchtitan)
    rows = [row for table in (*tables, mosaic, internevo, simumax, maxtext) for row in table(folder)]
    mark_repeats(rows)
    if len({row["id"] for row in rows}) != len(rows):
        raise ValueError("two rows have one id")
    return rows


def text(rows: list[Row]) -> str:
    """The rows as CSV."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def main() -> int:
    """Writes or checks ``runs.csv``; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the source tables")
    parser.add_argument("--check", action="store_true", help="compare with runs.csv instead of writing it")
    arguments = parser.parse_args()
    made_text, target = text(runs(arguments.folder)), HERE / "runs.csv"
    if arguments.check:
        same = target.read_text(encoding="utf-8") == made_text
        sys.stderr.write("" if same else "runs.csv differs from what its sources give\n")
        return 0 if same else 1
    target.write_text(made_text, encoding="utf-8", newline="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
