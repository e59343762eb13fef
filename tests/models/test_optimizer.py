"""What an update moves, by hand."""

import pytest

from syncline.models import layers
from syncline.models.optimizer import ADAM, NONE, SGD


@pytest.mark.parametrize(("data_type", "moved"), [("bf16", 28), ("fp16", 28), ("fp32", 28), ("tf32", 28), ("fp64", 56)])
def test_adam_moves_its_state_twice(data_type, moved):
    # Mixed precision: gradient 2, twice 12 of state (Rajbhandari et al. 2020, 3.1), the 16-bit parameter 2.
    assert ADAM.moved(data_type) == moved


def test_an_update_is_that_of_the_chosen_optimizer():
    for optimizer in (ADAM, SGD, NONE):
        for layer in layers("decoder", optimizer=optimizer.name, layers=1):
            parameters = layer.parameters
            assert layer.update("bf16") == (parameters * optimizer.flop, parameters * optimizer.moved("bf16"))


def test_an_optimizer_changes_nothing_but_updates():
    for with_it, without in zip(layers("mlp", optimizer="adam"), layers("mlp", optimizer="none"), strict=True):
        ours, theirs = with_it.scenario("bf16"), without.scenario("bf16")
        assert theirs.pop("update") == "none"
        flop, moved = 14 * with_it.parameters, 28 * with_it.parameters
        assert ours.pop("update") == {"ops": {"flop": f"{flop}FLOP", "memory": f"{moved}B"}}
        assert ours == theirs
