"""DLRM with one operator for each table (Naumov et al. 2019; topoopt2022, Table 2).

A bottom of dense layers, tables of embeddings beside it, their concatenation, and a top of dense layers. The defaults
are those of topoopt2022 5.3: 64 tables of 10 million vectors of 128 elements, of which 100 are added for each sample; 7
dense layers of 2048 at the bottom; 15 of 4096 and a classifier at the top.
"""

from __future__ import annotations

from syncline.models.operators.operator import Operator, OperatorModel
from syncline.models.operators.parts import classifier, concatenation, dense, table


def build(
    *,
    batch: int = 128,
    tables: int = 64,
    entries: int = 10_000_000,
    embedding: int = 128,
    pooling: int = 100,
    bottom: int = 2048,
    bottom_layers: int = 7,
    top: int = 4096,
    top_layers: int = 16,
) -> OperatorModel:
    """Builds ``table0`` .., ``bottom0`` .., ``concat`` and ``top0`` ...; ``top_layers`` count the classifier."""
    operators: list[Operator] = [table(f"table{at}", entries, embedding, pooling) for at in range(tables)]
    reads: list[str] = []
    for at in range(bottom_layers):
        operators.append(dense(f"bottom{at}", reads, bottom, bottom, reads_data=at == 0))
        reads = [f"bottom{at}"]
    width = tables * embedding + bottom
    operators.append(concatenation("concat", [*(f"table{at}" for at in range(tables)), *reads], width))
    reads, inputs = ["concat"], width
    for at in range(top_layers - 1):
        operators.append(dense(f"top{at}", reads, inputs, top))
        reads, inputs = [f"top{at}"], top
    operators.append(classifier(f"top{top_layers - 1}", reads, inputs))
    return OperatorModel("DLRM", tuple(operators), batch)
