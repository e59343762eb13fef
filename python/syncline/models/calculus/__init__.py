"""The layer calculus: operations, memory traffic and sizes of one operation of a network.

Start with :mod:`~syncline.models.calculus.op`, which states the rules (what a FLOP is, which traffic is counted).
Every other module has small functions that return an :class:`Op`:

=============== ===========================================================
module          operations
=============== ===========================================================
``dense``       convolution and linear layer (matrix products with weights)
``attention``   attention fused, or as scores, softmax and context; rotary positions
``norm``        batch norm, layer norm and RMS norm
``pooling``     maximum and average pooling
``pointwise``   activations, residual sum, dropout
``embedding``   table lookups, single or summed; trained positions
``interaction`` interaction of a recommendation model's features
=============== ===========================================================
"""

from syncline.models.calculus.attention import Heads, attention, causal, context, rotary, scores, softmax
from syncline.models.calculus.dense import bias, conv2d, linear
from syncline.models.calculus.embedding import embedding, embedding_bag, positions
from syncline.models.calculus.interaction import concatenate, dots
from syncline.models.calculus.norm import batch_norm, layer_norm, rms_norm
from syncline.models.calculus.op import NOTHING, Amount, Image, Op, Product
from syncline.models.calculus.pointwise import (
    dropout,
    gated,
    gelu,
    pointwise,
    relu,
    residual,
    sigmoid,
    silu,
    squared_relu,
)
from syncline.models.calculus.pooling import average_pool, max_pool

__all__ = [
    "NOTHING",
    "Amount",
    "Heads",
    "Image",
    "Op",
    "Product",
    "attention",
    "average_pool",
    "batch_norm",
    "bias",
    "causal",
    "concatenate",
    "context",
    "conv2d",
    "dots",
    "dropout",
    "embedding",
    "embedding_bag",
    "gated",
    "gelu",
    "layer_norm",
    "linear",
    "max_pool",
    "pointwise",
    "positions",
    "relu",
    "residual",
    "rms_norm",
    "rotary",
    "scores",
    "sigmoid",
    "silu",
    "softmax",
    "squared_relu",
]
