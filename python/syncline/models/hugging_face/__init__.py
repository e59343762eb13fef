"""Builds decoders from Hugging Face's ``config.json``.

``model_type`` determines the keys of a file and their meanings; a *family* (:mod:`~.families`) turns them into the
parameters of :class:`~syncline.models.decoder.Decoder`. Keys that only affect values (angles of rotation, initial
weights, special tokens) are ignored, and so is the type of the checkpoint's elements: a model trains in bf16 by
default. Unsupported features that would change work, sizes or exchanges, such as experts, encoders and embeddings whose
width differs from that of the blocks, either raise an error that names the key, or are left out with a note.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from syncline.input.problem import nearest
from syncline.models.decoder import preset
from syncline.models.errors import ModelError, ModelErrorKind
from syncline.models.hugging_face.families import FAMILIES
from syncline.models.hugging_face.keys import Keys
from syncline.models.registry import request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from syncline.models.info import ModelInfo
    from syncline.models.layer import Layer

__all__ = ["FAMILIES", "from_config", "model"]

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
"""Values of ``model_type`` that are refused, by the reason."""


def model(config: Mapping[str, Any], name: str) -> ModelInfo:
    """The model that a ``config.json`` describes; the file's values are the defaults of its parameters.

    Raises :class:`~.errors.ModelError` with the key that is missing, wrong or not supported.
    """
    kind = config.get("model_type")
    allowed = f"one of {', '.join(FAMILIES)}; or describe it by `model: decoder` and its parameters"
    if kind is None:
        raise ModelError("model_type", None, allowed, kind=ModelErrorKind.MISSING_KEY)
    for why, kinds in _REFUSED.items():
        if kind in kinds.split():
            raise ModelError("model_type", kind, allowed, problem=f"{kind} is {why}")
    keys = Keys(config)
    keys.no_experts()
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ModelError("model_type", kind, allowed, _misspelt(kind))
    keys.must_be("is_encoder_decoder", wanted=False, default=False, why="only decoders are modelled")
    sizes = FAMILIES[kind](keys)
    notes = tuple(_left_out(keys, sizes["sequence"]))
    return preset(f"{name}: a decoder of kind {kind}", "the keys of its configuration", notes=notes, **sizes)


def from_config(config: Mapping[str, Any], /, **params: Any) -> list[Layer]:
    """Returns the layers of the model that a ``config.json`` describes, from input to output.

    ``params`` are parameters of the model ``decoder``, such as ``batch_per_npu`` and ``sequence``; they replace the
    file's values. Raises :class:`~.errors.ModelError` for the first error.
    """
    built, errors = request(model(config, "this model"), params)
    for error in errors:
        raise error
    return built


def _misspelt(kind: object) -> str | None:
    """The family whose name is probably misspelt; ``None`` if there is none.

    Other versions and variants of a family, such as ``gemma4`` or ``qwen2_vl``, are not misspelt names.
    """
    if not isinstance(kind, str):
        return None

    def same(family: str) -> bool:
        versions = [re.findall("[0-9]+", name) for name in (kind, family)]
        return versions[0] == versions[1] and not kind.startswith(family)

    return nearest(kind, [family for family in FAMILIES if same(family)], likeness=0.7)


def _left_out(keys: Keys, longest: int) -> Iterator[str]:
    """Notes about features in the file that the layers leave out, one sentence each."""
    quantised = keys.values.get("quantization_config")
    if quantised is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else None
        how = f" ({method})" if isinstance(method, str) else ""
        yield (
            f"the file's `quantization_config`{how} is left out: parameters are trained in the type of `precision` or "
            "`types`"
        )
    if keys.values.get("vision_config") is not None:
        yield "the file's `vision_config` is left out: the model has only the text part"
    text = keys.within("text_config").values if "text_config" in keys.values else keys.values
    window = text.get("sliding_window")
    if isinstance(window, int) and 0 < window < longest and text.get("use_sliding_window", True):
        yield (
            f"the file's window of attention of {window} tokens is left out: every token attends to all tokens before "
            "it, which is more work if `sequence` is longer than the window"
        )
