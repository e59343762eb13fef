"""Table lookups."""

from __future__ import annotations

from syncline.models.calculus.op import NOTHING, Amount, Op


def embedding(rows: int, entries: int, width: int) -> Op:
    """``rows`` lookups in a table of ``entries`` vectors of ``width`` elements.

    Forward moves the identifiers (one element each), the vectors that are read and the outputs, but not the whole
    table. The weight gradient is a dense table, because a dense table is exchanged: it is cleared, and each output
    gradient is read and added to its vector (read and written): 1 FLOP per element. Identifiers have no gradient.
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


def positions(samples: int, sequence: int, width: int, entries: int) -> Op:
    """Adds the trained vector of its position to each token; there are ``entries`` such vectors.

    1 FLOP for each element forward, and 1 backward to sum the gradients of the samples into the table's gradient. That
    gradient is dense: it is cleared, and each output gradient is read and added to its vector (read and written).
    """
    elements = samples * sequence * width
    return Op(
        "positions",
        parameters=entries * width,
        inputs=elements,
        outputs=elements,
        forward=Amount(elements, 2 * elements + sequence * width),
        input_grad=NOTHING,
        weight_grad=Amount(elements, entries * width + 3 * elements),
    )


def embedding_bag(samples: int, tables: int, entries: int, width: int, pooling: int) -> Op:
    """Looks up and adds ``pooling`` vectors of ``width`` elements in each of ``tables`` tables, for each sample.

    Forward moves the vectors that are read, and takes 1 FLOP for each element except the first of a sum. Identifiers
    and sums, which are 1 / ``width`` and 1 / ``pooling`` of that traffic, are not counted, as in dlrm2020. Backward,
    the gradient of a sum is also the gradient of every vector in it: it is read, and nothing is computed until the
    vectors are updated. Identifiers have no gradient.
    """
    sums = samples * tables * width
    return Op(
        "embedding_bag",
        parameters=tables * entries * width,
        inputs=samples * tables * pooling,
        outputs=sums,
        forward=Amount((pooling - 1) * sums, pooling * sums),
        input_grad=NOTHING,
        weight_grad=Amount(0, sums),
    )
