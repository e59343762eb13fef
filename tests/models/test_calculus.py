"""Single operations, compared with counts done by hand."""

import pytest

from syncline.models.calculus import (
    NOTHING,
    Amount,
    Image,
    Product,
    average_pool,
    batch_norm,
    context,
    conv2d,
    dropout,
    embedding,
    gated,
    gelu,
    layer_norm,
    linear,
    max_pool,
    positions,
    relu,
    residual,
    rms_norm,
    rotary,
    scores,
    silu,
    softmax,
)


def test_a_matrix_product_costs_the_same_in_all_three_passes():
    op = linear(rows=4, inputs=3, outputs=5)
    assert op.multiply_adds == 60
    assert op.parameters == 20
    # Rows x inputs x outputs, rows x outputs x inputs, inputs x rows x outputs.
    moved = 12 + 20 + 20
    for amount, sizes in ((op.forward, (4, 3, 5)), (op.input_grad, (4, 5, 3)), (op.weight_grad, (3, 4, 5))):
        assert amount == Amount(120, moved, (Product(*sizes, moved),))


def test_memory_traffic_depends_on_the_data_type():
    assert [Amount(0, 10).memory(t) for t in ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")] == [
        80,
        40,
        40,
        20,
        20,
        10,
        10,
    ]


def test_the_first_convolution_of_resnet50_has_its_known_size():
    op, image = conv2d(1, Image(3, 224, 224), 64, 7, stride=2, padding=3)
    assert image == Image(64, 112, 112)
    assert op.parameters * 4 == 37_632  # bytes, as in the layer file of astra2020
    assert op.multiply_adds == 64 * 112 * 112 * 3 * 7 * 7
    # As a matrix product: a row per position, a column per window element. Only the image is moved, not the windows.
    assert op.forward.products == (Product(112 * 112, 3 * 7 * 7, 64, op.inputs + op.outputs + op.parameters),)
    assert (op.inputs, op.outputs) == (3 * 224 * 224, 64 * 112 * 112)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "expected"),
    [(5, 3, 1, 0, 3), (5, 3, 1, 1, 5), (5, 3, 2, 1, 3), (6, 3, 2, 1, 3), (7, 2, 2, 0, 3), (3, 3, 1, 0, 1)],
)
def test_a_window_slides_over_whole_positions(size, kernel, stride, padding, expected):
    assert Image(1, size, size).slide(1, kernel, stride, padding) == Image(1, expected, expected)


def test_a_window_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match="a window of 3 does not fit 2 elements with 0 of padding"):
        Image(1, 2, 2).slide(1, 3, 1, 0)


def test_a_convolution_of_one_pixel_is_a_linear_layer():
    as_conv, _ = conv2d(8, Image(16, 1, 1), 32, 1, bias=True)
    as_linear = linear(8, 16, 32)
    assert (as_conv.forward, as_conv.parameters) == (as_linear.forward, as_linear.parameters)


def test_both_operands_of_attention_products_need_a_gradient():
    op = scores(batch=2, sequence=8, hidden=16, heads=4)
    assert op.multiply_adds == 2 * 8 * 8 * 16
    assert op.outputs == 2 * 4 * 8 * 8
    assert op.input_grad.flop == 2 * op.forward.flop
    moved = op.inputs + op.outputs
    assert op.forward.products == (Product(8, 4, 8, moved, count=2 * 4),)
    assert op.input_grad.products == (Product(8, 8, 4, moved, count=8), Product(4, 8, 8, moved, count=8))
    back = context(batch=2, sequence=8, hidden=16, heads=4)
    assert back.multiply_adds == op.multiply_adds
    assert back.inputs == op.outputs + 2 * 8 * 16
    assert back.outputs == 2 * 8 * 16


def test_heads_change_the_scores_but_not_the_products():
    few, many = (scores(1, 32, 64, heads) for heads in (1, 8))
    assert few.multiply_adds == many.multiply_adds
    assert many.outputs == 8 * few.outputs


