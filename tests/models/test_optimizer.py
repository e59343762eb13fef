"""Memory traffic of updates, calculated by hand."""

import pytest

from syncline.models import layers
from syncline.models.optimizer import ADAM, NONE, SGD
from syncline.models.types import PRECISIONS, Types, types

BF16 = PRECISIONS["bf16"]


@pytest.mark.parametrize(
    ("precision", "moved"),
    [("bf16", 30), ("fp16", 28), ("fp8", 30), ("fp32", 28), ("tf32", 28), ("fp64", 56)],
)
def test_adam_reads_and_writes_its_state(precision, moved):
    # Mixed precision: the gradient (4 in bf16, 2 in fp16), twice 12 of state (Rajbhandari et al. 2020, 3.1), the
    # parameter 2.
    assert ADAM.moved(PRECISIONS[precision]) == moved


def test_without_states_an_update_moves_gradient_and_parameter():
    assert [SGD.moved(PRECISIONS[each]) for each in ("fp32", "fp64")] == [12, 24]
    # The gradient in fp32, the parameter in bf16.
    assert SGD.moved(BF16) == 8
    assert SGD.moved(Types.uniform("bf16")) == 6
    assert NONE.moved(BF16) == 0


def test_updates_depend_on_the_optimizer():
    for optimizer in (ADAM, SGD, NONE):
        for layer in layers("decoder", optimizer=optimizer.name, layers=1):
            parameters = layer.parameters
            assert layer.update(BF16) == (parameters * optimizer.flop, parameters * optimizer.moved(BF16))


def test_an_optimizer_changes_nothing_but_updates():
    for with_it, without in zip(layers("mlp", optimizer="adam"), layers("mlp", optimizer="none"), strict=True):
        ours, theirs = with_it.scenario(BF16), without.scenario(BF16)
        assert theirs.pop("update") == "none"
        flop, moved = 14 * with_it.parameters, 30 * with_it.parameters
        assert ours.pop("update") == {"ops": {"flop": f"{flop}FLOP", "memory": f"{moved}B"}}
        assert ours == theirs


def test_types_follow_the_precision_unless_given():
    assert types("fp8", {"gradients": "bf16"}) == Types("fp8", "bf16", "bf16", "bf16", "fp32", "bf16")
    # Exchanged activations have the type of activations by default.
    assert types("bf16", {"activations": "fp8"}).communication == "fp8"
    assert types("bf16", {"activations": "fp8", "communication": "bf16"}).communication == "bf16"
