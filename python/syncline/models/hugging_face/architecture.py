"""Architectures from Hugging Face's ``config.json``, with experts and compressed keys and values.

The decoders of :mod:`~.families` have more detail, and no experts; this reads what estimates need, for all of them.
Source of keys and defaults: the configuration classes of ``transformers`` 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from syncline.input.problem import nearest
from syncline.models.architecture import EXPERTS, LAYERS, LONGEST, PARAMETERS, Architecture, Experts, Latent, Window
from syncline.models.errors import ModelError, ModelErrorKind
from syncline.models.hugging_face.keys import Keys
from syncline.models.hugging_face.unused import Used, notes

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = (
    "llama",
    "llama4_text",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "deepseek_v2",
    "deepseek_v3",
    "kimi_k2",
    "glm4_moe",
    "minimax_m2",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt_oss",
    "nemotron",
    "phi3",
    "olmo2",
    "olmo3",
    "smollm3",
    "seed_oss",
    "gpt2",
)
"""Values of ``model_type`` that are read."""
REFUSED = {
    "state-space layers, which are not modelled": (
        "nemotron_h mamba mamba2 falcon_mamba falcon_h1 granitemoehybrid jamba bamba zamba zamba2"
    ),
    "linear attention, which is not modelled": (
        "qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text minimax minimax_m1 kimi_linear rwkv "
        "recurrent_gemma"
    ),
    "attention to tokens that an index selects, which is not modelled": "deepseek_v32 glm_moe_dsa minimax_m3",
    "layers of different shapes, which are not modelled": "nemotron-nas deci gemma3n gemma3n_text openelm",
    "an encoder; only decoders are modelled": (
        "bert roberta distilbert electra albert deberta deberta-v2 xlm-roberta modernbert t5 mt5 bart mbart pegasus "
        "whisper vit clip"
    ),
}
"""Values of ``model_type`` that are refused, by the reason."""
_TIED = ("gemma", "gemma2", "gemma3_text", "smollm3", "gpt2")
_KV_AS_HEADS = ("llama", "nemotron", "phi3", "olmo2", "olmo3", "deepseek_v2", "deepseek_v3", "kimi_k2")
"""Kinds that have as many heads of keys and values as of queries where a file does not say it."""
_HEAD_DIMS = {
    "qwen3": 128,
    "gemma": 256,
    "gemma2": 256,
    "gemma3_text": 256,
    "gpt_oss": 64,
    "llama4_text": 128,
    "glm4_moe": 128,
    "seed_oss": 128,
}
"""Sizes of heads where files do not say it; in other kinds, the heads divide the hidden size."""
_GEMMA3 = {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262_208}
"""Sizes that files of Gemma 3 leave out."""
_WINDOWS = {
    "mistral": 4096,
    "gemma2": 4096,
    "gemma3_text": 4096,
    "gpt_oss": 128,
    "olmo3": 4096,
    **dict.fromkeys(("mixtral", "phi3")),
}
"""Kinds whose attention has a window, with that of files that do not say it; others have one only if they say so."""
_CHUNK = 8192
"""Tokens of a chunk of attention in Llama 4 where files do not say it."""
_TOP_K = {
    "mixtral": 2,
    "qwen2_moe": 4,
    "qwen3_moe": 8,
    "deepseek_v3": 8,
    "kimi_k2": 8,
    "gpt_oss": 4,
    "llama4_text": 1,
    "glm4_moe": 8,
    "minimax_m2": 8,
}
"""Experts that a token goes to where files do not say it."""
_MULTIMODAL = "text_config"
_LONGEST_NAME, _LONGEST_NOTE = 1000, 1000
"""Letters of a model's name and of a note that are kept."""


