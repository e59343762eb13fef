"""Decoders as Hugging Face's ``config.json`` describes them.

``model_type`` says which keys a file has and what they mean; a *family* here turns them into the parameters of
:class:`~.decoder.Decoder`. Keys that only change values (angles of rotation, initial weights, tokens of special
meaning) are not looked at. What would change work, sizes or exchanges and is not modelled is refused by name: experts,
embeddings of another width than the blocks, encoders. The type of the checkpoint's elements (``torch_dtype``, later
``dtype``) is that of the model unless a scenario says another.

What a file leaves out has the default of its class in the library ``transformers``; keys that are always written are
required. Source of meanings and defaults: the configuration classes of ``transformers`` 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline.models.decoder import preset
from syncline.models.errors import ModelError, unknown
from syncline.models.registry import request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from syncline.models.info import ModelInfo
    from syncline.models.layer import Layer

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "quick_gelu": "gelu",
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
}
"""Names of activations there and here; approximations of one function count as that function."""

_TYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "half": "fp16",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}
"""Names of element types there and here."""

_EXPERTS = (
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_moe_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
)
"""Keys by which files of several kinds say that their perceptrons are experts; 1 of them is none, and so is 0."""

_LAYERS, _WIDEST, _LONGEST = 10_000, 1 << 20, 1 << 24
"""Most blocks; most elements, heads and tokens; most tokens of a vocabulary and elements within a perceptron."""


MISSING = "missing"
"""What is wrong with a key that a file must have and has not, as errors put it."""


@dataclass(frozen=True)
class _Keys:
    """The keys of a file, read with a check."""

    values: Mapping[str, Any]

    def size(self, key: str, default: int | None = None, *, most: int = _WIDEST) -> int:
        """A whole number from 1 to ``most``; ``default`` where it is absent or null."""
        found = self.values.get(key)
        if found is None and default is not None:
            return default
        allowed = f"a whole number from 1 to {most}"
        if found is None:
            raise ModelError(key, None, allowed, problem="" if key in self.values else MISSING)
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= most:
            raise ModelError(key, found, allowed)
        return found

    def flag(self, key: str, *, default: bool) -> bool:
        """A yes or no; ``default`` where it is absent."""
        found = self.values.get(key, default)
        if not isinstance(found, bool):
            raise ModelError(key, found, "true or false")
        return found

    def rate(self, *keys: str) -> bool:
        """Whether any of these probabilities of dropping an element is above 0; absent means 0."""
        positive = False
        for key in keys:
            found = self.values.get(key, 0)
            if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
                raise ModelError(key, found, "a number from 0 to 1")
            positive = positive or found > 0
        return positive

    def activation(self, key: str, default: str) -> str:
        """An activation by its name there."""
        found = self.values.get(key)
        found = default if found is None else found
        if not isinstance(found, str) or found not in _ACTIVATIONS:
            raise unknown(key, found, _ACTIVATIONS)
        return _ACTIVATIONS[found]

    def data_type(self) -> dict[str, str]:
        """The type of the checkpoint's elements; nothing where the file does not say one."""
        for key in ("dtype", "torch_dtype"):
            found = self.values.get(key)
            if found is None or found == "auto":
                continue
            name = found.removeprefix("torch.") if isinstance(found, str) else None
            if name not in _TYPES:
                raise unknown(key, found, _TYPES)
            return {"data_type": _TYPES[name]}
        return {}

    def no_experts(self) -> None:
        """Refuse a file that says experts."""
        for key in _EXPERTS:
            found = self.values.get(key)
            if found is not None and found not in (0, 1):
                why = f"`{key}` makes this a mixture of experts, which is not modelled"
                raise ModelError(key, found, "1, or no such key: a decoder without experts", problem=why)

    def must_be(self, key: str, wanted: object, default: object, why: str) -> None:
        """Refuse a file whose ``key`` has another value."""
        found = self.values.get(key, default)
        if found != wanted or isinstance(found, bool) is not isinstance(wanted, bool):
            raise ModelError(key, found, f"{str(wanted).lower() if isinstance(wanted, bool) else wanted}: {why}")