@pytest.mark.parametrize("op", [relu(10), residual(10), softmax(2, 5)], ids=lambda op: op.name)
def test_pointwise_operations_keep_their_shape_and_have_no_weights(op):
    assert (op.inputs, op.outputs, op.parameters, op.multiply_adds) == (10, 10, 0, 0)
    assert op.weight_grad == NOTHING


def test_norms_train_a_scale_and_a_shift():
    assert batch_norm(4, Image(64, 7, 7)).parameters == 128
    assert layer_norm(rows=10, width=512).parameters == 1024
    frozen = batch_norm(4, Image(64, 7, 7), affine=False)
    assert (frozen.parameters, frozen.weight_grad) == (0, NOTHING)


def test_pooling_costs_an_operation_for_each_element_of_a_window():
    biggest, image = max_pool(2, Image(64, 112, 112), 3, stride=2, padding=1)
    assert image == Image(64, 56, 56)
    assert biggest.forward == Amount(9 * biggest.outputs, biggest.inputs + biggest.outputs)
    mean, image = average_pool(2, Image(2048, 7, 7))
    assert image == Image(2048, 1, 1)
    assert mean.forward.flop == mean.inputs == 2 * 2048 * 49


def test_a_lookup_reads_rows_and_not_the_table():
    op = embedding(rows=6, entries=1000, width=8)
    assert op.parameters == 8000
    assert op.forward == Amount(0, 6 + 2 * 48)
    assert op.input_grad == NOTHING
    assert op.weight_grad == Amount(48, 6 + 8000 + 3 * 48)


def test_products_account_for_all_multiply_adds():
    conv, _ = conv2d(3, Image(5, 9, 9), 7, 3, stride=2, padding=1)
    for op in (conv, linear(4, 3, 5), scores(2, 8, 16, 4), context(2, 8, 16, 4)):
        for amount in (op.forward, op.input_grad, op.weight_grad):
            assert sum(2 * p.m * p.k * p.n * p.count for p in amount.products) == amount.flop
            assert sum(p.moved for p in amount.products) == amount.moved


def test_grouped_queries_have_the_products_of_all_heads_and_fewer_keys():
    plain, grouped = scores(2, 8, 64, 4), scores(2, 8, 64, 4, kv_heads=1)
    assert grouped.multiply_adds == plain.multiply_adds == 2 * 4 * 8 * 8 * 16
    assert (plain.inputs, grouped.inputs) == (16 * (64 + 64), 16 * (64 + 16))
    assert context(2, 8, 64, 4).inputs - context(2, 8, 64, 4, kv_heads=1).inputs == 16 * 48


def test_a_gated_activation_reads_two_halves():
    op = gated(silu(10))
    assert (op.inputs, op.outputs) == (20, 10)
    assert (op.forward, op.input_grad) == (Amount(60, 30), Amount(120, 50))


def test_an_rms_norm_has_a_scale_and_no_shift():
    op = rms_norm(4, 5)
    assert (op.parameters, layer_norm(4, 5).parameters) == (5, 10)
    assert (op.forward, op.input_grad, op.weight_grad) == (Amount(80, 45), Amount(80, 65), Amount(60, 45))
    assert rms_norm(4, 5, affine=False).weight_grad == NOTHING


def test_learned_positions_are_a_table_with_one_entry_each():
    op = positions(2, 3, 4, 9)
    assert op.parameters == 36
    assert op.forward == Amount(24, 2 * 24 + 12)
    assert op.weight_grad == Amount(24, 36 + 3 * 24)


def test_pointwise_operations_of_decoders_have_their_known_cost():
    assert [op(10).forward.flop for op in (gelu, silu, dropout)] == [90, 50, 10]
    assert rotary(5, 2).forward == rotary(5, 2).input_grad == Amount(30, 20)
