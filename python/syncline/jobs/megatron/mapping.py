"""Which key of a job file each setting of Megatron-LM becomes.

Names are those of Megatron-LM's arguments, without dashes. Defaults and rules are those of
``megatron/training/arguments.py`` (``validate_args``), unless a comment names another source.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from syncline.estimate.software import vocab_multiple
from syncline.input.problem import nearest
from syncline.jobs.megatron.arguments import arguments
from syncline.jobs.megatron.pipeline_layout import chunks, split_of
from syncline.jobs.settings import MOST
from syncline.models.architecture import LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from syncline.jobs.given import Given
    from syncline.jobs.settings import Settings

TOKENIZERS: Mapping[str, tuple[int, str]] = {
    "GPT2BPETokenizer": (50257, "tokens of GPT-2"),
    "Llama2Tokenizer": (32000, "tokens of Llama 2"),
}
"""Tokens of tokenizers that have a fixed vocabulary.

Sources: Radford et al. (2019); Touvron et al. (Llama 2, 2023), section 2.2.
"""


_EXPERTS = ("num-experts", "num-moe-experts")
"""Names of the number of experts."""


def map_settings(settings: Settings, given: Given) -> None:
    """Adds a line for each key of the job file, and notes problems."""
    tensor = settings.whole("tensor-model-parallel-size") or settings.whole("model-parallel-size") or 1
    named = given.architecture
    experts = any(map(settings.has, _EXPERTS)) or (named is not None and named.experts is not None)
    if given.model is not None:
        settings.put("model", given.model, *_SIZES, note=f"--model {given.model}")
    else:
        _model(settings, given)
    settings.put("cluster.accelerator", given.accelerator, note=given.accelerator_said)
    if given.gpus is not None:
        settings.put("cluster.gpus", given.gpus, note=given.gpus_said, mark=given.gpus_mark)
    settings.put("framework", "megatron")
    _padding(settings)
    _parallel(settings, tensor, experts=experts)
    _zero(settings, given, tensor)
    _batch(settings, given, tensor)
    _training(settings)
    _kernels(settings, experts=experts)
    _overlap(settings, experts=experts)
    _other(settings)


# The model

_SIZES = (
    "hidden-size",
    "num-attention-heads",
    "num-query-groups",
    "group-query-attention",
    "ffn-hidden-size",
    "vocab-size",
    "tokenizer-type",
)
"""Sizes that a named model replaces."""


def _model(settings: Settings, given: Given) -> None:
    need = _needs(settings)
    hidden, layers = need("hidden-size"), need("num-layers", LAYERS)
    heads = need("num-attention-heads")
    settings.put("model.hidden", hidden, "hidden-size")
    settings.put("model.layers", layers, "num-layers")
    settings.put("model.heads", heads, "num-attention-heads")
    if settings.flag("group-query-attention"):
        groups = settings.whole("num-query-groups", 1)
        settings.put("model.kv_heads", groups, "group-query-attention", "num-query-groups")
    else:
        settings.raw("num-query-groups")
    latent = _latent(settings)
    if (size := settings.whole("kv-channels")) is not None and not latent:
        settings.put("model.head_dim", size, "kv-channels")
    gated = any([settings.flag("swiglu"), settings.flag("gated-linear-unit"), settings.flag("quick-geglu")])
    ffn = settings.whole("ffn-hidden-size")
    if ffn is None:
        # Two thirds of four times the hidden size with a gate, in multiples of 64.
        ffn = int(4 * hidden * 2 / 3) // 64 * 64 if settings.flag("swiglu") else 4 * hidden
        settings.put("model.ffn", ffn, note=f"default of {settings.software}")
    else:
        settings.put("model.ffn", ffn, "ffn-hidden-size")
    if gated:
        settings.put("model.gated", gated, "swiglu", "gated-linear-unit", "quick-geglu")
    _vocabulary(settings, given)
    untied = settings.flag("untie-embeddings-and-output-weights")
    if untied:
        settings.put("model.tied", not untied, "untie-embeddings-and-output-weights")
    else:
        settings.put("model.tied", not untied, note=f"default of {settings.software}")
    _positions(settings)
    _dropout(settings)
    _window(settings)
    _experts(settings, layers, ffn)
    if more := settings.whole("mtp-num-layers", 0, least=0):
        settings.put("model.prediction_layers", more, "mtp-num-layers")


def _needs(settings: Settings) -> Callable[..., int]:
    def need(name: str, most: int = MOST) -> int:
        value = settings.whole(name, most=most)
        if value is None and not settings.has(name):
            settings.problem(name, f"missing `{settings.name(name)}`", help=f"add {settings.name(name)}")
        return value or 1

    return need


def _vocabulary(settings: Settings, given: Given) -> None:
    tokenizer = settings.word("tokenizer-type")
    whole, size = settings.whole("padded-vocab-size"), settings.whole("vocab-size")
    if whole is not None:
        settings.put("model.vocab", whole, "padded-vocab-size")
        return
    why = ""
    names: tuple[str, ...] = ("vocab-size",)
    if given.vocab is not None:
        size, why, names = given.vocab, f"--vocab {given.vocab}", ()
    elif size is not None and tokenizer == "NullTokenizer":
        size, why, names = size + 1, "one more token of NullTokenizer", ("vocab-size", "tokenizer-type")
    elif size is None and tokenizer is None and settings.has("vocab-file") and settings.has("merge-file"):
        # The files of GPT-2's byte pairs.
        size, why, names = TOKENIZERS["GPT2BPETokenizer"][0], TOKENIZERS["GPT2BPETokenizer"][1], ("vocab-file",)
    elif size is None and tokenizer is not None and tokenizer in TOKENIZERS:
        size, why = TOKENIZERS[tokenizer]
        why, names = f"{size:,} {why}", ("tokenizer-type",)
    if size is None:
        settings.problem(
            "vocab-size", "the size of the vocabulary is in files of the tokenizer", help="add --vocab TOKENS"
        )
        return
    settings.put("model.vocab", size, *names, note=why)


def _padding(settings: Settings) -> None:
    """To a multiple of what the vocabulary is padded for each tensor-parallel rank."""
    name = "make-vocab-size-divisible-by"
    unit = settings.whole(name)
    if settings.whole("padded-vocab-size") is not None:
        settings.put("vocab_multiple", 1, "padded-vocab-size")
    elif settings.flag("no-pad-vocab-size"):
        settings.put("vocab_multiple", 1, "no-pad-vocab-size")
    else:
        default = f"default of {settings.software}"
        settings.put("vocab_multiple", unit or vocab_multiple("megatron"), name, note="" if unit else default)


def _positions(settings: Settings) -> None:
    kind = settings.word("position-embedding-type")
    rotary = settings.flag("use-rotary-position-embeddings")
    names = ("position-embedding-type", "use-rotary-position-embeddings")
    if kind in ("rope", "mrope", "yarn") or (kind is None and rotary):
        settings.put("model.positions", "rope", *names)
    elif kind in (None, "learned_absolute"):
        settings.put("model.positions", "learned", *names, note="" if kind else f"default of {settings.software}")
    elif kind == "alibi" and settings.spelled is not None:
        # NeMo has it, and Megatron-LM does not.
        settings.put("model.positions", "alibi", *names)
    elif kind == "none":
        settings.put("model.positions", "alibi", *names, note="no positions: nothing is rotated, as with alibi")
    else:
        settings.bad("position-embedding-type", "rope, mrope, yarn, learned_absolute, none")


def _dropout(settings: Settings) -> None:
    hidden, attention = settings.number("hidden-dropout", 0.1), settings.number("attention-dropout", 0.1)
    names = ("hidden-dropout", "attention-dropout")
    note = "" if settings.has("hidden-dropout") else f"default of {settings.software}"
    settings.put("model.dropout", hidden > 0, *names, note=note)
    if (hidden > 0) != (attention > 0):
        settings.warnings.append("dropout of attention counts as that behind layers (`hidden-dropout`)")


def _latent(settings: Settings) -> bool:
    sizes = {
        "q-lora-rank": ("query_rank", 0, 0),
        "kv-lora-rank": ("kv_rank", 32, 1),
        "qk-head-dim": ("nope_dim", 128, 1),
        "qk-pos-emb-head-dim": ("rope_dim", 64, 1),
        "v-head-dim": ("value_dim", 128, 1),
    }
    latent = settings.flag("multi-latent-attention")
    for name, (key, default, least) in sizes.items():
        value = settings.whole(name, default, least)
        if latent:
            note = "" if settings.has(name) else f"default of {settings.software}"
            settings.put(f"model.latent.{key}", value, name, note=note)
    return latent


def _window(settings: Settings) -> None:
    size, every = settings.raw("window-size"), settings.raw("window-attn-skip-freq")
    if size is None:
        return
    texts = [str(each) for each in size] if isinstance(size, (list, tuple)) else [str(size)]
    numbers = [part for each in texts for part in each.strip("()[] ").replace(",", " ").split()]
    if not numbers or not numbers[0].isdigit():
        settings.bad("window-size", "two numbers of tokens, before and after, such as 127,0")
        return
    # Megatron counts the tokens before a token, which attends to itself too.
    settings.put("model.window.tokens", int(numbers[0]) + 1, "window-size", note="and the token itself")
    single = every[0] if isinstance(every, list) and len(every) == 1 else every
    if single is None:
        settings.put("model.window.full_every", 0)
    elif str(single).isdigit():
        settings.put("model.window.full_every", int(single), "window-attn-skip-freq")
    else:
        settings.bad("window-attn-skip-freq", "a number of layers, of which one attends to all tokens")


def _experts(settings: Settings, layers: int, ffn: int) -> None:
    count = settings.whole(_EXPERTS[0]) or settings.whole(_EXPERTS[1])
    top_k, width = settings.whole("moe-router-topk", 2), settings.whole("moe-ffn-hidden-size", ffn)
    shared, frequency = settings.whole("moe-shared-expert-intermediate-size"), settings.raw("moe-layer-freq")
    groups, top_groups = settings.whole("moe-router-num-groups"), settings.whole("moe-router-group-topk")
    if count is None:
        return
    default = f"default of {settings.software}"
    settings.put("model.experts.count", count, *_EXPERTS)
    settings.put(
        "model.experts.top_k", top_k, "moe-router-topk", note="" if settings.has("moe-router-topk") else default
    )
    said = settings.has("moe-ffn-hidden-size")
    settings.put("model.experts.ffn", width, "moe-ffn-hidden-size", note="" if said else "that of the dense MLP")
    if groups is not None and top_groups is not None:
        settings.put("model.experts.groups", groups, "moe-router-num-groups")
        settings.put("model.experts.top_groups", top_groups, "moe-router-group-topk")
    if shared:
        settings.put("model.experts.shared_ffn", shared, "moe-shared-expert-intermediate-size")
    if frequency is not None:
        found = _layers_with_experts(frequency, layers)
        if found is None:
            settings.bad("moe-layer-freq", "some dense layers and then layers with experts, such as [0]*3+[1]*58, or 1")
        else:
            for key, value in found.items():
                settings.put(f"model.experts.{key}", value, "moe-layer-freq")


def _layers_with_experts(frequency: Any, layers: int) -> dict[str, int] | None:
    """The keys ``every`` or ``dense_layers`` of a frequency; empty if all layers have experts; None if neither fits.

    A number ``n`` stands for every ``n``-th layer; a list has 1 for each layer with experts, and 0 for each other one.
    """
    if isinstance(frequency, str):
        try:
            frequency = _pattern(ast.parse(frequency.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError):
            return None
    if isinstance(frequency, int):
        if frequency < 1 or layers % frequency:
            return None
        return {} if frequency == 1 else {"every": frequency}
    if not isinstance(frequency, (list, tuple)) or any(each not in (0, 1) for each in frequency):
        return None
    dense = next((index for index, each in enumerate(frequency) if each), len(frequency))
    if len(frequency) != layers or not all(frequency[dense:]) or dense >= layers:
        return None
    return {"dense_layers": dense} if dense else {}


def _pattern(node: ast.expr) -> Any:
    """The value of numbers, lists, sums and products."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.List):
        return [_pattern(each) for each in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _pattern(node.left), _pattern(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int):
            if right < 0 or len(left) * right > LAYERS:
                raise ValueError
            return left * right
    raise ValueError


# How it is divided


def _parallel(settings: Settings, tensor: int, *, experts: bool) -> None:
    settings.put("parallel.tensor", tensor, "tensor-model-parallel-size", "model-parallel-size")
    # With one tensor-parallel rank there is nothing to divide.
    sequence = settings.flag("sequence-parallel") and tensor > 1
    if sequence:
        settings.put("parallel.sequence_parallel", sequence, "sequence-parallel")
    pipeline = settings.whole("pipeline-model-parallel-size", 1, most=LAYERS + 2) or 1
    settings.put("parallel.pipeline", pipeline, "pipeline-model-parallel-size")
    _stages(settings, pipeline)
    context = settings.whole("context-parallel-size", 1)
    settings.put("parallel.context", context, "context-parallel-size")
    _context_method(settings, context or 1)
    expert, inside = settings.whole("expert-model-parallel-size", 1), settings.whole("expert-tensor-parallel-size")
    if experts:
        settings.put("parallel.expert", expert, "expert-model-parallel-size")
        note = "" if inside else "default: that of tensor parallelism"
        settings.put("parallel.expert_tensor", inside or tensor, "expert-tensor-parallel-size", note=note)
    elif (expert or 1) > 1:
        settings.problem("expert-model-parallel-size", "the model has no experts", help="leave it out")


_CONTEXT_METHODS = {"p2p": "ring", "all_gather": "all_gather", "a2a": "ulysses", "a2a+p2p": "ring"}
"""Kinds of communication of context parallelism, and their names in job files."""


def _context_method(settings: Settings, context: int) -> None:
    name = "cp-comm-type"
    value = settings.raw(name)
    kinds = {str(each) for each in (value if isinstance(value, list) else [] if value is None else [value])}
    if not kinds:
        return
    if len(kinds) > 1 or not kinds <= set(_CONTEXT_METHODS):
        settings.bad(name, ", ".join(_CONTEXT_METHODS))
        return
    kind = kinds.pop()
    if kind == "a2a+p2p":
        settings.warnings.append("cp-comm-type a2a+p2p counts as a ring of all ranks")
    if context > 1:
        settings.put("parallel.context_method", _CONTEXT_METHODS[kind], name)


def _stages(settings: Settings, pipeline: int) -> None:
    layers = settings.whole("num-layers", most=LAYERS) or 1
    name = "num-layers-per-virtual-pipeline-stage"
    each = settings.whole(name)
    virtual = settings.whole("num-virtual-stages-per-pipeline-rank") or settings.whole(
        "virtual-pipeline-model-parallel-size"
    )
    names: tuple[str, ...] = ("num-virtual-stages-per-pipeline-rank", "virtual-pipeline-model-parallel-size", name)
    ends, split = _split(settings, pipeline)
    blocks = layers + (2 if ends else 0)
    if each is not None:
        if pipeline < 2 or blocks % pipeline or blocks // pipeline % each:
            wanted = sorted(n for n in range(1, blocks + 1) if not blocks % pipeline and not blocks // pipeline % n)
            settings.problem(
                name,
                f"{blocks} layers of {pipeline} stages do not divide into chunks of {each}",
                allowed=", ".join(map(str, wanted)) or "none",
                near=str(min(wanted, key=lambda n: abs(n - each))) if wanted else None,
            )
        else:
            virtual = blocks // pipeline // each
    layout = settings.word("pipeline-model-parallel-layout")
    if layout is not None:
        parts = chunks(layout)
        shape = None if parts is None else split_of(parts)
        if parts is None or shape is None or len(parts) % pipeline:
            settings.bad("pipeline-model-parallel-layout", "chunks of each stage, such as Et|tt|tt|tL")
        else:
            virtual = len(parts) // pipeline
            names = (*names, "pipeline-model-parallel-layout")
            if isinstance(shape, str):
                settings.put("parallel.split", shape, "pipeline-model-parallel-layout")
            else:
                settings.put("parallel.chunk_layers", shape, "pipeline-model-parallel-layout")
    elif split:
        settings.put("parallel.split", "ends", *_ENDS)
    elif (stages := _stage_layers(settings, pipeline)) is not None:
        _unequal(settings, stages, virtual or 1)
    whole = settings.has("num-layers") and layout is None and each is None
    if (
        whole
        and settings.whole("num-layers", most=LAYERS)
        and blocks % (pipeline * (virtual or 1))
        and not settings.said(*_ENDS[2:])
    ):
        _undivided(settings, blocks, pipeline, virtual or 1)
    if virtual is not None and virtual > 1:
        settings.put("parallel.virtual_stages", virtual, *names)


def _undivided(settings: Settings, blocks: int, pipeline: int, virtual: int) -> None:
    """Stages of Megatron Core have equal numbers of layers, unless the settings say otherwise."""
    chunks = f"{pipeline} stages of {virtual} chunks" if virtual > 1 else f"{pipeline} stages"
    fit = [n for n in range(1, blocks + 1) if not blocks % (n * virtual)]
    settings.problem(
        "pipeline-model-parallel-size",
        f"{blocks} layers do not divide into {chunks}",
        allowed=", ".join(map(str, fit)) or "none",
        near=str(min(fit, key=lambda n: abs(n - pipeline))) if fit else None,
    )


_ENDS = (
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
    "decoder-first-pipeline-num-layers",
    "num-layers-in-first-pipeline-stage",
    "decoder-last-pipeline-num-layers",
    "num-layers-in-last-pipeline-stage",
)


def _split(settings: Settings, pipeline: int) -> tuple[bool, str | None]:
    """Whether embedding and output layer count as layers, and the split that says so."""
    embedding, loss = settings.flag(_ENDS[0]), settings.flag(_ENDS[1])
    first = settings.whole(_ENDS[2]) or settings.whole(_ENDS[3])
    last = settings.whole(_ENDS[4]) or settings.whole(_ENDS[5])
    if embedding and loss:
        return True, "ends"
    if embedding or loss:
        settings.problem(
            _ENDS[0] if embedding else _ENDS[1],
            "estimates count both ends as layers, or none",
            help=f"add --{_ENDS[1] if embedding else _ENDS[0]}, or remove this",
        )
        return False, None
    if first is None and last is None:
        return False, None
    layers = settings.whole("num-layers", most=LAYERS) or 1
    inner = (layers - (first or 0) - (last or 0)) / max(pipeline - (first is not None) - (last is not None), 1)
    if first == last and first == inner - 1:
        return True, "ends"
    if (first or inner) == (last or inner) == inner:
        return False, None
    return False, None


def _stage_layers(settings: Settings, pipeline: int) -> list[int] | None:
    """The layers of each stage, where the first or the last one has its own number; None if all have the same."""
    layers = settings.whole("num-layers", most=LAYERS) or 1
    first = settings.whole(_ENDS[2]) or settings.whole(_ENDS[3])
    last = settings.whole(_ENDS[4]) or settings.whole(_ENDS[5])
    if (first is None and last is None) or pipeline == 1:
        return None
    inner = pipeline - (first is not None) - (last is not None)
    left = layers - (first or 0) - (last or 0)
    if left < 0 or (left if inner == 0 else left % inner):
        whole = f"{layers} layers less those of the first and the last stage"
        settings.problem(
            next(name for name in _ENDS[2:] if settings.has(name)),
            f"{whole} do not divide among {inner} other stages",
            allowed=f"numbers that leave a multiple of {inner}" if inner else f"numbers whose sum is {layers}",
        )
        return None
    each = [left // max(inner, 1)] * inner
    made = [*([] if first is None else [first]), *each, *([] if last is None else [last])]
    return None if len(set(made)) == 1 else made


def _unequal(settings: Settings, stages: list[int], virtual: int) -> None:
    """Stages of these numbers of layers, each in equal chunks."""
    if any(each % virtual for each in stages):
        settings.problem(
            next(name for name in _ENDS[2:] if settings.has(name)),
            f"the stages do not divide into {virtual} chunks each",
            allowed=f"multiples of {virtual} for every stage",
        )
        return
    settings.put("parallel.chunk_layers", [each // virtual for each in stages] * virtual, *_ENDS[2:])


_SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}


def _zero(settings: Settings, given: Given, tensor: int) -> None:
    megatron = [name for name in ("use-megatron-fsdp", "use-custom-fsdp") if settings.flag(name)]
    torch = settings.flag("use-torch-fsdp2")
    optimizer = settings.flag("use-distributed-optimizer")
    strategy = settings.word("data-parallel-sharding-strategy", *_SHARDING, default="no_shard") or "no_shard"
    groups = settings.whole("num-distributed-optimizer-instances", 1) or 1
    kept = settings.flag("torch-fsdp2-no-reshard-after-forward")
    if torch:
        names = ("use-torch-fsdp2", "torch-fsdp2-no-reshard-after-forward")
        settings.put("parallel.zero", 2 if kept else 3, *names)
    elif megatron:
        settings.put("parallel.zero", _SHARDING[strategy], *megatron, "data-parallel-sharding-strategy")
    else:
        settings.put("parallel.zero", int(optimizer), "use-distributed-optimizer")
    if groups > 1 and given.gpus is not None:
        pipeline = settings.whole("pipeline-model-parallel-size", 1, most=LAYERS + 2) or 1
        ranks = given.gpus // (tensor * pipeline)
        if ranks % groups:
            settings.problem(
                "num-distributed-optimizer-instances",
                f"{ranks} data-parallel ranks do not divide into this number of instances",
                allowed=f"a divisor of {ranks}",
            )
        else:
            settings.put("parallel.shard_group", ranks // groups, "num-distributed-optimizer-instances")


def _batch(settings: Settings, given: Given, tensor: int) -> None:
    old = settings.has("encoder-seq-length") and not settings.has("seq-length")
    name = "encoder-seq-length" if old else "seq-length"
    need = _needs(settings)
    settings.put("batch.sequence", need(name), name)
    settings.raw("encoder-seq-length")
    micro = settings.whole("micro-batch-size") or settings.whole("batch-size")
    if micro is None:
        need("micro-batch-size")
        micro = 1
    settings.put("batch.micro_batch", micro, "micro-batch-size", "batch-size")
    whole = settings.whole("global-batch-size")
    if whole is not None:
        settings.put("batch.global_batch", whole, "global-batch-size")
    elif given.gpus is not None:
        pipeline = settings.whole("pipeline-model-parallel-size", 1, most=LAYERS + 2) or 1
        context = settings.whole("context-parallel-size", 1) or 1
        replicas = max(given.gpus // (tensor * pipeline * context), 1)
        note = f"default of {settings.software}: one micro-batch of each of {replicas} replicas"
        settings.put("batch.global_batch", micro * replicas, note=note)


# How it trains


def _training(settings: Settings) -> None:
    _precision(settings)
    _recompute(settings)
    _offload(settings)
    backend = settings.word("attention-backend", "auto", "flash", "fused", "unfused", "local")
    flash = settings.flag("use-flash-attn")
    implementation = settings.word("transformer-impl")
    old = [name for name in arguments().known.legacy if settings.has(name)]
    if backend in ("unfused", "local"):
        settings.put("attention", "unfused", "attention-backend")
    elif implementation == "local" and not flash:
        settings.put("attention", "unfused", "transformer-impl")
    elif old and not flash:
        settings.put("attention", "unfused", note=f"versions with --{old[0]} have no other")
    else:
        names = ("attention-backend", "use-flash-attn", "transformer-impl")
        said = settings.said(*names)
        settings.put("attention", "fused", *names, note="" if said else f"default of {settings.software}")
    optimizer = settings.word("optimizer", default="adam")
    if optimizer != "adam":
        settings.problem(
            "optimizer", "estimates have the optimizer Adam alone", allowed="adam", help="write --optimizer adam"
        )


def _precision(settings: Settings) -> None:
    half, single = settings.flag("bf16"), settings.flag("fp16")
    eight, four = settings.word("fp8-format"), settings.word("fp4-format")
    recipe = settings.word("fp8-recipe", "delayed", "tensorwise", "blockwise", "mxfp8", default="delayed")
    if four is not None:
        settings.put("precision", "nvfp4", "fp4-format", "bf16", "fp16")
    elif eight is not None:
        settings.put("precision", "mxfp8" if recipe == "mxfp8" else "fp8", "fp8-format", "fp8-recipe", "bf16", "fp16")
    elif half or single:
        settings.put("precision", "bf16" if half else "fp16", "bf16", "fp16")
    else:
        settings.problem("bf16", "training in 32 bits cannot be estimated", help=f"add {settings.name('bf16')}")
    _gradients(settings, single=single)


def _gradients(settings: Settings, *, single: bool) -> None:
    narrow, wide = settings.flag("grad-reduce-in-bf16"), settings.flag("accumulate-allreduce-grads-in-fp32")
    main = settings.word("main-grads-dtype", "fp32", "bf16", default="fp32")
    types = [settings.word(name, "fp32", "bf16", "fp16", "auto", default="auto") for name in _FSDP_GRADIENTS]
    half = "fp16" if single else "bf16"
    if settings.flag("use-megatron-fsdp") and not wide:
        summed = half if types[0] in (None, "auto") else types[0]
        note = "" if settings.has(_FSDP_GRADIENTS[0]) else "default of Megatron-FSDP: the type of parameters"
        settings.put("gradients", summed, _FSDP_GRADIENTS[0], note=note)
        if not settings.said(*_FSDP_GRADIENTS):
            settings.warnings.append(
                f"gradients are in {half}, as in Megatron-FSDP of Megatron Core 0.17; versions before had 32 bits"
            )
        if types[1] not in (None, "auto", summed):
            settings.warnings.append(
                f"{settings.said(_FSDP_GRADIENTS[1])}: gradients are exchanged in the type in which they are summed"
            )
    elif narrow:
        settings.put("gradients", "bf16", "grad-reduce-in-bf16")
    elif single and not wide:
        settings.put("gradients", "fp16", note=f"default of {settings.software} with --fp16")
    elif main == "bf16" and not wide:
        settings.put("gradients", "bf16", "main-grads-dtype")
    else:
        note = "" if wide else f"default of {settings.software} with --bf16"
        settings.put("gradients", "fp32", "accumulate-allreduce-grads-in-fp32", note=note)


_FSDP_GRADIENTS = ("megatron-fsdp-main-grads-dtype", "megatron-fsdp-grad-comm-dtype")
"""Types of gradients in Megatron-FSDP: as they are summed, and as they are exchanged."""


def _recompute(settings: Settings) -> None:
    old = settings.flag("checkpoint-activations") or settings.has("activations-checkpoint-method")
    granularity = settings.word("recompute-granularity", "full", "selective")
    selective = settings.flag("recompute-activations") or granularity == "selective"
    method = settings.word("recompute-method", "uniform", "block") or settings.word(
        "activations-checkpoint-method", "uniform", "block"
    )
    counts = [
        settings.whole(name)
        for name in ("recompute-num-layers", "activations-checkpoint-num-layers", "checkpoint-num-layers")
    ]
    count = next((each for each in counts if each is not None), None)
    modules = settings.raw("recompute-modules")
    names = (
        "recompute-granularity",
        "recompute-method",
        "recompute-num-layers",
        "checkpoint-activations",
        "activations-checkpoint-method",
        "activations-checkpoint-num-layers",
        "checkpoint-num-layers",
    )
    if granularity == "full" or old:
        settings.put("recompute", "full", *names)
        if method == "block" or (count or 1) > 1:
            settings.put("recompute_method", method or "uniform", *names)
            settings.put("recompute_layers", count or 1, *names)
    elif selective:
        settings.put("recompute", "selective", "recompute-activations", "recompute-granularity")
        given = [_MODULES.get(str(each), str(each)) for each in modules or ()]
        if unknown := [each for each in given if each not in _MODULES.values()]:
            settings.warnings.append(f"recomputation of {', '.join(unknown)} is not modelled")
        if known := [each for each in given if each in _MODULES.values()]:
            settings.put("recompute_modules", known, "recompute-modules")
    else:
        settings.put("recompute", "none")


_MODULES: Mapping[str, str] = {
    "core_attn": "core_attention",
    **{name: name for name in ("layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")},
}
"""Parts of layers that selective recomputation of Megatron Core recomputes, and their names in job files."""


def _offload(settings: Settings) -> None:
    """What lies in the host's memory."""
    layers, kept = (
        settings.whole("cpu-offloading-num-layers", 0, least=0),
        settings.flag("no-cpu-offloading-activations"),
    )
    if layers and not kept:
        settings.put("offload.layers", layers, "cpu-offloading-num-layers", "no-cpu-offloading-activations")
    modules = settings.raw("offload-modules")
    if settings.flag("fine-grained-activation-offloading"):
        words = [
            str(each) for each in (modules if isinstance(modules, (list, tuple)) else [modules] if modules else [])
        ]
        given = [part for each in words for part in each.replace(",", " ").split()]
        if unknown := [each for each in given if each not in _INPUTS]:
            settings.problem(
                "offload-modules",
                "not modules whose inputs can be offloaded",
                allowed=", ".join(_INPUTS),
                near=nearest(unknown[0], list(_INPUTS)),
            )
        elif not given:
            settings.problem(
                "fine-grained-activation-offloading", "no modules to offload", help="add --offload-modules expert_fc1"
            )
        else:
            chosen = list(dict.fromkeys(each for word in given for each in _INPUTS[word]))
            settings.put("offload.modules", chosen, "fine-grained-activation-offloading", "offload-modules")
    part = settings.number("optimizer-offload-fraction", 1.0)
    beside = settings.flag("overlap-cpu-optimizer-d2h-h2d")
    if settings.flag("optimizer-cpu-offload"):
        note = "" if settings.has("optimizer-offload-fraction") else f"default of {settings.software}"
        settings.put("offload.optimizer", part, "optimizer-cpu-offload", "optimizer-offload-fraction", note=note)
        if beside:
            settings.put("overlap.optimizer", beside, "overlap-cpu-optimizer-d2h-h2d")


_INPUTS: Mapping[str, tuple[str, ...]] = {
    "core_attn": ("core_attention",),
    "fused_group_mlp": ("expert_fc1", "moe_act"),
    **{name: (name,) for name in ("attn_norm", "qkv_linear", "attn_proj", "mlp_norm", "expert_fc1", "moe_act")},
}
"""Modules of Megatron Core whose inputs can be offloaded, and their names in job files."""


def _kernels(settings: Settings, *, experts: bool) -> None:
    """CUDA graphs, and what sends tokens to experts."""
    kind = settings.word("moe-token-dispatcher-type", "alltoall", "allgather", "flex", "alltoall_seq")
    deep, backend = settings.flag("moe-enable-deepep"), settings.word("moe-flex-dispatcher-backend")
    if experts and (kind == "flex" or deep):
        names = ("moe-token-dispatcher-type", "moe-enable-deepep", "moe-flex-dispatcher-backend")
        settings.put("dispatcher", "fused", *names)
        old = "moe-hybridep-num-sms" if backend == "hybridep" else "moe-deepep-num-sms"
        for name in ("moe-flex-dispatcher-num-sms", old):
            if settings.has(name) and (count := settings.whole(name)) is not None:
                settings.put("dispatch_multiprocessors", count, name)
                break
    elif experts and kind is not None:
        settings.put("dispatcher", "all_to_all", "moe-token-dispatcher-type")
        if kind == "allgather":
            settings.warnings.append("the dispatcher allgather counts as an all-to-all")
    elif experts and (settings.whole("expert-model-parallel-size") or 1) > 1:
        settings.warnings.append("the dispatcher allgather, which is the default, counts as an all-to-all")
    if backend is not None and experts and kind != "flex" and not deep:
        settings.warnings.append(f"{settings.said('moe-flex-dispatcher-backend')} needs the dispatcher flex")
    settings.used.update(("moe-flex-dispatcher-num-sms", "moe-deepep-num-sms", "moe-hybridep-num-sms"))
    capacity, padded = settings.number("moe-expert-capacity-factor", 0), "moe-pad-expert-input-to-capacity"
    if settings.flag(padded) and capacity > 0 and experts:
        settings.put("expert_load", capacity, "moe-expert-capacity-factor", padded)
    _graphs(settings, experts=experts)
    if settings.flag("fp8-output-proj"):
        settings.put("low_precision_output_layer", settings.has("fp8-format"), "fp8-output-proj")
    _fp8_attention(settings)
    _low_precision_parameters(settings)
    _wide_layers(settings)
    types = [settings.word(name, *_MOMENTS, default="fp32") for name in ("exp-avg-dtype", "exp-avg-sq-dtype")]
    if settings.flag("use-precision-aware-optimizer"):
        names = ("exp-avg-dtype", "exp-avg-sq-dtype", "use-precision-aware-optimizer")
        settings.put("moments", _MOMENTS[types[0] or "fp32"], *names)
        if types[0] != types[1]:
            settings.warnings.append("both moments of Adam count with the type of the first one (`exp-avg-dtype`)")


def _fp8_attention(settings: Settings) -> None:
    """FP8 attention, which Transformer Engine has only in a recipe of FP8, MXFP8 or NVFP4.

    Megatron Core passes `fp8_multi_head_attention` only to the recipe of delayed scaling.
    """
    alone, whole = settings.flag("fp8-dot-product-attention"), settings.flag("fp8-multi-head-attention")
    if not (alone or whole):
        return
    names = [name for name in ("fp8-dot-product-attention", "fp8-multi-head-attention") if settings.has(name)]
    eight, four = settings.has("fp8-format"), settings.has("fp4-format")
    recipe = settings.word("fp8-recipe", "delayed", "tensorwise", "blockwise", "mxfp8", default="delayed")
    if eight and recipe == "blockwise":
        settings.problem(
            names[0],
            "Transformer Engine has no FP8 attention in the recipe blockwise",
            allowed="the recipes delayed, tensorwise and mxfp8",
            help=f"remove {settings.said(names[0])}",
        )
    counts = (eight or four) and (alone or recipe == "delayed")
    why = f"with the recipe {recipe}" if eight or four else "where linear layers have 16 bits"
    settings.put("fp8_attention", counts, *names, note="" if counts else f"without effect {why}")


_BF16_LAYERS = {"first_layers_bf16": "num-layers-at-start-in-bf16", "last_layers_bf16": "num-layers-at-end-in-bf16"}
"""Keys of layers that have 16 bits, and the arguments for their numbers."""


def _wide_layers(settings: Settings) -> None:
    """Layers at both ends that have 16 bits, one at each by default; with delayed scaling, Megatron Core has none."""
    switch = "first-last-layers-bf16"
    if not settings.flag(switch):
        return
    eight = settings.has("fp8-format")
    if not eight and not settings.has("fp4-format"):
        settings.warnings.append(f"{settings.said(switch)} has no effect where linear layers have 16 bits")
        return
    if eight and settings.word("fp8-recipe", default="delayed") == "delayed":
        settings.problem(
            switch,
            "the recipe delayed has 8 bits in all layers",
            allowed="the recipes tensorwise, blockwise and mxfp8",
            help=f"remove {settings.said(switch)}",
        )
    for key, name in _BF16_LAYERS.items():
        note = "" if settings.has(name) else f"default of {settings.software}"
        settings.put(key, settings.whole(name, 1, least=0), switch, name, note=note)


def _low_precision_parameters(settings: Settings) -> None:
    """Parameters in the type of products alone, which a type of this width must have.

    ``reuse-grad-buf-for-mxfp8-param-ag`` says no more: parameters of MXFP8 are gathered in the memory of gradients.
    """
    on = {
        width: [name for name in names if settings.flag(name)]
        for width, names in (("fp8", ("fp8-param-gather", "fp8-param")), ("fp4", ("fp4-param-gather",)))
    }
    for width, names in on.items():
        if not names:
            continue
        if not settings.has(f"{width}-format"):
            settings.problem(
                names[0],
                f"parameters have {width[2:]} bits only where linear layers have them",
                help=f"add {settings.name(f'{width}-format')}, or remove {settings.said(names[0])}",
            )
        elif settings.flag("use-torch-fsdp2"):
            why = "without effect: FSDP2 gathers 16 bits, from version 2.0 of Transformer Engine on"
            settings.put("low_precision_parameters", False, *names, note=why)  # noqa: FBT003 - the value
        elif settings.spelled is None and not any(settings.flag(name) for name in _DIVIDED):
            settings.problem(
                names[0],
                "parameters of 8 bits need an optimizer that ranks divide",
                help=f"add {settings.name(_DIVIDED[0])}, or remove {settings.said(names[0])}",
            )
        else:
            settings.put("low_precision_parameters", True, *names)  # noqa: FBT003 - the value


_DIVIDED = ("use-distributed-optimizer", "use-megatron-fsdp", "use-custom-fsdp")
"""Settings by which ranks divide what the optimizer has."""
_MOMENTS: Mapping[str, str] = {"fp32": "fp32", "fp16": "bf16", "bf16": "bf16", "fp8": "8bit"}
"""Types of Adam's moments, and their names in job files."""
_WHOLE = ("full", "full_iteration")
"""Scopes of CUDA graphs that are whole layers or steps."""


def _graphs(settings: Settings, *, experts: bool) -> None:
    kind = settings.word("cuda-graph-impl", "none", "local", "transformer_engine", "full_iteration")
    on = any([settings.flag("enable-cuda-graph"), settings.flag("external-cuda-graph")])
    older, newer = settings.raw("cuda-graph-scope"), settings.raw("cuda-graph-modules")
    scope = newer or older
    if kind in (None, "none") and not on:
        return
    parts = [str(each) for each in (scope if isinstance(scope, list) else [scope] if scope else [])]
    whole = kind == "full_iteration" or not parts or any(each in _WHOLE for each in parts) or not experts
    names = ("cuda-graph-impl", "enable-cuda-graph", "external-cuda-graph", "cuda-graph-modules", "cuda-graph-scope")
    settings.put("graphs", "full" if whole else "partial", *names)


def _overlap(settings: Settings, *, experts: bool) -> None:
    settings.put("overlap.tensor", settings.flag("tp-comm-overlap"), "tp-comm-overlap")
    settings.put("overlap.gradients", settings.flag("overlap-grad-reduce"), "overlap-grad-reduce")
    settings.put("overlap.parameters", settings.flag("overlap-param-gather"), "overlap-param-gather")
    if settings.flag("overlap-moe-expert-parallel-comm"):
        settings.put("overlap.experts", experts, "overlap-moe-expert-parallel-comm")
    off = settings.flag("no-overlap-p2p-communication")
    old = any(settings.has(name) for name in arguments().known.legacy)
    interleaved = any(line.path == ("parallel", "virtual_stages") for line in settings.lines)
    note = f"default of {settings.software} with an interleaved pipeline" if interleaved and not off and not old else ""
    settings.put("overlap.pipeline", interleaved and not off and not old, "no-overlap-p2p-communication", note=note)


def _other(settings: Settings) -> None:
    """Refuses what names a job that cannot be estimated."""
    for name, setting in settings.found.items():
        if (why := arguments().refused.get(name)) is not None and setting.value is not False:
            settings.used.add(name)
            settings.problem(name, f"this job cannot be estimated: {why}", help=f"add --ignore {name} to leave it out")