def architecture(config: Mapping[str, Any], name: str) -> Architecture:
    """The architecture that a ``config.json`` describes; its note names what the file says and it leaves out.

    Raises :class:`~syncline.models.errors.ModelError` with the key that is missing, wrong or not supported.
    """
    values = config
    if isinstance(config.get(_MULTIMODAL), dict):
        # Files of several parts may say outside of the text part whether the output layer uses the embedding.
        outside = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
        values = {**outside, **config[_MULTIMODAL]}
    used = Used(values)
    kind = used.get("model_type")
    allowed = f"one of {', '.join(KINDS)}"
    if kind is None:
        raise ModelError("model_type", None, allowed, kind=ModelErrorKind.MISSING_KEY)
    for why, kinds in REFUSED.items():
        if kind in kinds.split():
            raise ModelError("model_type", kind, allowed, problem=f"{kind} has {why}")
    if kind not in KINDS:
        near = nearest(kind, KINDS) if isinstance(kind, str) else None
        raise ModelError("model_type", kind, allowed, near)
    try:
        made = (_gpt2 if kind == "gpt2" else _decoder)(Keys(used), name[:_LONGEST_NAME] or "a model")
    except ValidationError as problem:
        # Each size is within its limits, but all of them together are not those of a model.
        hidden = values.get("hidden_size", values.get("n_embd"))
        raise ModelError(
            "hidden_size", hidden, f"at most {PARAMETERS:.0e} parameters", problem=_message(problem)
        ) from None
    said = [*notes(used, config, dropout=kind == "gpt2")]
    if made.attention == "chunked":
        said.insert(0, "Attention in chunks counts as a window of their size")
    return made.model_copy(update={"note": f"{'. '.join(said)}."[:_LONGEST_NOTE]}) if said else made


def _decoder(keys: Keys, name: str) -> Architecture:
    kind = keys.values["model_type"]
    default = _GEMMA3.get if kind == "gemma3_text" else (lambda _: None)
    hidden = keys.size("hidden_size")
    heads = keys.size("num_attention_heads", default("num_attention_heads"))
    # Null means as many as heads in every kind; an absent key does so in some.
    as_heads = kind in _KV_AS_HEADS or "num_key_value_heads" in keys.values
    kv_heads = keys.size("num_key_value_heads", heads if as_heads else default("num_key_value_heads"))
    if heads % kv_heads:
        raise ModelError("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads, which is {heads}")
    latent = _latent(keys) if "kv_lora_rank" in keys.values else None
    if (head_dim := _head(keys, latent, kind)) is None:
        _divided("hidden_size", hidden, "num_attention_heads", heads)
    layers = keys.size("num_hidden_layers", most=LAYERS)
    if kind == "minimax_m2":
        _only_full(keys, layers)
    window = _window(keys, kind, layers)
    chunked = window is not None and kind == "llama4_text"
    return Architecture(
        family=kind,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=keys.size("intermediate_size_mlp" if kind == "llama4_text" else "intermediate_size", most=LONGEST),
        gated=kind != "nemotron",
        vocab=keys.size("vocab_size", default("vocab_size"), most=LONGEST),
        tied=keys.flag("tie_word_embeddings", default=kind in _TIED),
        norm="layernorm" if kind == "nemotron" else "rmsnorm",
        positions="rope",
        rope_scaling=_rope_scaling(keys, kind),
        biases="all" if kind == "gpt_oss" else "none",
        attention="latent" if latent else "chunked" if chunked else "sliding" if window else "full",
        latent=latent,
        window=window,
        experts=_experts(keys, kind, layers),
        prediction_layers=keys.number("num_nextn_predict_layers", most=LAYERS),
        longest=_longest(keys, "max_position_embeddings"),
        source=name,
    )


def _message(problem: ValidationError) -> str:
    (found, *_) = problem.errors()
    return f"{found['msg']}: {found['ctx']['found']}" if "found" in found.get("ctx", {}) else found["msg"]


def _divided(hidden_key: str, hidden: int, heads_key: str, heads: int) -> None:
    if hidden % heads:
        raise ModelError(hidden_key, hidden, f"a multiple of {heads_key}, which is {heads}")


def _longest(keys: Keys, key: str) -> int | None:
    """Tokens of the longest sequence; None if the file does not say it, or nothing that it could be."""
    found = keys.values.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= 1 << 30 else None


