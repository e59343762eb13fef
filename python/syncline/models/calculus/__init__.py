"""The layer calculus: what one operation of a network computes, moves and holds.

Start with :mod:`~syncline.models.calculus.op`, which states the rules (what a FLOP is, which traffic is counted).
Every other module gives operations as small functions that return an :class:`Op`:

============== ============================================================
module         operations
============== ============================================================
``dense``      convolution and linear layer (matrix products with weights)
``attention``  scores and context (matrix products without weights), softmax
``norm``       batch norm and layer norm
``pooling``    maximum and average pooling
``pointwise``  activation, residual sum
``embedding``  table lookup
============== ============================================================
"""

from syncline.models.calculus.attention import context, scores, softmax
from syncline.models.calculus.dense import conv2d, linear
from syncline.models.calculus.embedding import embedding
from syncline.models.calculus.norm import batch_norm, layer_norm
from syncline.models.calculus.op import NOTHING, Amount, Image, Op, Product
from syncline.models.calculus.pointwise import pointwise, relu, residual
from syncline.models.calculus.pooling import average_pool, max_pool

__all__ = [
    "NOTHING",
    "Amount",
    "Image",
    "Op",
    "Product",
    "average_pool",
    "batch_norm",
    "context",
    "conv2d",
    "embedding",
    "layer_norm",
    "linear",
    "max_pool",
    "pointwise",
    "relu",
    "residual",
    "scores",
    "softmax",
]