def _modern(keys: _Keys, *, kv_heads: int | None = None, tied: bool = False) -> dict[str, Any]:
    """What Llama and its likes have in common: RMS norms, rotation, a gated perceptron, no biases, no dropout."""
    heads = keys.size("num_attention_heads")
    return {
        "layers": keys.size("num_hidden_layers", most=_LAYERS),
        "hidden": keys.size("hidden_size"),
        "heads": heads,
        "kv_heads": keys.size("num_key_value_heads", kv_heads or heads),
        "feed_forward": keys.size("intermediate_size", most=_LONGEST),
        "vocabulary": keys.size("vocab_size", most=_LONGEST),
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


def _llama(keys: _Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    return {
        **_modern(keys),
        "head_size": keys.size("head_dim", 0),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": keys.flag("mlp_bias", default=False),
    }


def _mistral(keys: _Keys) -> dict[str, Any]:
    return {**_modern(keys, kv_heads=8), "head_size": keys.size("head_dim", 0)}


def _qwen2(keys: _Keys) -> dict[str, Any]:
    return {**_modern(keys, kv_heads=32), "attention_bias": True}


def _qwen3(keys: _Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    sizes = {**_modern(keys, kv_heads=32), "head_size": keys.size("head_dim", 128)}
    return {**sizes, "attention_bias": bias, "output_bias": bias, "qk_norm": True}


def _phi3(keys: _Keys) -> dict[str, Any]:
    return {**_modern(keys), "dropout": keys.rate("attention_dropout", "resid_pdrop", "embd_pdrop")}


def _gemma(keys: _Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=False)
    named = "hidden_activation" if keys.values.get("hidden_activation") is not None else "hidden_act"
    return {
        **_modern(keys, tied=True),
        "head_size": keys.size("head_dim"),
        "activation": keys.activation(named, "gelu_pytorch_tanh"),
        "attention_bias": bias,
        "output_bias": bias,
    }


def _gemma2(keys: _Keys) -> dict[str, Any]:
    return {**_gemma(keys), "norms": 4}


def _gpt(keys: _Keys, *, tied: bool) -> dict[str, Any]:
    """What GPT-2 and its successor by another hand have in common."""
    hidden = keys.size("n_embd")
    return {
        "layers": keys.size("n_layer", most=_LAYERS),
        "hidden": hidden,
        "heads": keys.size("n_head"),
        "feed_forward": keys.size("n_inner", 4 * hidden, most=_LONGEST),
        "activation": keys.activation("activation_function", "gelu_new"),
        "sequence": keys.size("n_positions"),
        "vocabulary": keys.size("vocab_size", most=_LONGEST),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=tied),
        "dropout": keys.rate("attn_pdrop", "resid_pdrop", "embd_pdrop"),
    }


def _gpt2(keys: _Keys) -> dict[str, Any]:
    keys.must_be("add_cross_attention", wanted=False, default=False, why="there is no encoder to attend to")
    shared = _gpt(keys, tied=True)
    return {**shared, "positions": shared["sequence"]}


def _gpt_neox(keys: _Keys) -> dict[str, Any]:
    bias = keys.flag("attention_bias", default=True)
    return {
        "layers": keys.size("num_hidden_layers", most=_LAYERS),
        "hidden": keys.size("hidden_size"),
        "heads": keys.size("num_attention_heads"),
        "feed_forward": keys.size("intermediate_size", most=_LONGEST),
        "activation": keys.activation("hidden_act", "gelu"),
        "block": "parallel" if keys.flag("use_parallel_residual", default=True) else "sequential",
        "attention_bias": bias,
        "output_bias": bias,
        "positions": 0,
        "rotary": True,
        "sequence": keys.size("max_position_embeddings"),
        "vocabulary": keys.size("vocab_size", most=_LONGEST),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=False),
        "dropout": keys.rate("attention_dropout", "hidden_dropout"),
    }


def _gptj(keys: _Keys) -> dict[str, Any]:
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


def _opt(keys: _Keys) -> dict[str, Any]:
    hidden = keys.size("hidden_size")
    width = keys.values.get("word_embed_proj_dim")
    if width is not None:
        keys.must_be("word_embed_proj_dim", hidden, hidden, "embeddings of another width are not modelled")
    keys.must_be("do_layer_norm_before", wanted=True, default=True, why="norms behind the sum are not modelled")
    keys.must_be("_remove_final_layer_norm", wanted=False, default=False, why="the last norm is always there")
    bias = keys.flag("enable_bias", default=True)
    longest = keys.size("max_position_embeddings")
    return {
        "layers": keys.size("num_hidden_layers", most=_LAYERS),
        "hidden": hidden,
        "heads": keys.size("num_attention_heads"),
        "feed_forward": keys.size("ffn_dim", most=_LONGEST),
        "activation": keys.activation("activation_function", "relu"),
        # The table of OPT begins with two entries that no token has.
        "positions": longest + 2,
        "sequence": longest,
        "vocabulary": keys.size("vocab_size", most=_LONGEST),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "norm_parameters": keys.flag("layer_norm_elementwise_affine", default=True),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
        "dropout": keys.rate("dropout", "attention_dropout"),
    }


def _phi(keys: _Keys) -> dict[str, Any]:
    keys.must_be("qk_layernorm", wanted=False, default=False, why="layer norms of queries and keys are not modelled")
    heads = keys.size("num_attention_heads")
    return {
        "layers": keys.size("num_hidden_layers", most=_LAYERS),
        "hidden": keys.size("hidden_size"),
        "heads": heads,
        "kv_heads": keys.size("num_key_value_heads", heads),
        "feed_forward": keys.size("intermediate_size", most=_LONGEST),
        "activation": keys.activation("hidden_act", "gelu_new"),
        "block": "parallel",
        "norms": 1,
        "projection_bias": True,
        "positions": 0,
        "rotary": True,
        "sequence": keys.size("max_position_embeddings"),
        "vocabulary": keys.size("vocab_size", most=_LONGEST),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=False),
        "dropout": keys.rate("attention_dropout", "resid_pdrop", "embd_pdrop"),
    }


