"""Architectures from Hugging Face's ``config.json``, with experts and compressed keys and values.

The decoders of :mod:`~.families` have more detail, and no experts; this reads what estimates need, for all of them.
Source of keys and defaults: the configuration classes of ``transformers`` 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.models.architecture import Architecture, Experts, Latent, Window
from syncline.models.errors import ModelError, ModelErrorKind
from syncline.models.hugging_face.keys import LAYERS, LONGEST, Keys

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = (
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "deepseek_v2",
    "deepseek_v3",
    "kimi_k2",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt_oss",
    "nemotron",
    "phi3",
    "olmo2",
    "gpt2",
)
"""Values of ``model_type`` that are read."""
EXPERTS = 1 << 16
"""Most experts of a layer."""
_TIED = ("gemma", "gemma2", "gemma3_text", "gpt2")
_MULTIMODAL = "text_config"
_LONGEST_NAME = 1000
"""Letters of a model's name that are kept."""


def architecture(config: Mapping[str, Any], name: str) -> Architecture:
    """The architecture that a ``config.json`` describes.

    Raises :class:`~syncline.models.errors.ModelError` with the key that is missing, wrong or not supported.
    """
    name = name[:_LONGEST_NAME]
    values = config
    if isinstance(config.get(_MULTIMODAL), dict):
        values = config[_MULTIMODAL]
    kind = values.get("model_type")
    allowed = f"one of {', '.join(KINDS)}"
    if kind is None:
        raise ModelError("model_type", None, allowed, kind=ModelErrorKind.MISSING_KEY)
    if kind not in KINDS:
        raise ModelError("model_type", kind, allowed)
    keys = Keys(values)
    if kind == "gpt2":
        return _gpt2(keys, name)
    hidden, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    if heads % (kv_heads := keys.size("num_key_value_heads", heads)):
        raise ModelError("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads, which is {heads}")
    latent = _latent(keys) if "kv_lora_rank" in values else None
    if (head_dim := _head(keys, latent)) is None:
        _divided("hidden_size", hidden, "num_attention_heads", heads)
    return Architecture(
        family=kind,
        hidden=hidden,
        layers=keys.size("num_hidden_layers", most=LAYERS),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=keys.size("intermediate_size", most=LONGEST),
        gated=kind != "nemotron",
        vocab=keys.size("vocab_size", most=LONGEST),
        tied=keys.flag("tie_word_embeddings", default=kind in _TIED),
        norm="layernorm" if kind == "nemotron" else "rmsnorm",
        positions="rope",
        attention="latent" if latent else "sliding" if _window(keys, kind) else "full",
        latent=latent,
        window=_window(keys, kind),
        experts=_experts(keys, kind),
        prediction_layers=keys.number("num_nextn_predict_layers", most=LAYERS),
        source=name,
    )


def _divided(hidden_key: str, hidden: int, heads_key: str, heads: int) -> None:
    if hidden % heads:
        raise ModelError(hidden_key, hidden, f"a multiple of {heads_key}, which is {heads}")


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
        tied=True,
        norm="layernorm",
        positions="learned",
        source=name,
    )


def _head(keys: Keys, latent: Latent | None) -> int | None:
    if latent is not None:
        return latent.nope_dim + latent.rope_dim
    return keys.size("head_dim") if keys.values.get("head_dim") else None


def _latent(keys: Keys) -> Latent:
    return Latent(
        query_rank=keys.number("q_lora_rank"),
        kv_rank=keys.size("kv_lora_rank"),
        nope_dim=keys.size("qk_nope_head_dim"),
        rope_dim=keys.size("qk_rope_head_dim"),
        value_dim=keys.size("v_head_dim"),
    )


def _window(keys: Keys, kind: str) -> Window | None:
    """The window of attention: absent, or unused, in most files that have the key."""
    if not keys.values.get("sliding_window") or keys.values.get("use_sliding_window") is False:
        return None
    every = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": keys.size("sliding_window_pattern", 6)}
    if kind not in (*every, "mistral", "mixtral", "phi3"):
        return None
    return Window(tokens=keys.size("sliding_window", most=LONGEST), full_every=every.get(kind, 0))


def _experts(keys: Keys, kind: str) -> Experts | None:
    values = keys.values
    name = next((each for each in ("n_routed_experts", "num_local_experts", "num_experts") if values.get(each)), None)
    if name is None:
        return None
    width = keys.size("moe_intermediate_size", keys.size("intermediate_size", most=LONGEST), most=LONGEST)
    shared = keys.number("n_shared_experts", most=EXPERTS)
    shared_ffn = keys.size("shared_expert_intermediate_size", most=LONGEST) if kind == "qwen2_moe" else shared * width
    count = keys.size(name, most=EXPERTS)
    return Experts(
        count=count,
        top_k=keys.size("num_experts_per_tok", min(2, count), most=count),
        ffn=width,
        shared=1 if kind == "qwen2_moe" else shared,
        shared_ffn=shared_ffn,
        dense_layers=keys.number("first_k_dense_replace", most=LAYERS),
        every=keys.size("decoder_sparse_step", 1),
    )
