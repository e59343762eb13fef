"""Which key of a job file each key of torchtitan's TOML file becomes.

Defaults and rules are those of torchtitan 0.2: ``torchtitan/config/job_config.py``, ``torchtitan/distributed``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.input.problem import divisors
from syncline.models.architecture import Decoder, ExpertSizes
from syncline.models.architectures import named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.estimate.job import Schedule
    from syncline.jobs.given import Given
    from syncline.jobs.settings import Settings
    from syncline.models.architecture import Architecture

MODELS: Mapping[tuple[str, str], str] = {
    ("llama3", "8B"): "llama3-8b",
    ("llama3", "8B_flex"): "llama3-8b",
    ("llama3", "8B_varlen"): "llama3-8b",
    ("llama3", "70B"): "llama3-70b",
    ("llama3", "405B"): "llama3-405b",
    ("qwen3", "8B"): "qwen3-8b",
    ("qwen3", "14B"): "qwen3-14b",
    ("qwen3", "32B"): "qwen3-32b",
    ("qwen3", "30B-A3B"): "qwen3-30b-a3b",
    ("qwen3", "235B-A22B"): "qwen3-235b-a22b",
    ("deepseek_v3", "16B"): "deepseek-v2-lite",
    ("deepseek_v3", "236B"): "deepseek-v2",
    ("deepseek_v3", "671B"): "deepseek-v3",
    ("gpt_oss", "20b"): "gpt-oss-20b",
    ("gpt_oss", "120b"): "gpt-oss-120b",
}
"""Models by torchtitan's names and flavors. Those of DeepSeek-V3's code are of versions 2 and 3.

