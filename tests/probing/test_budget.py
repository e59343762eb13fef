"""A budget of time is divided among rounds, and never exceeded by what is planned."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.errors import SynclineError
from syncline.probing.budget import DEFAULT_SAMPLES, MAX_PLANNED_SAMPLES, RATE_S, Costs, Plan, Wanted, plan
from syncline.probing.estimates import MIN_SAMPLES

COSTS = Costs(echo_s=1e-4, step_s=0.01)


def test_without_a_budget_the_defaults_apply():
    assert plan(Wanted(), 10, COSTS, None) == Plan(DEFAULT_SAMPLES, 0.0)
    assert plan(Wanted(samples=77), 10, COSTS, None) == Plan(77, 0.0)
    assert plan(Wanted(rtt=False, rate=True), 10, COSTS, None) == Plan(0, RATE_S)


def test_samples_follow_from_the_budget():
    # 10 rounds of 0.9 s each, less 10 ms for orders and answers, hold 890 ms of echoes of 0.1 ms.
    assert plan(Wanted(budget_s=12), 10, COSTS, 10.0).samples == 8900
    assert plan(Wanted(budget_s=12), 100, COSTS, 10.0).samples == 800
    assert plan(Wanted(budget_s=3600), 10, COSTS, 3600.0).samples == MAX_PLANNED_SAMPLES


@given(
    rounds=st.integers(1, 2000),
    echo_s=st.floats(1e-6, 0.2),
    step_s=st.floats(0.0, 0.1),
    budget_s=st.floats(2, 10_000),
    rtt=st.booleans(),
    rate=st.booleans(),
    samples=st.none() | st.integers(MIN_SAMPLES, 10_000),
)
def test_a_plan_fits_into_its_budget_or_names_one_that_suffices(rounds, echo_s, step_s, budget_s, rtt, rate, samples):
    if not (rtt or rate):
        rtt = True
    costs = Costs(echo_s, step_s)
    wanted = Wanted(rtt=rtt, rate=rate, samples=samples, budget_s=budget_s)

    def planned_s(made):
        return rounds * (made.samples * echo_s + made.rate_s + (rtt + rate) * step_s)

    try:
        made = plan(wanted, rounds, costs, budget_s)
        assert planned_s(made) <= budget_s
        assert made.samples >= (MIN_SAMPLES if rtt else 0)
    except SynclineError as error:
        assert error.diagnostics[0]["code"] == "SL1301"
        enough_s = float(re.search(r"--budget (\d+)s", error.diagnostics[0]["help"])[1])
        made = plan(wanted, rounds, costs, enough_s)
        assert planned_s(made) <= enough_s


@pytest.mark.parametrize(
    ("numbers", "key"),
    [
        ({"samples": MIN_SAMPLES - 1}, "--samples"),
        ({"samples": 1_000_001}, "--samples"),
        ({"budget_s": 1.0}, "--budget"),
        ({"budget_s": 7e5}, "--budget"),
    ],
)
def test_impossible_numbers_are_refused(numbers, key):
    with pytest.raises(SynclineError) as raised:
        Wanted(**numbers)
    assert raised.value.diagnostics[0]["key"] == key