def _gpt2(keys: Keys, name: str) -> Architecture:
    hidden, heads = keys.size("n_embd"), keys.size("n_head")
    _divided("n_embd", hidden, "n_head", heads)
    return Architecture(
        family="gpt",
        hidden=hidden,
        layers=keys.size("n_layer", most=LAYERS),
        heads=heads,
        ffn=keys.size("n_inner", 4 * hidden, most=LONGEST),
        vocab=keys.size("vocab_size", most=LONGEST),
        tied=keys.flag("tie_word_embeddings", default=True),
        norm="layernorm",
        positions="learned",
        longest=_longest(keys, "n_positions"),
        source=name,
    )


def _head(keys: Keys, latent: Latent | None, kind: str) -> int | None:
    said = None if keys.values.get("head_dim") is None else keys.size("head_dim")
    # With latent attention, `head_dim` is that of the rotated part, which `qk_rope_head_dim` says, too.
    return latent.nope_dim + latent.rope_dim if latent is not None else said or _HEAD_DIMS.get(kind)


def _latent(keys: Keys) -> Latent:
    return Latent(
        query_rank=keys.number("q_lora_rank"),
        kv_rank=keys.size("kv_lora_rank"),
        nope_dim=keys.size("qk_nope_head_dim"),
        rope_dim=keys.size("qk_rope_head_dim"),
        value_dim=keys.size("v_head_dim"),
    )


def _rope_scaling(keys: Keys, kind: str) -> Literal["none", "yarn"]:
    """Whether YaRN scales rotations; other kinds change angles alone. ``transformers`` 5 has another key."""
    found = keys.values.get("rope_scaling")
    if found is None:
        found = keys.values.get("rope_parameters")
    if found is None:
        # The default of its class.
        return "yarn" if kind == "gpt_oss" and "rope_scaling" not in keys.values else "none"
    if not isinstance(found, dict):
        raise ModelError("rope_scaling", found, "a mapping with `rope_type`, or null")
    # `rope_parameters` may have one mapping for each kind of layer.
    kinds = [found, *(each for each in found.values() if isinstance(each, dict))]
    return "yarn" if any(each.get("rope_type", each.get("type")) == "yarn" for each in kinds) else "none"


def _window(keys: Keys, kind: str, layers: int) -> Window | None:
    """The window of attention: absent, or unused, in most files that have the key."""
    if kind == "llama4_text":
        return _with_full_layers(keys, layers, keys.size("attention_chunk_size", _CHUNK, most=LONGEST), 4)
    values, switched = keys.values, kind not in _WINDOWS
    on, said = values.get("use_sliding_window"), values.get("sliding_window")
    unsaid = None if "sliding_window" in values else _WINDOWS.get(kind)
    first = keys.number("max_window_layers", most=LAYERS)
    if on is False or (switched and (on is not True or first >= layers)) or (said is None and unsaid is None):
        # Types of layers say nothing then.
        values.get("layer_types")
        return None
    if switched and first > 0 and values.get("layer_types") is None:
        raise ModelError("max_window_layers", first, f"0 or {layers}: windows in some layers are not modelled")
    every = {"gemma2": 2, "gpt_oss": 2, "olmo3": 4}.get(kind, 0)
    if kind == "gemma3_text":
        every = keys.size("sliding_window_pattern", keys.size("_sliding_window_pattern", 6))
    return _with_full_layers(keys, layers, keys.size("sliding_window", unsaid, most=LONGEST), every)


def _with_full_layers(keys: Keys, layers: int, tokens: int, every: int) -> Window | None:
    """A window, with layers that attend to all tokens: those of ``layer_types``, or else one in ``every`` layers."""
    types = keys.values.get("layer_types")
    found = every if types is None else _period(types, layers)
    return None if found is None else Window(tokens=tokens, full_every=found)


