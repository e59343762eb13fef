"""BERT as FlexFlow's transformer builds it (topoopt2022, Table 2; its released code).

Each block is a pair of an encoder and a decoder without embeddings: the encoder has attention, a sum and two dense
layers; the decoder has attention, a sum, attention to the encoder, a sum and two dense layers. The defaults are those
of topoopt2022 5.3: 12 blocks, hidden size 1024, 16 heads, sequences of 64.
"""

from __future__ import annotations

from syncline.models.errors import ModelError
from syncline.models.operators.operator import Operator, OperatorModel
from syncline.models.operators.parts import added, dense, self_attention


def build(
    *, batch: int = 16, blocks: int = 12, hidden: int = 1024, heads: int = 16, sequence: int = 64
) -> OperatorModel:
    """Builds ``encoder0.attention`` .., ``decoder0.attention`` .. and ``output``.

    Raises :class:`~syncline.models.errors.ModelError` if ``heads`` does not divide ``hidden``.
    """
    if hidden % heads:
        raise ModelError("heads", heads, f"a divisor of the hidden size, {hidden}")
    operators: list[Operator] = []
    features = sequence * hidden

    def attend(name: str, reads: list[str], *, first: bool = False) -> None:
        operators.append(self_attention(name, reads, sequence=sequence, hidden=hidden, heads=heads, reads_data=first))

    def feed(name: str, reads: list[str]) -> str:
        operators.append(dense(f"{name}.dense0", reads, hidden, hidden, rows=sequence))
        operators.append(dense(f"{name}.dense1", [f"{name}.dense0"], hidden, hidden, rows=sequence, activation=None))
        return f"{name}.dense1"

    encoded: list[str] = []
    decoded: list[str] = []
    for block in range(blocks):
        name = f"encoder{block}"
        attend(f"{name}.attention", encoded, first=not encoded)
        operators.append(added(f"{name}.sum", [f"{name}.attention", *encoded], features))
        encoded = [feed(name, [f"{name}.sum"])]
        name = f"decoder{block}"
        attend(f"{name}.attention", decoded, first=not decoded)
        operators.append(added(f"{name}.sum", [f"{name}.attention", *decoded], features))
        attend(f"{name}.cross", [f"{name}.sum", *encoded])
        operators.append(added(f"{name}.cross_sum", [f"{name}.cross", f"{name}.sum"], features))
        decoded = [feed(name, [f"{name}.cross_sum"])]
    operators.append(dense("output", decoded, hidden, 1, rows=sequence, activation=None))
    return OperatorModel("BERT", tuple(operators), batch, notes=("embeddings and layer norms are left out",))
