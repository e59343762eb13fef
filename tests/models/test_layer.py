"""Layers of a scenario, made from chains of operations."""

from syncline.models.calculus import Image, batch_norm, conv2d, linear, relu, residual, softmax
from syncline.models.layer import Layer
from syncline.models.types import Types

CONV, SHAPE = conv2d(2, Image(3, 8, 8), 4, 3, padding=1)
NORM, RELU = batch_norm(2, SHAPE), relu(2 * SHAPE.elements)


def test_operations_after_the_weights_belong_to_the_weight_gradient():
    layer = Layer("conv", (CONV, NORM, RELU))
    assert layer.forward == CONV.forward + NORM.forward + RELU.forward
    assert layer.input_grad == CONV.input_grad
    assert layer.weight_grad == CONV.weight_grad + NORM.weight_grad + NORM.input_grad + RELU.input_grad


def test_operations_before_the_weights_belong_to_the_input_gradient():
    add = residual(CONV.inputs)
    layer = Layer("conv", (add, CONV))
    assert layer.input_grad == add.input_grad + CONV.input_grad
    assert layer.weight_grad == CONV.weight_grad


def test_without_weights_the_whole_backward_pass_is_the_input_gradient():
    layer = Layer("loss", (softmax(2, 5),)).scenario(Types.uniform("fp32"))
    assert layer["input_grad"] == {"ops": {"flop": "50FLOP", "memory": "120B"}}
    assert (layer["weight_grad"], layer["update"], layer["parameters"]) == ("none", "none", 0)


def test_the_first_layer_has_no_input_gradient():
    layer = Layer("conv", (CONV, NORM, RELU), reads_data=True)
    assert layer.scenario(Types.uniform("fp32"))["input_grad"] == "none"
    assert layer.weight_grad == Layer("conv", (CONV, NORM, RELU)).weight_grad


def test_only_the_owner_counts_shared_weights():
    own, borrowed = (Layer("fc", (linear(2, 3, 4),), borrowed=b) for b in (False, True))
    assert (own.parameters, borrowed.parameters) == (16, 0)
    assert borrowed.weight_grad == own.weight_grad
    assert borrowed.scenario(Types.uniform("fp32"))["update"] == "none"


def test_a_layer_is_written_in_the_form_of_a_scenario():
    def ops(m, k, n):
        product = {"m": m, "k": k, "n": n, "count": 1, "memory": "60B"}
        return {"ops": {"flop": "48FLOP", "memory": "60B", "products": [product]}}

    assert Layer("fc", (linear(2, 3, 4),), "column").scenario(Types.uniform("fp16")) == {
        "name": "fc",
        "forward": ops(2, 3, 4),
        "input_grad": ops(2, 4, 3),
        "weight_grad": ops(3, 2, 4),
        "update": {"ops": {"flop": "32FLOP", "memory": "96B"}},
        "parameters": 16,
        "inputs": 6,
        "outputs": 8,
        "sharding": "column",
    }
