"""The cost of each operator, by the rules of :mod:`syncline.models.calculus.op`.

Operators are ATen's, as they are called below PyTorch's automatic differentiation. A rule turns a call into an
operation. Gradients that are not needed cost nothing: those of training data, and those of weights that are not
trained.

Not counted are views, which move nothing; allocation; and operations on single numbers, such as counters. Attention
that PyTorch runs as one operator has the FLOP of its products and its softmax, but moves only queries, keys, values and
results. No mask is assumed, as in the calculus.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

from syncline.models.calculus import NOTHING, Amount, Op, Product, embedding, softmax

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from syncline.models.traced.call import Call, Operand


def cost(call: Call, *, pointwise: bool, known: Mapping[str, float]) -> Op | None:
    """The operation for a call; ``None`` if there is no rule for its operator.

    ``pointwise`` says that PyTorch marks the operator as elementwise. ``known`` gives FLOP per element of the result
    for operators without a rule.
    """
    if call.name in known:
        return _elementwise(call, known[call.name])
    if rule := _RULES.get(call.name):
        return rule(call)
    if call.name.startswith("_scaled_dot_product_"):
        return _attention(call)
    if not call.operands:
        return _made(call)
    return _elementwise(call, 1) if pointwise else None


def is_product(call: Call) -> bool:
    """Whether a call with weights begins a layer: a matrix product, a convolution, a lookup."""
    return call.name in _PRODUCTS and bool(call.weights)


def _op(call: Call, forward: Amount, input_grad: Amount, weight_grad: Amount = NOTHING) -> Op:
    """An operation with only the gradients that are needed."""
    return Op(
        call.name,
        call.parameters,
        call.inputs,
        call.written,
        forward,
        input_grad if call.needs_input_grad else NOTHING,
        weight_grad if call.needs_weight_grad else NOTHING,
        multiply_adds=sum(each.m * each.k * each.n * each.count for each in forward.products),
    )


def _matrix(call: Call, left: Operand, right: Operand, sizes: tuple[int, int, int], count: int = 1) -> Op:
    """``count`` products of ``left`` (m x k) and ``right`` (k x n); if only ``left`` is a weight, swaps the sides."""
    m, k, n = sizes
    if left.weights and not right.weights:
        left, right, m, n = right, left, n, m
    work, moved = 2 * m * k * n * count, call.inputs + call.moved_weights + call.written
    gradients = ((left, Product(m, n, k, moved, count)), (right, Product(k, m, n, moved, count)))
    input_grad, weight_grad = NOTHING, NOTHING
    for operand, product in gradients:
        if operand.grad and operand.weights:
            weight_grad += Amount(work, moved, (product,))
        elif operand.grad:
            input_grad += Amount(work, moved, (product,))
    return _op(call, Amount(work, moved, (Product(m, k, n, moved, count),)), input_grad, weight_grad)


def _mm(call: Call) -> Op:
    left, right = call.args[:2]
    return _matrix(call, left, right, (left.shape[0], left.shape[1], right.shape[1]))


def _addmm(call: Call) -> Op:
    left, right = call.args[1:3]
    return _matrix(call, left, right, (left.shape[0], left.shape[1], right.shape[1]))


def _bmm(call: Call) -> Op:
    left, right = call.args[-2:] if call.name == "bmm" else call.args[1:3]
    return _matrix(call, left, right, (left.shape[1], left.shape[2], right.shape[2]), left.shape[0])


def _linear(call: Call) -> Op:
    inputs, weight = call.args[:2]
    return _matrix(call, inputs, weight, (inputs.elements // weight.shape[1], weight.shape[1], weight.shape[0]))


def _mv(call: Call) -> Op:
    matrix, vector = call.args[:2] if call.name == "mv" else call.args[1:3]
    return _matrix(call, matrix, vector, (matrix.shape[0], matrix.shape[1], 1))


def _dot(call: Call) -> Op:
    left, right = call.args[:2]
    return _matrix(call, left, right, (1, left.elements, 1))


def _convolution(call: Call) -> Op:
    """A convolution as matrix products (im2col): rows are the positions of all samples; one product for each group."""
    inputs, weight = call.args[:2]
    transposed, groups = call.arg(6, "transposed", default=False), call.arg(8, "groups", default=1)
    window = prod(weight.shape[2:])
    if transposed:
        # Each input position is multiplied into a window of the output: weights are inputs x outputs x window.
        rows = inputs.elements // inputs.shape[1]
        sizes = rows, inputs.shape[1] // groups, weight.shape[1] * window
    else:
        rows = call.written // call.outputs[0].shape[1]
        sizes = rows, weight.shape[1] * window, weight.shape[0] // groups
    return _matrix(call, inputs, weight, sizes, groups)


def _attention(call: Call) -> Op:
    """Scores, softmax and context in one operator, without memory traffic for scores."""
    query, key, value = call.args[:3]
    *batch, rows, width = query.shape
    count, columns, depth = prod(batch), key.shape[-2], value.shape[-1]
    scores, context = rows * columns * width * count, rows * columns * depth * count
    soft = softmax(rows * count, columns)
    read, outputs = call.inputs, call.written
    ends = query.elements + key.elements, read - query.elements - key.elements + outputs

    def products(*sizes: tuple[int, int, int], moved: int) -> tuple[Product, ...]:
        return tuple(Product(m, k, n, moved, count) for m, k, n in sizes)

    forward = Amount(
        2 * (scores + context) + soft.forward.flop,
        sum(ends),
        products((rows, width, columns), moved=ends[0]) + products((rows, columns, depth), moved=ends[1]),
    )
    input_grad = Amount(
        4 * (scores + context) + soft.input_grad.flop,
        2 * sum(ends),
        products((rows, columns, width), (columns, rows, width), moved=ends[0])
        + products((rows, depth, columns), (columns, rows, depth), moved=ends[1]),
    )
    return _op(call, forward, input_grad)


def _norm(call: Call, *, forward: int, input_grad: int, weight_grad: int) -> Op:
    """Norms; FLOP per element as in :mod:`syncline.models.calculus.norm`."""
    elements = call.written
    # The operator also updates running means, which are small buffers and not weights.
    parameters = call.moved_weights
    scales = parameters // max(1, len(call.weights))
    return Op(
        call.name,
        call.parameters,
        elements,
        elements,
        Amount(forward * elements, 2 * elements + parameters),
        Amount(input_grad * elements, 3 * elements + scales) if call.needs_input_grad else NOTHING,
        Amount(weight_grad * elements, 2 * elements + parameters) if call.needs_weight_grad else NOTHING,
    )


def _centred(call: Call) -> Op:
    return _norm(call, forward=7, input_grad=6, weight_grad=5)


def _rms(call: Call) -> Op:
    """An RMS norm, without mean and shift. Forward: square and sum 2, normalise 1, scale 1."""
    return _norm(call, forward=4, input_grad=5, weight_grad=3)


def _softmax(call: Call) -> Op:
    made = softmax(1, call.written)
    return _op(call, made.forward, made.input_grad)


def _embedding(call: Call) -> Op:
    table, identifiers = call.args[:2]
    made = embedding(identifiers.elements, table.shape[0], table.shape[1])
    return _op(call, made.forward, NOTHING, made.weight_grad)


def _embedding_bag(call: Call) -> Op:
    """Lookups whose vectors are summed in each bag."""
    table, identifiers = call.args[:2]
    made = embedding(identifiers.elements, table.shape[0], table.shape[1])
    found = identifiers.elements * table.shape[1]
    return _op(call, Amount(found, identifiers.elements + found + call.written), NOTHING, made.weight_grad)


def _window_pool(call: Call) -> Op:
    """Pooling: compares or adds each element of a window once for each result."""
    inputs, kernel = call.args[0], call.args[1]
    dims = len(call.outputs[0].shape) - 2
    window = prod(kernel) if len(kernel) > 1 else kernel[0] ** dims
    outputs = call.written
    forward = Amount(outputs * window, inputs.elements + outputs)
    return _op(call, forward, Amount(outputs, inputs.elements + 2 * outputs))


def _reduction(call: Call) -> Op:
    """A reduction: one FLOP for each input; backward, each input's gradient is written once."""
    each = Amount(call.inputs, call.inputs + call.written)
    weights = Amount(call.moved_weights, call.moved_weights + call.written)
    return _op(call, each + weights if call.weights else each, each, weights)


