"""Table lookup."""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Op


def embedding(rows: int, entries: int, width: int) -> Op:
    """``rows`` lookups in a table of ``entries`` vectors of ``width`` elements.

    Forward moves the identifiers (one element each), the vectors that are read and the outputs: not the whole table.
    The weight gradient is a dense table, because that is what is exchanged: it is cleared, and each output gradient is
    read and added to its vector (read and written): 1 FLOP per element. Identifiers have no gradient.
    """
    found, table = rows * width, entries * width
    return Op(
        "embedding",
        parameters=table,
        inputs=rows,
        outputs=found,
        forward=Amount(0, rows + 2 * found),
        input_grad=NOTHING,
        weight_grad=Amount(found, rows + table + 3 * found),
    )
