"""NCF, neural collaborative filtering (He et al. 2017), as the released code of TopoOpt builds it.

Tables of users and of items, each twice: short vectors, whose products element by element are the matrix factorisation,
and longer ones, which a perceptron takes side by side. The defaults are 32 tables of users and 32 of items, of one
million vectors of 64 and of 128 elements, and a perceptron of 8 layers of 4096.
"""

from __future__ import annotations

from syncline.models.calculus import NOTHING, Amount, Op
from syncline.models.layer import Layer
from syncline.models.operators.operator import Operator, OperatorModel
from syncline.models.operators.parts import classifier, concatenation, dense, table


def build(
    *,
    batch: int = 128,
    tables: int = 32,
    entries: int = 1_000_000,
    factors: int = 64,
    embedding: int = 128,
    width: int = 4096,
    layers: int = 8,
) -> OperatorModel:
    """Builds tables, ``users``, ``items``, ``product``, ``factorisation``, ``concat``, ``mlp0``.. and ``output``."""
    operators: list[Operator] = []

    def tables_of(name: str, elements: int) -> list[str]:
        made = [table(f"{name}{at}", entries, elements, 1) for at in range(tables)]
        operators.extend(made)
        return [each.name for each in made]

    users, items = tables_of("user", factors), tables_of("item", factors)
    long = [*tables_of("user_mlp", embedding), *tables_of("item_mlp", embedding)]
    operators.append(concatenation("users", users, tables * factors))
    operators.append(concatenation("items", items, tables * factors))

    def product(samples: int, parts: int) -> Layer:
        elements = samples * tables * factors // parts
        # Both factors are read in each pass; backward also reads the gradient and writes two.
        forward, backward = Amount(elements, 3 * elements), Amount(2 * elements, 5 * elements)
        multiply = Op("multiply", 0, 2 * elements, elements, forward=forward, input_grad=backward, weight_grad=NOTHING)
        return Layer("product", (multiply,))

    operators.append(
        Operator(
            "product",
            "elementwise",
            ("users", "items"),
            product,
            features=tables * factors,
            element_wise=True,
            measured="ElementBinary_32",
        )
    )
    operators.append(dense("factorisation", ["product"], tables * factors, 1, activation=None))
    inputs, reads = 2 * tables * embedding, ["concat"]
    operators.append(concatenation("concat", long, inputs))
    for at in range(layers):
        operators.append(dense(f"mlp{at}", reads, inputs, width))
        reads, inputs = [f"mlp{at}"], width
    operators.append(concatenation("join", [*reads, "factorisation"], width + 1))
    operators.append(classifier("output", ["join"], width + 1))
    return OperatorModel("NCF", tuple(operators), batch)