def _spread(call: Call) -> Op:
    """Variance or standard deviation, which need the mean first."""
    read = call.inputs
    return _op(call, Amount(3 * read, read + call.written), Amount(3 * read, 2 * read + call.written))


def _sorted(call: Call) -> Op:
    """A sort: for each element, as many comparisons as the logarithm of the length."""
    read = call.inputs
    length = call.args[0].shape[-1] if call.args[0].shape else 1
    return _op(
        call, Amount(read * max(1, (length - 1).bit_length()), read + call.written), Amount(0, read + call.written)
    )


def _copied(call: Call) -> Op:
    """Moves elements without computing anything. Operators that select elements read only these."""
    read = min(call.inputs, call.written) if call.name in _CHOOSING else call.inputs
    each = Amount(0, read + call.moved_weights + call.written)
    return _op(call, each, each, each)


def _made(call: Call) -> Op:
    """Creates elements without reading any."""
    return Op(call.name, 0, 0, call.written, Amount(0, call.written), NOTHING, NOTHING)


def _drawn(call: Call) -> Op:
    """Random numbers, which have no gradient: one FLOP each."""
    return Op(call.name, 0, 0, call.written, Amount(call.written, call.written), NOTHING, NOTHING)


def _dropout(call: Call) -> Op:
    """Dropout: draws, divides, multiplies; backward, applies the mask again."""
    elements = call.written
    return _op(call, Amount(3 * elements, 3 * elements), Amount(elements, 3 * elements))