Source: ``torchtitan/models/*/__init__.py``.
"""
SCHEDULES: Mapping[str, tuple[Schedule, int]] = {
    "1F1B": ("1f1b", 1),
    "Interleaved1F1B": ("1f1b", 2),
    "GPipe": ("gpipe", 1),
    "ZBVZeroBubble": ("zb-v", 2),
    "DualPipeV": ("dualpipe-v", 2),
}
"""Schedules of pipelines that estimates have, and how many chunks of layers their stages have at least.

Source: ``torch.distributed.pipelining.schedules``; chunks without ``pipeline_parallel_layers_per_stage`` are 1 or 2.
"""
_DEFAULT = "default of torchtitan"


def map_settings(settings: Settings, given: Given) -> None:
    """Adds a line for each key of the job file, and notes problems."""
    model = _model(settings, given)
    layers, experts = (None, False) if model is None else (model.layers, model.experts is not None)
    degree = {
        name: settings.whole(f"parallelism.{name}_degree", 1) or 1
        for name in ("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel_replicate")
    }
    tensor, pipeline = degree["tensor_parallel"], degree["pipeline_parallel"]
    context, replicate = degree["context_parallel"], degree["data_parallel_replicate"]
    shard = settings.whole("parallelism.data_parallel_shard_degree", -1, least=-1)
    inner = tensor * pipeline * context
    gpus, said = given.gpus, given.gpus_said
    if gpus is None and shard is not None and shard > 0:
        gpus, said = inner * replicate * shard, "the product of all degrees"
    settings.put("cluster.accelerator", given.accelerator, note=given.accelerator_said)
    if gpus is None:
        settings.problem("gpus", "the number of accelerators is not in the file", help="add --gpus N")
        gpus = inner * replicate
    settings.put("cluster.gpus", gpus, note=said)
    settings.put("framework", "torchtitan", *_compiled(settings))
    if shard is None or shard < 1:
        shard = max(gpus // (inner * replicate), 1)
    elif gpus != inner * replicate * shard:
        settings.problem(
            "parallelism.data_parallel_shard_degree",
            f"the product of all degrees is not {gpus} accelerators",
            allowed=str(max(gpus // (inner * replicate), 1)),
        )
    _parallel(settings, tensor, pipeline, context, replicate, shard, layers)
    if experts:
        _experts(settings, tensor)
    _batch(settings, pipeline, replicate * shard)
    _training(settings, experts=experts, shard=shard)
    _overlap(settings, shard * context > 1 or replicate > 1)


_COMPILE = ("compile.enable", "training.compile")
"""Whether PyTorch compiles the model, by the names of today and of older versions."""


def _compiled(settings: Settings) -> list[str]:
    """The settings by which PyTorch compiles the model, as estimates count; without any, a note says so."""
    on = [name for name in _COMPILE if settings.has(name) and settings.found[name].value is True]
    components = [name for name in ("compile.components",) if settings.has(name)]
    parts = [settings.found[name].value for name in components]
    if on and all(not isinstance(each, list) or "model" in each for each in parts):
        return [*on, *components]
    settings.warnings.append("the model is not compiled (compile.enable); estimates count compiled ones, as measured")
    return []


def _model(settings: Settings, given: Given) -> Architecture | None:
    """Sets the model; returns it, if it is known."""
    names = ("model.name", "model.flavor")
    name, flavor = settings.word(names[0]), settings.word(names[1])
    if given.model is not None:
        settings.put("model", given.model, note=f"--model {given.model}")
        return given.architecture
    found = MODELS.get((str(name), str(flavor)))
    if found is None:
        said = " ".join(each for each in (name, flavor) if each is not None)
        near = ", ".join(f"{a} {b}" for a, b in MODELS if a == name) or ", ".join(sorted({a for a, _ in MODELS}))
        settings.problem(
            names[1] if settings.has(names[1]) else names[0],
            "nothing names the model" if name is None else f"the sizes of `{said}` are in torchtitan's code",
            allowed=near,
            help="add --model NAME, a model's name or the path of its config.json",
        )
        return None
    model = named(found)
    if model.prediction_layers:
        sizes = Decoder.model_validate(
            {key: value for key, value in model.model_dump().items() if key in Decoder.model_fields}
            | {"prediction_layers": 0, "experts": _expert_sizes(model)}
        )
        said = f"{found}, which torchtitan trains without multi-token prediction"
        for key, value in sizes.model_dump(exclude_defaults=True).items():
            for inner, each in value.items() if isinstance(value, dict) else [("", value)]:
                settings.put(f"model.{key}.{inner}".rstrip("."), each, *names, note=said if key == "hidden" else "")
    else:
        settings.put("model", found, *names)
    return model


def _expert_sizes(model: Architecture) -> dict[str, Any] | None:
    return None if model.experts is None else model.experts.model_dump(include=set(ExpertSizes.model_fields))


def _parallel(
    settings: Settings, tensor: int, pipeline: int, context: int, replicate: int, shard: int, layers: int | None
) -> None:
    settings.put("parallel.tensor", tensor, "parallelism.tensor_parallel_degree")
    if tensor > 1:
        settings.put("parallel.sequence_parallel", tensor > 1, note="torchtitan's tensor parallelism has it")
    settings.put("parallel.pipeline", pipeline, "parallelism.pipeline_parallel_degree")
    _stages(settings, pipeline, layers)
    settings.put("parallel.context", context, "parallelism.context_parallel_degree")
    rotate = "parallelism.context_parallel_rotate_method"
    method = settings.word(rotate, "allgather", "alltoall", default="allgather")
    if context > 1:
        note = "" if settings.has(rotate) else _DEFAULT
        settings.put("parallel.context_method", "ring" if method == "alltoall" else "all_gather", rotate, note=note)
    keeps = settings.word("parallelism.fsdp_reshard_after_forward", "default", "always", "never", default="default")
    names = (
        "parallelism.data_parallel_shard_degree",
        "parallelism.data_parallel_replicate_degree",
        "parallelism.fsdp_reshard_after_forward",
    )
    divided = shard * context > 1 or replicate == 1
    note = "" if settings.said(*names) else f"{_DEFAULT}: FSDP over all data-parallel ranks"
    settings.put("parallel.zero", 2 if keeps == "never" and divided else 3 if divided else 0, *names, note=note)
    if keeps == "always" and pipeline > 1:
        settings.warnings.append("fsdp_reshard_after_forward: estimates keep the parameters of a pipeline's stage")
    if divided and replicate > 1:
        settings.put("parallel.shard_group", shard * context, "parallelism.data_parallel_replicate_degree")


def _experts(settings: Settings, tensor: int) -> None:
    """How experts are divided: without expert parallelism as all else is, by tensor parallelism."""
    names = ("parallelism.expert_parallel_degree", "parallelism.expert_tensor_parallel_degree")
    expert, inside = settings.whole(names[0], 1) or 1, settings.whole(names[1], 1) or 1
    settings.put("parallel.expert", expert, names[0])
    if expert > 1:
        settings.put("parallel.expert_tensor", inside, names[1])
    elif tensor > 1:
        settings.put("parallel.expert_tensor", tensor, note="without expert parallelism, that of tensor parallelism")
    name = "parallelism.expert_parallel_comm_backend"
    backend = settings.word(name, "standard", "deepep", default="standard")
    if expert > 1:
        note = "" if settings.has(name) else _DEFAULT
        settings.put("dispatcher", "fused" if backend == "deepep" else "all_to_all", name, note=note)


def _stages(settings: Settings, pipeline: int, layers: int | None) -> None:
    prefix = "parallelism.pipeline_parallel_"
    less = [settings.whole(f"{prefix}{end}_stage_less_layers", 1, least=0) for end in ("first", "last")]
    each = settings.whole(f"{prefix}layers_per_stage")
    schedule = settings.word(f"{prefix}schedule", default="1F1B")
    if pipeline == 1:
        return
    if schedule is None or schedule not in SCHEDULES:
        settings.problem(
            f"{prefix}schedule", "this schedule cannot be estimated", allowed=", ".join(SCHEDULES), near="1F1B"
        )
        return
    if less[0] != less[1] or less[0] not in (0, 1):
        settings.problem(
            f"{prefix}first_stage_less_layers" if less[0] not in (0, 1) else f"{prefix}last_stage_less_layers",
            "estimates have stages of equal numbers of layers, or first and last ones with one layer less",
            allowed="0 for both, or 1 for both",
        )
        return
    names = (f"{prefix}first_stage_less_layers", f"{prefix}last_stage_less_layers")
    note = "" if settings.said(*names) else _DEFAULT
    settings.put("parallel.split", "ends" if less[0] else "even", *names, note=note)
    order, chunks = SCHEDULES[schedule]
    settings.put(
        "parallel.schedule", order, f"{prefix}schedule", note="" if settings.has(f"{prefix}schedule") else _DEFAULT
    )
    why: tuple[str, ...] = (f"{prefix}schedule",)
    if each is not None and layers:
        # Both ends count as many layers as they have less.
        whole = -(-(layers + 2 * (less[0] or 0)) // each)
        wrong = whole < 2 * pipeline if schedule == "Interleaved1F1B" else whole != chunks * pipeline
        if whole % pipeline or wrong:
            settings.problem(
                f"{prefix}layers_per_stage",
                f"{layers} layers make {whole} chunks, which {pipeline} stages of {schedule} cannot have",
                allowed=f"layers for {chunks * pipeline} chunks",
            )
        else:
            chunks, why = whole // pipeline, (*why, f"{prefix}layers_per_stage")
    if chunks > 1:
        settings.put("parallel.virtual_stages", chunks, *why)


def _batch(settings: Settings, pipeline: int, replicas: int) -> None:
    settings.put(
        "batch.sequence",
        settings.whole("training.seq_len", 2048),
        "training.seq_len",
        note="" if settings.has("training.seq_len") else _DEFAULT,
    )
    names = ("training.local_batch_size", "training.batch_size")
    local = settings.whole(names[0]) or settings.whole(names[1]) or 8
    note = "" if settings.said(*names) else _DEFAULT
    micro = settings.whole("parallelism.pipeline_parallel_microbatch_size", 1) or 1
    # Versions before 0.1 say how many micro-batches there are.
    older = "parallelism.pipeline_parallel_microbatches"
    count = settings.whole(older)
    if pipeline > 1 and count is not None:
        settings.put("batch.micro_batch", max(local // count, 1), older, *names)
        if local % count:
            fit = ", ".join(map(str, divisors(local)))
            settings.problem(older, f"the batch of a rank, {local}, does not divide into micro-batches", allowed=fit)
    elif pipeline > 1:
        name = "parallelism.pipeline_parallel_microbatch_size"
        settings.put("batch.micro_batch", micro, name, note="" if settings.has(name) else _DEFAULT)
        if local % micro:
            settings.problem(names[0], "the batch of a rank does not divide into micro-batches", allowed=f"n x {micro}")
    else:
        settings.put("batch.micro_batch", local, *names, note=note)
    whole = settings.whole("training.global_batch_size", -1, least=-1)
    if whole is not None and whole > 0:
        settings.put("batch.global_batch", whole, "training.global_batch_size")
    else:
        said = f"the batch of each of {replicas} data-parallel ranks"
        settings.put("batch.global_batch", local * replicas, *names, note=said)


def _training(settings: Settings, *, experts: bool, shard: int) -> None:
    converters = settings.raw("model.converters") or []
    names = [str(each) for each in converters] if isinstance(converters, list) else []
    old = settings.flag("float8.enable_float8_linear")
    kind = settings.word("training.mixed_precision_param", "bfloat16", "float32", default="bfloat16")
    if kind == "float32":
        settings.problem("training.mixed_precision_param", "training in FP32 cannot be estimated", allowed="bfloat16")
    if any("mx" in each.split(".") for each in names):
        settings.put("precision", "mxfp8", "model.converters")
    elif old or any("float8" in each for each in names):
        settings.put("precision", "fp8", "model.converters", "float8.enable_float8_linear")
    else:
        note = "" if settings.has("training.mixed_precision_param") else _DEFAULT
        settings.put("precision", "bf16", "training.mixed_precision_param", note=note)
    _narrow(settings, names, experts=experts, old=old)
    _gathered(settings, shard)
    settings.put("gradients", "fp32", note="torchtitan reduces gradients in 32 bits")
    optimizer = settings.word("optimizer.name", default="AdamW")
    if optimizer not in ("Adam", "AdamW"):
        settings.problem("optimizer.name", "only the optimizer Adam can be estimated", allowed="Adam, AdamW")
    _recompute(settings)
    settings.put("attention", "fused", note="scaled_dot_product_attention")


def _narrow(settings: Settings, converters: Sequence[str], *, experts: bool, old: bool) -> None:
    """Which products have 8 bits beside those of layers: filters name those that do not."""
    kinds = [kind for kind in ("float8", "mx") if any(kind in each.split(".") for each in converters)]
    if old:
        kinds.append("float8")
    for kind, default in (("float8", []), ("mx", ["output"])):
        name = f"quantize.linear.{kind}.filter_fqns"
        given = settings.raw(name)
        kept = given if isinstance(given, list) else default
        if kind in kinds and "output" not in kept and not all("grouped_mm" in each for each in converters):
            note = "" if settings.has(name) else f"{_DEFAULT}: all linear layers"
            settings.put("low_precision_output_layer", True, name, note=note)  # noqa: FBT003 - the value
    if kinds and experts and not any("grouped_mm" in each for each in converters):
        settings.warnings.append(
            "experts keep 16 bits without a converter of grouped_mm; estimates count the type above"
        )


def _gathered(settings: Settings, shard: int) -> None:
    """Parameters that FSDP gathers in 8 bits, which torchtitan has without a recipe alone (``float8.py``)."""
    before = "quantize.linear.float8."
    name, recipe = f"{before}enable_fsdp_float8_all_gather", f"{before}recipe_name"
    if not settings.flag(name):
        return
    eight = any(line.path == ("precision",) and line.value == "fp8" for line in settings.lines)
    if eight and settings.has(recipe) and not settings.found[recipe].off:
        said = settings.said(recipe)
        settings.problem(name, "torchtitan gathers FP8 only where float8 has no recipe", help=f"remove {said}")
    elif eight and shard > 1:
        settings.put("low_precision_parameters", True, name)  # noqa: FBT003 - the value
    else:
        why = "nothing is divided" if eight else "without float8"
        settings.put("low_precision_parameters", False, name, note=f"without effect: {why}")  # noqa: FBT003 - the value


def _recompute(settings: Settings) -> None:
    names = ("activation_checkpoint.mode", "activation_checkpoint.selective_ac_option")
    mode = settings.word(names[0], "none", "full", "selective", "memory_budget", default="selective")
    option: Any = settings.raw(names[1])
    option = "2" if option is None else str(option)
    note = "" if settings.has(names[0]) else _DEFAULT
    if mode in ("none", "full"):
        settings.put("recompute", mode, *names)
    elif mode == "selective" and option == "op":
        settings.put("recompute", "operators", *names, note=note)
    elif mode == "selective" and option == "1":
        settings.put("recompute", "full", *names, note=note)
    elif mode == "selective":
        settings.problem(
            names[1],
            f"estimates recompute every layer, or in each every second product, and not every layer of {option}",
            allowed="op, 1",
            help='write mode = "full", or selective_ac_option = "op"',
        )
    else:
        settings.problem(
            names[0], "which operations a memory budget recomputes is not known", allowed="none, selective, full"
        )


def _overlap(settings: Settings, exchanges: bool) -> None:  # noqa: FBT001 - private
    if settings.flag("training.enable_cpu_offload"):
        settings.put("offload.optimizer", 1.0, "training.enable_cpu_offload")
        settings.warnings.append(
            "training.enable_cpu_offload: estimates keep sharded parameters and gradients on the accelerator"
        )
    tensor = settings.flag("parallelism.enable_async_tensor_parallel")
    settings.put("overlap.tensor", tensor, "parallelism.enable_async_tensor_parallel")
    settings.put("overlap.gradients", exchanges, note="FSDP reduces gradients during the backward pass")
    settings.put("overlap.parameters", exchanges, note="FSDP gathers the next layer during a layer")
    settings.put("overlap.pipeline", value=False)