def _only_full(keys: Keys, layers: int) -> None:
    """Checks that a file of MiniMax has neither linear attention nor a shared MLP."""
    types = keys.values.get("attn_type_list")
    if types is not None and types != [1] * layers:
        raise ModelError("attn_type_list", types, f"{layers} times 1, full attention: linear attention is not modelled")
    keys.must_be("shared_intermediate_size", 0, 0, "a shared MLP beside the experts is not modelled here")


_LAYERS = {"full_attention": True, "sliding_attention": False, "chunked_attention": False}
"""Words of ``layer_types``, and whether such a layer attends to all earlier tokens."""


def _period(types: Any, layers: int) -> int | None:
    """One layer of how many attends to all tokens by ``layer_types``; 0 if none does, None if all do."""
    allowed = f"a list of {layers} words of {', '.join(_LAYERS)}"
    known = isinstance(types, list) and all(isinstance(each, str) and each in _LAYERS for each in types)
    if not known or len(types) != layers:
        raise ModelError("layer_types", types, allowed)
    full = [_LAYERS[each] for each in types]
    if all(full):
        return None
    if not any(full):
        return 0
    every = full.index(True) + 1
    if full != [(layer + 1) % every == 0 for layer in range(layers)]:
        raise ModelError("layer_types", types, "full attention in each layer whose number is a multiple of one number")
    return every


def _experts(keys: Keys, kind: str, layers: int) -> Experts | None:
    names = [each for each in ("n_routed_experts", "num_local_experts", "num_experts") if keys.values.get(each)]
    if not names:
        return None
    count = keys.size(names[0], most=EXPERTS)
    width = keys.size("intermediate_size", most=LONGEST)
    if kind not in ("mixtral", "gpt_oss", "llama4_text", "minimax_m2"):
        width = keys.size("moe_intermediate_size", width, most=LONGEST)
    shared = 1 if kind in ("qwen2_moe", "llama4_text") else keys.number("n_shared_experts", most=EXPERTS)
    shared_ffn = keys.size("shared_expert_intermediate_size", most=LONGEST) if kind == "qwen2_moe" else shared * width
    top_k = keys.size("num_experts_per_tok", _TOP_K.get(kind), most=count)
    groups, top_groups = _groups(keys, count, top_k)
    return Experts(
        count=count,
        top_k=top_k,
        ffn=width,
        shared=shared,
        shared_ffn=shared_ffn,
        dense_layers=_dense(keys, layers),
        every=_every(keys, kind, layers),
        groups=groups,
        top_groups=top_groups,
    )


def _groups(keys: Keys, count: int, top_k: int) -> tuple[int, int]:
    """Groups of experts, and how many of them a token chooses."""
    groups = max(1, keys.number("n_group", most=count))
    chosen = max(1, keys.number("topk_group", most=count))
    if count % groups:
        raise ModelError("n_group", groups, f"a divisor of {count}, the number of experts")
    least = -(-top_k * groups // count)
    if not least <= chosen <= groups:
        raise ModelError("topk_group", chosen, f"{least} to {groups}, for {top_k} of {count} experts")
    return groups, chosen


def _dense(keys: Keys, layers: int) -> int:
    """How many layers at the beginning have no experts."""
    first = keys.number("first_k_dense_replace", most=LAYERS)
    only = keys.values.get("mlp_only_layers")
    if not only:
        return first
    if only != list(range(len(only) if isinstance(only, list) else 0)) or len(only) > layers:
        raise ModelError("mlp_only_layers", only, "the first layers, such as [0, 1]; others are not modelled")
    return max(first, len(only))


def _every(keys: Keys, kind: str, layers: int) -> int:
    """Of how many layers one has experts."""
    if kind == "llama4_text":
        every = keys.size("interleave_moe_layer_step", 1)
        said = keys.values.get("moe_layers")
        if said is not None and said != list(range(every - 1, layers, every)):
            raise ModelError("moe_layers", said, "the layers that `interleave_moe_layer_step` says")
        return every
    if kind.startswith("qwen"):
        return keys.size("decoder_sparse_step", 1)
    keys.must_be("moe_layer_freq", 1, 1, "dense layers between layers with experts are not modelled")
    return 1