def _interpolated(call: Call) -> Op:
    """Bilinear interpolation: a multiplication and an addition for each of four neighbours of a result."""
    moved = call.inputs + call.written
    return _op(call, Amount(8 * call.written, moved), Amount(8 * call.written, moved))


def _elementwise(call: Call, flop: float) -> Op:
    """An elementwise function.

    Backward reads the gradient of the result and the operands, and writes a gradient for each operand that needs one.
    Sums do not read operands: they add gradients where paths meet, as :func:`~syncline.models.calculus.residual` does.
    """
    read, outputs = call.inputs, call.written
    work = round(flop * outputs)
    sums = call.name in ("add", "sub", "rsub")
    wanted = [each for each in call.activations if each.grad]
    forward = Amount(work, read + call.moved_weights + outputs)
    if sums:
        input_grad = Amount(work, forward.moved)
    else:
        input_grad = Amount(work * len(wanted), outputs + read + sum(each.elements for each in wanted))
    trained = sum(each.elements for each in call.weights if each.grad)
    return _op(call, forward, input_grad, Amount(2 * outputs, outputs + (0 if sums else read) + trained))


def _weight_norm(call: Call) -> Op:
    """A weight computed from its direction and length: square and sum, divide."""
    return _elementwise(call, 3)


_PRODUCTS: Mapping[str, Callable[[Call], Op]] = MappingProxyType(
    {
        "mm": _mm,
        "addmm": _addmm,
        "bmm": _bmm,
        "baddbmm": _bmm,
        "linear": _linear,
        "mv": _mv,
        "addmv": _mv,
        "convolution": _convolution,
        "_convolution": _convolution,
        "embedding": _embedding,
        "_embedding_bag": _embedding_bag,
        "_embedding_bag_forward_only": _embedding_bag,
    }
)
"""Rules of the operators that can begin a layer."""

_CHOOSING = frozenset(
    {"index", "_unsafe_index", "index_select", "gather", "nll_loss_forward", "nll_loss2d_forward", "slice", "select"}
)
"""Operators that read only the elements that they select."""


def _all(rule: Callable[[Call], Op], names: str) -> dict[str, Callable[[Call], Op]]:
    return dict.fromkeys(names.split(), rule)


_RULES: Mapping[str, Callable[[Call], Op]] = MappingProxyType(
    {
        **_PRODUCTS,
        **_all(_dot, "dot vdot"),
        **_all(
            _centred,
            "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional batch_norm_with_update "
            "_batch_norm_with_update cudnn_batch_norm native_layer_norm native_group_norm",
        ),
        **_all(_rms, "_fused_rms_norm rms_norm"),
        **_all(_softmax, "_softmax _log_softmax _safe_softmax"),
        **_all(_window_pool, "max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d"),
        **_all(
            _reduction,
            "sum mean amax amin max min prod any all argmax argmin cumsum cumprod logsumexp norm linalg_vector_norm "
            "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d mse_loss binary_cross_entropy "
            "nansum count_nonzero",
        ),
        **_all(_spread, "var std var_mean std_mean"),
        **_all(_sorted, "sort topk argsort kthvalue median"),
        **_all(
            _copied,
            "clone copy _to_copy contiguous cat stack constant_pad_nd reflection_pad2d replication_pad2d index "
            "_unsafe_index index_select index_put _unsafe_index_put index_add index_copy gather scatter scatter_add "
            "slice_scatter select_scatter select slice flip roll repeat repeat_interleave im2col col2im unfold tril "
            "triu pixel_shuffle pixel_unshuffle channel_shuffle nll_loss_forward nll_loss2d_forward one_hot "
            "masked_scatter upsample_nearest1d upsample_nearest2d _upsample_nearest_exact2d expand_copy view_copy "
            "permute_copy diag_embed split_with_sizes_copy",
        ),
        **_all(_made, "fill zero zeros_like ones_like full_like arange new_zeros new_ones new_full scalar_tensor"),
        **_all(_drawn, "bernoulli normal uniform rand_like randn_like randint_like exponential random randperm"),
        **_all(_weight_norm, "_weight_norm_interface"),
        **_all(_dropout, "native_dropout"),
        **_all(_interpolated, "upsample_bilinear2d upsample_linear1d _upsample_bilinear2d_aa"),
    }
)
"""Rules by operator. All other operators are refused, unless PyTorch marks them as elementwise."""

_FREE = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "_reshape_alias"}
    | {"lift_fresh", "lift_fresh_copy", "detach", "set", "resize", "t", "transpose", "squeeze", "unsqueeze", "alias"}
)
"""Operators that cost nothing, although they are not views or change a view in place."""


def free(name: str) -> bool:
    """Whether an operator costs nothing although its result is not a view."""
    return name in _FREE
