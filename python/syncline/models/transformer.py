"""Transformer encoder (Vaswani et al., "Attention is all you need", 2017), divided as in Megatron-LM.

Embedding, ``layers`` encoder blocks, projection to the vocabulary, and the loss's softmax. A block is attention and a
two-layer MLP, each followed by residual sum and layer norm (Vaswani 3.1). Parameters, with hidden size *d*,
feed-forward size *f*, *n* blocks and vocabulary *V*::

    V d + n (4 d^2 + 2 d f + f + d + 4 d)      attention, MLP with bias, two norms
        + 4 n d                                with attention_bias
        + V d                                  unless tied_embeddings

**Sizes.** astra2020 names the network and a local mini-batch of 32 (its V-E), and nothing else. Its Figure 13 and the
layer file published with it have an embedding, six equal encoder blocks, a projection, and no decoder. The default is
therefore the encoder half of the *base* model: 6 blocks, hidden 512, 8 heads, feed-forward 2048, and the 37,000 tokens
of Vaswani 5.1. Vaswani's batches count tokens, so ``sequence`` is a choice; 128 is the one that fits the file, whose
activations are 8,388,608 = 32 x 128 x 512 x 4 bytes. (That file's weight gradients for 4-way tensor parallelism are
128 times 512 x 512 x 4 / 4 and 512 x 2048 x 4 / 4 bytes, and its projection has 36,000 outputs. Here a gradient has the
size of its weights.) ``transformer_big`` has the sizes of *big* (Vaswani Table 3).

**Division** (Shoeybi et al., "Megatron-LM", 2019, section 3): queries, keys and values are divided together by columns,
that is, by heads; the output projection by rows; the MLP by columns, then rows; the embedding's table by its
entries, with a sum over the results of all parts (*row*); the projection to the vocabulary by columns. Layers between a
column and a row layer are divided. Every rank computes layer norms whole. A block therefore has two all-reduces forward
and two backward. The small exchanges of the loss (two numbers for each token) are left out, and the bias of a row
layer, which Megatron-LM keeps whole, is divided with its matrix.

Positions are sinusoids without parameters (Vaswani 3.5). Embedding and projection share one table (Vaswani 3.4): the
projection's ``parameters`` are then 0, and the embedding, whose gradient is complete last, reduces them. Attention has
no bias (Vaswani 3.2.2). Dropout is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.models.calculus import (
    context,
    embedding,
    layer_norm,
    linear,
    pointwise,
    relu,
    residual,
    scores,
    softmax,
)
from syncline.models.errors import ModelError
from syncline.models.info import model
from syncline.models.layer import Layer
from syncline.models.parameters import Parameter, boolean, integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.models.calculus import Op
    from syncline.models.layer import Sharding


_BY_HEADS = ("qkv", "scores", "softmax", "context")
"""Layers of a block that are divided by heads."""


def layers(
    *,
    batch_per_npu: int,
    layers: int,
    hidden: int,
    heads: int,
    feed_forward: int,
    sequence: int,
    vocabulary: int,
    attention_bias: bool,
    tied_embeddings: bool,
) -> list[Layer]:
    """Builds the layers ``embedding``, ``block1.qkv`` to ``block1.norm2``, ..., ``projection``, ``loss``."""
    if hidden % heads:
        raise ModelError("heads", heads, f"a divisor of hidden, which is {hidden}")
    batch, tokens = batch_per_npu, batch_per_npu * sequence
    values = tokens * hidden

    # Blocks differ only in their names, so their operations are made once.
    norm = (residual(values), layer_norm(tokens, hidden))
    block: list[tuple[str, tuple[Op, ...], Sharding]] = [
        ("qkv", (linear(tokens, hidden, 3 * hidden, bias=attention_bias),), "column"),
        ("scores", (scores(batch, sequence, hidden, heads),), "divided"),
        ("softmax", (softmax(tokens * heads, sequence),), "divided"),
        ("context", (context(batch, sequence, hidden, heads),), "divided"),
        ("output", (linear(tokens, hidden, hidden, bias=attention_bias),), "row"),
        ("norm1", norm, "replicated"),
        ("mlp1", (linear(tokens, hidden, feed_forward),), "column"),
        ("relu", (relu(tokens * feed_forward),), "divided"),
        ("mlp2", (linear(tokens, feed_forward, hidden),), "row"),
        ("norm2", norm, "replicated"),
    ]
    # Vectors are scaled (one multiplication, undone backward) and a position is added (Vaswani 3.4, 3.5).
    position = pointwise("position", values, forward=2, backward=1)
    project = linear(tokens, hidden, vocabulary, bias=False)
    return [
        Layer(
            "embedding",
            (embedding(tokens, vocabulary, hidden), position),
            "row",
            reads_data=True,
            vocabulary=vocabulary,
        ),
        *(
            Layer(f"block{index}.{name}", ops, sharding, heads=heads if name in _BY_HEADS else None)
            for index in range(1, layers + 1)
            for name, ops, sharding in block
        ),
        Layer("projection", (project,), "column", precise=True, borrowed=tied_embeddings, vocabulary=vocabulary),
        Layer("loss", (softmax(tokens, vocabulary),), "divided", vocabulary=vocabulary),
    ]


def _parameters(hidden: int, heads: int, feed_forward: int) -> Mapping[str, Parameter]:
    return {
        "layers": integer(6, "encoder blocks", 1, 10_000),
        "hidden": integer(hidden, "hidden size: elements of a token's vector", 1, 1 << 20),
        "heads": integer(heads, "attention heads; a divisor of hidden", 1, 1 << 20),
        "feed_forward": integer(feed_forward, "width of the hidden layer of a block's MLP", 1, 1 << 24),
        "sequence": integer(128, "tokens of a sample", 1, 1 << 20),
        "vocabulary": integer(37_000, "tokens in the vocabulary", 1, 1 << 24),
        "attention_bias": boolean("whether the projections of attention have a bias", default=False),
        "tied_embeddings": boolean("whether input embedding and output projection share their weights", default=True),
    }


INFO = model(
    "Transformer encoder, base: 6 blocks of 512",
    "Vaswani et al. 2017, Table 3 (base), encoder half; divided as in Shoeybi et al. 2019",
    layers,
    _parameters(512, 8, 2048),
)
BIG = model(
    "Transformer encoder, big: 6 blocks of 1024",
    "Vaswani et al. 2017, Table 3 (big), encoder half; divided as in Shoeybi et al. 2019",
    layers,
    _parameters(1024, 16, 4096),
)