FAMILIES: Mapping[str, Callable[[_Keys], dict[str, Any]]] = {
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
}
"""What ``model_type`` may be."""

_REFUSED = {
    "mixture of experts, which is not modelled": (
        "mixtral qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 dbrx olmoe jamba phimoe granitemoe gpt_oss llama4 grok"
    ),
    "an encoder, or an encoder and a decoder; only decoders are modelled": (
        "bert roberta distilbert electra albert deberta deberta-v2 xlm-roberta modernbert t5 mt5 bart mbart pegasus "
        "whisper vit clip"
    ),
    "a model without attention in every layer, which is not modelled": "mamba mamba2 rwkv recurrent_gemma falcon_mamba",
}
"""Kinds of models by why they are refused, and their ``model_type``."""


def model(config: Mapping[str, Any], name: str) -> ModelInfo:
    """The model that a ``config.json`` describes; its parameters have the file's values for defaults.

    Raises :class:`~.errors.ModelError` with the key that is missing, wrong or not supported.
    """
    kind = config.get("model_type")
    allowed = f"one of {', '.join(FAMILIES)}"
    if kind is None:
        raise ModelError("model_type", None, allowed, problem=MISSING)
    for why, kinds in _REFUSED.items():
        if kind in kinds.split():
            raise ModelError("model_type", kind, allowed, problem=f"{kind} is {why}")
    keys = _Keys(config)
    keys.no_experts()
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise unknown("model_type", kind, FAMILIES)
    keys.must_be("is_encoder_decoder", wanted=False, default=False, why="only decoders are modelled")
    sizes = {**FAMILIES[kind](keys), **keys.data_type()}
    return preset(f"{name}: a decoder of kind {kind}", "the keys of its configuration", **sizes)


def from_config(config: Mapping[str, Any], /, **params: Any) -> list[Layer]:
    """Give the layers of the model that a ``config.json`` describes, from input to output.

    ``params`` are those of the model ``decoder``, such as ``batch_per_npu`` and ``sequence``; they take the place of
    what the file says. Raises :class:`~.errors.ModelError` for the first thing that is wrong.
    """
    built, errors = request(model(config, "this model"), params)
    for error in errors:
        raise error
    return built
