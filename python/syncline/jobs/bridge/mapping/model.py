"""Sizes of the model: heads, embeddings, sequence and vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.jobs.megatron.renamed import Renamed


def vocabulary(renamed: Renamed) -> None:
    """The size of the vocabulary: the tokenizer's is padded, the model's only if ``should_pad_vocab`` says so.

    Source: ``validate_and_set_vocab_size`` in ``vocab_utils.py``.
    """
    settings, found = renamed.given, renamed.found
    size, pads = settings.whole("tokenizer.vocab_size"), settings.flag("model.should_pad_vocab")
    if "vocab-size" in found and not pads:
        key = "model.should_pad_vocab" if settings.has("model.should_pad_vocab") else "model.vocab_size"
        renamed.put("no-pad-vocab-size", key)
    elif "vocab-size" not in found and size is not None:
        renamed.put("vocab-size", "tokenizer.vocab_size", value=size)


def attention_groups(renamed: Renamed) -> None:
    """Groups of grouped-query attention, unless every head has keys and values of its own."""
    settings = renamed.given
    heads, groups = settings.whole("model.num_attention_heads"), settings.whole("model.num_query_groups")
    if groups is not None and groups != heads:
        renamed.put("group-query-attention", "model.num_query_groups")
        renamed.put("num-query-groups", "model.num_query_groups", value=groups)


def untied(renamed: Renamed) -> None:
    """An output layer with weights of its own."""
    key = "model.share_embeddings_and_output_weights"
    if renamed.given.raw(key) is False:
        renamed.put("untie-embeddings-and-output-weights", key)


def rope_fusion(renamed: Renamed) -> None:
    """Rotations of positions without a kernel of their own."""
    key = "model.apply_rope_fusion"
    if renamed.given.raw(key) is False:
        renamed.put("no-rope-fusion", key)


def sequence(renamed: Renamed) -> None:
    """The length of sequences, which the data set has too."""
    settings = renamed.given
    for key in ("dataset.seq_length", "dataset.sequence_length"):
        if settings.has(key) and "seq-length" not in renamed.found:
            renamed.put("seq-length", key, value=settings.raw(key))
        settings.used.add(key)
