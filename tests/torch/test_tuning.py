"""Plans of process groups that change, by hand and by a tuner."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.torch.ranks import run

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.mark.parametrize("case", ["changed", "tuned"])
def test_training_goes_on_while_plans_change(case):
    run(3, case, cases="tuning_cases")


def test_contradicting_options_are_refused():
    (said,) = run(1, "refused", cases="tuning_cases")
    assert said.count("runs cannot be reproducible with plans chosen by measurements") == 2
    assert "there is no such way to find groups" in said
