"""DLRM, the deep learning recommendation model (Naumov et al. 2019).

The *bottom* MLP turns dense features into a vector as long as an embedding. Each sparse feature has its own
table, in which ``pooling`` vectors are looked up and added up. All these vectors *interact*, and the *top* MLP
turns the result into a probability. With *d* the embedding's length and *F* sparse features, the top MLP has
these inputs::

    concat      (F + 1) d              all vectors side by side
    dot         (F + 1) F / 2 + d      the dot product of each pair of vectors, and the dense vector (Naumov 2.2)

**Sizes.** The defaults are dlrm2020, Table V: 16-bit elements; MLPs of ``5+2`` and ``10+2`` layers of 1024 and
2048, that is, a first layer, hidden layers of equal size and a last one. Its largest layer of 16.2 MB is 4160 x 2048
elements of 2 bytes, and 4160 = (64 + 1) x 64 is a concatenation. The paper does not give the number of entries of a
table, on which only the count of parameters depends. By default there are no biases, as in the paper (``bias``).

**Division** (dlrm2020 III-A). Perceptrons are data-parallel. Tables are divided evenly among all ranks; if there are
fewer tables than ranks, several ranks divide a table by columns. A rank looks up its part of the tables for the samples
of all ranks, which is as much work as all tables for its own samples. An all-to-all sends every sample's vectors to its
rank; backward, another one returns their gradients. The bottom MLP does not wait for the first all-to-all
(``needed_by``). Updates of tables change only the vectors that were looked up. The loss is left out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from syncline.models.calculus import concatenate, dots, embedding_bag, linear, relu, sigmoid
from syncline.models.info import model
from syncline.models.layer import Layer
from syncline.models.parameters import COMMON, boolean, choice, integer, integers

if TYPE_CHECKING:
    from collections.abc import Sequence


def layers(
    *,
    batch_per_npu: int,
    dense_features: int,
    bottom_mlp: Sequence[int],
    sparse_features: int,
    embedding_dim: int,
    table_entries: int,
    pooling: int,
    interaction: str,
    top_mlp: Sequence[int],
    bias: bool,
) -> list[Layer]:
    """Builds the layers ``embedding``, ``bottom0`` to ``bottomN`` and ``top0`` (with the interaction) to ``topN``."""
    batch, vectors = batch_per_npu, sparse_features + 1
    lookup = embedding_bag(batch, sparse_features, table_entries, embedding_dim, pooling)
    meet = (concatenate if interaction == "concat" else dots)(batch, vectors, embedding_dim)
    bottom = (dense_features, *bottom_mlp, embedding_dim)
    top = (meet.outputs // batch, *top_mlp, 1)
    built = [
        Layer(
            "embedding",
            (lookup,),
            "exchange",
            reads_data=True,
            updated=pooling * lookup.outputs,
            needed_by="top0",
        )
    ]
    for index, (inputs, outputs) in enumerate(pairwise(bottom)):
        product = linear(batch, inputs, outputs, bias=bias)
        built.append(Layer(f"bottom{index}", (product, relu(product.outputs)), reads_data=index == 0))
    for index, (inputs, outputs) in enumerate(pairwise(top)):
        product = linear(batch, inputs, outputs, bias=bias)
        before = (meet,) if index == 0 else ()
        last = index == len(top_mlp)
        built.append(Layer(f"top{index}", (*before, product, (sigmoid if last else relu)(product.outputs))))
    return built


INFO = model(
    "DLRM, recommendation: 57.4 M parameters in MLPs, 64 tables",
    "Naumov et al. 2019; sizes and division as in dlrm2020, Table V and III-A",
    layers,
    {
        "batch_per_npu": integer(
            512, "samples that one NPU works on in one iteration, or in one of its micro-batches", 1, 1 << 20
        ),
        "precision": COMMON["precision"]._replace(default="fp16"),
        "dense_features": integer(1600, "dense features of a sample", 1, 1 << 24),
        "bottom_mlp": integers(
            (1024,) * 6,
            "outputs of the bottom MLP's layers, except the last, which has embedding_dim",
            1,
            1 << 24,
            shortest=1,
        ),
        "sparse_features": integer(64, "sparse features of a sample, each with a table", 1, 1 << 20),
        "embedding_dim": integer(64, "elements of an embedding vector", 1, 1 << 20),
        "table_entries": integer(10_000_000, "vectors of a table", 1, 1 << 40),
        "pooling": integer(60, "vectors that are looked up in a table for one sample", 1, 1 << 20),
        "interaction": choice(
            "concat", "interaction of features: concatenation, or dot products of pairs", "concat", "dot"
        ),
        "top_mlp": integers(
            (2048,) * 11,
            "outputs of the top MLP's layers, except the last, which has one",
            1,
            1 << 24,
            shortest=1,
        ),
        "bias": boolean("whether layers of the MLPs have a bias", default=False),
    },
)
