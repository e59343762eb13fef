"""The sizes of the model: layers, heads, vocabulary, positions, and its padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.estimate.software import vocab_multiple
from syncline.jobs.megatron.mapping import experts
from syncline.models.architecture import LAYERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.given import Given
    from syncline.jobs.settings import Settings

TOKENIZERS: Mapping[str, tuple[int, str]] = {
    "GPT2BPETokenizer": (50257, "tokens of GPT-2"),
    "Llama2Tokenizer": (32000, "tokens of Llama 2"),
}
"""Tokens of tokenizers that have a fixed vocabulary.

Sources: Radford et al. (2019); Touvron et al. (Llama 2, 2023), section 2.2.
"""
SIZES = (
    "hidden-size",
    "num-attention-heads",
    "num-query-groups",
    "group-query-attention",
    "ffn-hidden-size",
    "vocab-size",
    "tokenizer-type",
)
"""Sizes that a named model replaces."""


def model(settings: Settings, given: Given) -> None:
    """The keys under ``model``."""
    hidden, layers = settings.needed("hidden-size"), settings.needed("num-layers", LAYERS)
    heads = settings.needed("num-attention-heads")
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
    experts.model(settings, layers, ffn)
    if more := settings.whole("mtp-num-layers", 0, least=0):
        settings.put("model.prediction_layers", more, "mtp-num-layers")


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


def padding(settings: Settings) -> None:
    """The multiple to which each tensor-parallel rank pads its part of the vocabulary."""
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
        if kind == "yarn":
            settings.put("model.rope_scaling", "yarn", *names[:1])
        _rope_fusion(settings)
    elif kind in (None, "learned_absolute"):
        settings.put("model.positions", "learned", *names, note="" if kind else f"default of {settings.software}")
    elif kind == "alibi" and settings.spelled is not None:
        # NeMo has it, and Megatron-LM does not.
        settings.put("model.positions", "alibi", *names)
    elif kind == "none":
        settings.put("model.positions", "alibi", *names, note="no positions: nothing is rotated, as with alibi")
    else:
        settings.bad("position-embedding-type", "rope, mrope, yarn, learned_absolute, none")


def _rope_fusion(settings: Settings) -> None:
    """Whether one kernel rotates: yes by default. Newer releases and files have the switch without ``no``."""
    on, off = "apply-rope-fusion", "no-rope-fusion"
    if settings.has(on) or settings.flag(off):
        name = on if settings.has(on) else off
        settings.put("rope_fusion", settings.flag(on), name)


def _dropout(settings: Settings) -> None:
    hidden, attention = settings.number("hidden-dropout", 0.1), settings.number("attention-dropout", 0.1)
    names = ("hidden-dropout", "attention-dropout")
    note = "" if settings.has("hidden-dropout") else f"default of {settings.software}"
    settings.put("model.dropout", hidden > 0, *names, note=note)
    if (hidden > 0) != (attention > 0):
        settings.warnings.append("attention dropout counts as dropout after layers (`hidden-dropout`)")


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
