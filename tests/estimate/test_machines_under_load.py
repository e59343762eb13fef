"""Constants of machines under sustained load are those that measured steps ask for."""

from __future__ import annotations

from math import exp, log
from statistics import fmean

import pytest

from syncline.estimate.software import shipped
from syncline.validation.estimates import estimator
from syncline.validation.folder import load

ROWS = {row.run.id: row for row in load().rows}
GB300 = [row for row in ROWS.values() if "gb300" in (row.run.calibrates or "").split()]


def over_measured(row) -> float:
    """The predicted step over the measured one."""
    constants = shipped()[row.run.framework].constants.model_dump_json()
    return estimator(row.run, row.model, row.cluster).seconds(constants) / row.run.step_s


def test_the_clock_of_gb300_is_what_its_dense_rows_in_8_bits_ask_for():
    assert len(GB300) == 3 and {row.run.model for row in GB300} == {"llama3-70b"}
    assert exp(fmean(log(over_measured(row)) for row in GB300)) == pytest.approx(1, abs=0.005)


def test_a_gb300_is_as_much_faster_than_a_gb200_as_was_measured():
    """Llama 3 70B in 8 bits on 64 accelerators with ZeRO-3: both rows have the same release, mesh and batch."""
    ultra, plain = ROWS["bridge-38"], ROWS["bridge-41"]
    same = ("model", "gpus", "precision", "micro_batch", "global_batch", "zero", "tp", "pp", "sequence")
    assert all(getattr(ultra.run, name) == getattr(plain.run, name) for name in same)
    measured = ultra.run.step_s / plain.run.step_s
    assert measured == pytest.approx(0.805, abs=0.001)
    predicted = measured * over_measured(ultra) / over_measured(plain)
    assert predicted == pytest.approx(measured, rel=0.05)
