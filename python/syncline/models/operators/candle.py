"""CANDLE Uno, which predicts the response of tumours to drugs (topoopt2022, Table 2; the CANDLE benchmarks, Pilot 1).

Five of its seven inputs have a tower of dense layers each: gene expressions, and descriptors and fingerprints of two
drugs. They and the two doses are concatenated, and a trunk of dense layers follows. The defaults are those of
topoopt2022 5.3: 16 layers of 16384 in each tower, 8 in the trunk, and one output. Towers do not share parameters.
"""

from __future__ import annotations

from syncline.models.operators.operator import Operator, OperatorModel
from syncline.models.operators.parts import concatenation, dense

FEATURES = {
    "expression": 942,
    "descriptors1": 5270,
    "fingerprints1": 2048,
    "descriptors2": 5270,
    "fingerprints2": 2048,
}
"""Elements of the inputs with a tower."""
DOSES = 2
"""Inputs of one element, without a tower."""


def build(
    *, batch: int = 256, feature_width: int = 16384, feature_layers: int = 16, width: int = 16384, layers: int = 8
) -> OperatorModel:
    """Builds the towers ``expression0`` .., ``concat``, and the trunk ``dense0`` ...; the last one has one output."""
    operators: list[Operator] = []
    ends = []
    for feature, elements in FEATURES.items():
        reads: list[str] = []
        inputs = elements
        for at in range(feature_layers):
            operators.append(dense(f"{feature}{at}", reads, inputs, feature_width, reads_data=at == 0))
            reads, inputs = [f"{feature}{at}"], feature_width
        ends += reads
    joined = len(FEATURES) * feature_width + DOSES
    operators.append(concatenation("concat", ends, joined))
    reads, inputs = ["concat"], joined
    for at in range(layers):
        operators.append(dense(f"dense{at}", reads, inputs, width))
        reads, inputs = [f"dense{at}"], width
    operators.append(dense(f"dense{layers}", reads, inputs, 1, activation=None))
    return OperatorModel("CANDLE Uno", tuple(operators), batch, notes=("the drugs' towers share no parameters",))
