"""Architectures as the core's estimates take them."""

from __future__ import annotations

import json
from typing import Any

from syncline.input.arguments import Arguments
from syncline.models.architecture import Decoder


def model_text(architecture: Decoder, layers: int | None = None) -> str:
    """An architecture for the core, as JSON; ``layers`` replaces its number of layers.

    :raises SynclineError: no architecture, or no number of layers.
    """
    with Arguments() as check:
        check.instance("architecture", architecture, Decoder, "what read_model returns")
        if layers is not None:
            check.whole("layers", layers, most=10_000)
    window, latent, experts = architecture.window, architecture.latent, architecture.experts
    attention: Any = "full"
    if latent is not None:
        attention = {"latent": latent.model_dump()}
    elif window is not None:
        attention = {"window": window.model_dump()}
    kept = ("count", "top_k", "ffn", "shared_ffn", "dense_layers", "every", "groups", "top_groups")
    return json.dumps(
        {
            "hidden": architecture.hidden,
            "layers": layers or architecture.layers,
            "heads": architecture.heads,
            "kv_heads": architecture.keys_and_values,
            "head_dim": architecture.dimension,
            "ffn": architecture.ffn,
            "gated": architecture.gated,
            "vocab": architecture.vocab,
            "tied": architecture.tied,
            "rotary": architecture.positions == "rope",
            "yarn": architecture.rope_scaling == "yarn",
            "dropout": architecture.drops,
            "attention": attention,
            "experts": None if experts is None else {name: getattr(experts, name) for name in kept},
            "biased_experts": architecture.biased_experts,
            "prediction_layers": architecture.prediction_layers,
        }
    )
