"""Kinds of decoders by ``model_type``: which keys a file has, and what they mean as parameters of a decoder.

An absent key has the default of its class in the library ``transformers``; keys that are always written are required.
Source of meanings and defaults: the configuration classes of ``transformers`` 4. Rotary embeddings
(RoPE) and ALiBi's slopes (Press et al. 2022) change no size; ALiBi's slopes are not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.models.architecture import LONGEST
from syncline.models.hugging_face.keys import BLOCKS, Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _modern(keys: Keys, *, kv_heads: int | None = None, tied: bool = False) -> dict[str, Any]:
    """The common parameters of Llama and similar models: RMS norms, RoPE, a gated MLP, no biases."""
    heads = keys.size("num_attention_heads")
    return {
        "layers": keys.size("num_hidden_layers", most=BLOCKS),
        "hidden": keys.size("hidden_size"),
        "heads": heads,
        "kv_heads": keys.size("num_key_value_heads", kv_heads or heads),
        "feed_forward": keys.size("intermediate_size", most=LONGEST),
        "vocabulary": keys.size("vocab_size", most=LONGEST),
        "sequence": keys.size("max_position_embeddings"),
        "gated": True,
        "activation": keys.activation("hidden_act", "silu"),
        "norm": "rms",
        "positions": 0,
        "rotary": True,
        "attention_bias": False,
        "output_bias": False,
        "mlp_bias": False,
        "tied_embeddings": keys.flag("tie_word_embeddings", default=tied),
        "dropout": keys.rate("attention_dropout"),
    }


def _llama(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    return {
        **_modern(keys),
        "head_size": keys.size("head_dim", 0),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": keys.flag("mlp_bias", default=False),
    }


def _mistral(keys: Keys) -> dict[str, Any]:
    return {**_modern(keys, kv_heads=8), "head_size": keys.size("head_dim", 0)}


def _qwen2(keys: Keys) -> dict[str, Any]:
    return {**_modern(keys, kv_heads=32), "attention_bias": True}


def _qwen3(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    sizes = {**_modern(keys, kv_heads=32), "head_size": keys.size("head_dim", 128)}
    return {**sizes, "attention_bias": bias, "output_bias": bias, "qk_norm": "head"}


def _phi3(keys: Keys) -> dict[str, Any]:
    return {**_modern(keys), "dropout": keys.rate("attention_dropout", "resid_pdrop", "embd_pdrop")}


def _gemma(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    named = "hidden_activation" if keys.values.get("hidden_activation") is not None else "hidden_act"
    return {
        **_modern(keys, tied=True),
        "head_size": keys.size("head_dim"),
        "activation": keys.activation(named, "gelu_pytorch_tanh"),
        "attention_bias": bias,
        "output_bias": bias,
    }


def _gemma2(keys: Keys) -> dict[str, Any]:
    return {**_gemma(keys), "norms": 4}


def _gpt(keys: Keys, *, tied: bool) -> dict[str, Any]:
    """The common parameters of GPT-2 and GPT-J."""
    hidden = keys.size("n_embd")
    return {
        "layers": keys.size("n_layer", most=BLOCKS),
        "hidden": hidden,
        "heads": keys.size("n_head"),
        "feed_forward": keys.size("n_inner", 4 * hidden, most=LONGEST),
        "activation": keys.activation("activation_function", "gelu_new"),
        "sequence": keys.size("n_positions"),
        "vocabulary": keys.size("vocab_size", most=LONGEST),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=tied),
        "dropout": keys.rate("attn_pdrop", "resid_pdrop", "embd_pdrop"),
    }


def _gpt2(keys: Keys) -> dict[str, Any]:
    keys.must_be("add_cross_attention", wanted=False, default=False, why="there is no encoder to attend to")
    shared = _gpt(keys, tied=True)
    return {**shared, "positions": shared["sequence"]}


def _gpt_neox(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=True)
    return {
        "layers": keys.size("num_hidden_layers", most=BLOCKS),
        "hidden": keys.size("hidden_size"),
        "heads": keys.size("num_attention_heads"),
        "feed_forward": keys.size("intermediate_size", most=LONGEST),
        "activation": keys.activation("hidden_act", "gelu"),
        "block": "parallel" if keys.flag("use_parallel_residual", default=True) else "sequential",
        "attention_bias": bias,
        "output_bias": bias,
        "positions": 0,
        "rotary": True,
        "sequence": keys.size("max_position_embeddings"),
        "vocabulary": keys.size("vocab_size", most=LONGEST),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=False),
        "dropout": keys.rate("attention_dropout", "hidden_dropout"),
    }


def _gptj(keys: Keys) -> dict[str, Any]:
    return {
        **_gpt(keys, tied=False),
        "block": "parallel",
        "norms": 1,
        "attention_bias": False,
        "output_bias": False,
        "projection_bias": True,
        "positions": 0,
        "rotary": True,
    }


def _opt(keys: Keys) -> dict[str, Any]:
    hidden = keys.size("hidden_size")
    width = keys.values.get("word_embed_proj_dim")
    if width is not None:
        keys.must_be(
            "word_embed_proj_dim",
            hidden,
            hidden,
            "embeddings whose width differs from the hidden size are not modelled",
        )
    keys.must_be("do_layer_norm_before", wanted=True, default=True, why="norms after the residual sum are not modelled")
    keys.must_be("_remove_final_layer_norm", wanted=False, default=False, why="the final norm cannot be removed")
    bias = keys.flag("enable_bias", default=True)
    longest = keys.size("max_position_embeddings")
    return {
        "layers": keys.size("num_hidden_layers", most=BLOCKS),
        "hidden": hidden,
        "heads": keys.size("num_attention_heads"),
        "feed_forward": keys.size("ffn_dim", most=LONGEST),
        "activation": keys.activation("activation_function", "relu"),
        # The table of OPT begins with two unused entries.
        "positions": longest + 2,
        "sequence": longest,
        "vocabulary": keys.size("vocab_size", most=LONGEST),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "norm_parameters": keys.flag("layer_norm_elementwise_affine", default=True),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
        "dropout": keys.rate("dropout", "attention_dropout"),
    }


def _phi(keys: Keys) -> dict[str, Any]:
    keys.must_be("qk_layernorm", wanted=False, default=False, why="layer norms of queries and keys are not modelled")
    heads = keys.size("num_attention_heads")
    return {
        "layers": keys.size("num_hidden_layers", most=BLOCKS),
        "hidden": keys.size("hidden_size"),
        "heads": heads,
        "kv_heads": keys.size("num_key_value_heads", heads),
        "feed_forward": keys.size("intermediate_size", most=LONGEST),
        "activation": keys.activation("hidden_act", "gelu_new"),
        "block": "parallel",
        "norms": 1,
        "projection_bias": True,
        "positions": 0,
        "rotary": True,
        "sequence": keys.size("max_position_embeddings"),
        "vocabulary": keys.size("vocab_size", most=LONGEST),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=False),
        "dropout": keys.rate("attention_dropout", "resid_pdrop", "embd_pdrop"),
    }


def _gemma3(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    # Files leave out keys with the defaults of the class; these defaults are not those of a published model.
    return {
        "layers": keys.size("num_hidden_layers", 26, most=BLOCKS),
        "hidden": keys.size("hidden_size", 2304),
        "heads": keys.size("num_attention_heads", 8),
        "kv_heads": keys.size("num_key_value_heads", 4),
        "head_size": keys.size("head_dim", 256),
        "feed_forward": keys.size("intermediate_size", 9216, most=LONGEST),
        "gated": True,
        "activation": keys.activation("hidden_activation", "gelu_pytorch_tanh"),
        "norm": "rms",
        "norms": 4,
        "qk_norm": "head",
        "positions": 0,
        "rotary": True,
        "sequence": keys.size("max_position_embeddings", 131_072),
        "vocabulary": keys.size("vocab_size", 262_208, most=LONGEST),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": False,
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
        "dropout": keys.rate("attention_dropout"),
    }


def _gemma3_of_several(keys: Keys) -> dict[str, Any]:
    """The text part of a file that also describes a vision part."""
    return _gemma3(keys.within("text_config"))


def _olmo(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    shared = {**_modern(keys), "attention_bias": bias, "output_bias": bias}
    return {**shared, "norm": "layer", "norm_parameters": False}


def _olmo2(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    shared = {**_modern(keys), "attention_bias": bias, "output_bias": bias}
    return {**shared, "norm_at": "after", "qk_norm": "all"}


def _cohere(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    return {
        **_modern(keys, tied=True),
        "block": "parallel",
        "norm": "layer",
        "norms": 1,
        "norm_bias": False,
        # Each head has its own weights.
        "qk_norm": "all" if keys.flag("use_qk_norm", default=False) else "none",
        "attention_bias": bias,
        "output_bias": bias,
    }


def _starcoder2(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("use_bias", default=True)
    return {
        **_modern(keys, kv_heads=2, tied=True),
        "gated": False,
        "activation": keys.activation("hidden_act", "gelu_pytorch_tanh"),
        "norm": "layer",
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "dropout": keys.rate("attention_dropout", "residual_dropout", "embedding_dropout"),
    }


def _nemotron(keys: Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    return {
        **_modern(keys),
        "head_size": keys.size("head_dim", 0),
        "gated": False,
        "activation": keys.activation("hidden_act", "relu2"),
        "norm": "layer",
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": keys.flag("mlp_bias", default=False),
    }


def _falcon(keys: Keys) -> dict[str, Any]:
    hidden, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    new = keys.flag("new_decoder_architecture", default=False)
    parallel = new or keys.flag("parallel_attn", default=True)
    alibi, bias = keys.flag("alibi", default=False), keys.flag("bias", default=False)
    # The old architecture has one head of keys and values, or as many as there are heads.
    kv_heads = 1 if keys.flag("multi_query", default=True) else heads
    norms = keys.size("num_ln_in_parallel_attn", 2 if new else 1, most=2) if parallel else 2
    return {
        "layers": keys.size("num_hidden_layers", most=BLOCKS),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": keys.size("num_kv_heads", heads) if new else kv_heads,
        "feed_forward": keys.size("ffn_hidden_size", 4 * hidden, most=LONGEST),
        "activation": keys.activation("activation", "gelu"),
        "block": "parallel" if parallel else "sequential",
        "norms": norms,
        "positions": 0,
        "rotary": not alibi,
        "sequence": keys.size("max_position_embeddings", 2048),
        "vocabulary": keys.size("vocab_size", most=LONGEST),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
        "dropout": keys.rate("attention_dropout", "hidden_dropout"),
    }


def _bloom(keys: Keys) -> dict[str, Any]:
    hidden = "n_embed" if keys.values.get("n_embed") is not None else "hidden_size"
    heads = "num_attention_heads" if keys.values.get("num_attention_heads") is not None else "n_head"
    return {
        "layers": keys.size("n_layer", most=BLOCKS),
        "hidden": keys.size(hidden),
        "heads": keys.size(heads),
        "embedding_norm": True,
        "positions": 0,
        "sequence": keys.size("seq_length", 2048),
        "vocabulary": keys.size("vocab_size", most=LONGEST),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
        "dropout": keys.rate("attention_dropout", "hidden_dropout"),
    }


def _mpt(keys: Keys) -> dict[str, Any]:
    attention = keys.within("attn_config")
    attention.must_be("qk_ln", wanted=False, default=False, why="norms of queries and keys are not modelled here")
    hidden, heads, longest = keys.size("d_model"), keys.size("n_heads"), keys.size("max_seq_len", 2048)
    bias = not keys.flag("no_bias", default=True)
    return {
        "layers": keys.size("n_layers", most=BLOCKS),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": attention.size("kv_n_heads", heads),
        "feed_forward": keys.size("expansion_ratio", 4) * hidden,
        "norm_bias": bias,
        # Without ALiBi, positions are trained.
        "positions": 0 if attention.flag("alibi", default=True) else longest,
        "sequence": longest,
        "vocabulary": keys.size("vocab_size", most=LONGEST),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
        "dropout": keys.rate("resid_pdrop", "emb_pdrop") or attention.rate("attn_pdrop"),
    }


def _gpt_bigcode(keys: Keys) -> dict[str, Any]:
    return {**_gpt2(keys), "kv_heads": 1 if keys.flag("multi_query", default=True) else keys.size("n_head")}


FAMILIES: Mapping[str, Callable[[Keys], dict[str, Any]]] = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "opt": _opt,
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "phi": _phi,
    "phi3": _phi3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3_of_several,
    "gemma3_text": _gemma3,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "granite": _llama,
    "nemotron": _nemotron,
    "cohere": _cohere,
    "cohere2": _cohere,
    "starcoder2": _starcoder2,
    "gpt_bigcode": _gpt_bigcode,
    "falcon": _falcon,
    "bloom": _bloom,
    "mpt": _mpt,
}
"""The supported values of ``model_type``."""
