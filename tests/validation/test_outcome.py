"""Errors and their statistics, worked out by hand."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.input.problem import bad_value
from syncline.validation.outcome import Fits, Spread, compare, quantile
from syncline.validation.prediction import Prediction, leave_one_model_out
from tests.validation.rows import at_forty_percent, outcome, row, run


def test_an_error_is_predicted_over_measured():
    assert outcome(6.0, step_s=5.0).error == pytest.approx(0.2)
    assert outcome(4.0, step_s=5.0).error == pytest.approx(-0.2)
    assert outcome(4.0, 2**30, step_s=5.0, memory_gib=2.0).memory_error == pytest.approx(-0.5)


def test_there_is_no_error_without_both_sides():
    assert outcome(4.0, step_s=None, fits=False).error is None
    assert outcome(None).error is None
    assert outcome(4.0, 2**30).memory_error is None


def test_a_spread_takes_errors_without_their_sign():
    found = Spread.of([-0.4, 0.1, 0.2, -0.3, 0.0])
    assert (found.rows, found.median, found.largest) == (5, 0.2, 0.4)
    assert found.mean == pytest.approx(0.2)
    # Four tenths of the way from the fourth to the fifth of 0, 0.1, 0.2, 0.3, 0.4: at 0.9 x 4 = 3.6
    assert found.p90 == pytest.approx(0.36)
    assert Spread.of([]) is None


@pytest.mark.parametrize(("part", "value"), [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0), (0.9, 3.7)])
def test_a_quantile_lies_between_the_two_next_values(part, value):
    assert quantile([1.0, 2.0, 3.0, 4.0], part) == pytest.approx(value)


def test_fits_counts_all_four_cases():
    rows = [(True, "yes"), (True, "yes"), (False, "yes"), (True, "failed"), (False, "no"), (False, "failed")]
    found = Fits.of([outcome(1.0, fits=predicted, ran=ran) for predicted, ran in rows])
    assert (found.ran_and_fits, found.ran_but_does_not, found.failed_but_fits, found.failed_and_does_not) == (
        2,
        1,
        1,
        2,
    )
    assert (found.right, found.wrong, found.rows) == (4, 2, 6)
    assert found.accuracy == pytest.approx(4 / 6)


def test_a_run_whose_step_was_measured_ran():
    assert outcome(1.0, fits=False).ran is True
    assert outcome(1.0, fits=False, ran="failed").ran is False
    assert outcome(1.0, step_s=None).ran is None


def test_a_run_fits_if_its_memory_is_at_most_that_of_the_accelerator():
    assert outcome(1.0, 80 * 2**30).fits
    assert not outcome(1.0, 80 * 2**30 + 1).fits
    # The predictor may know better, for what drivers and libraries keep.
    assert not outcome(1.0, 79 * 2**30, fits=False).fits
    assert outcome(1.0).fits is None
    assert Fits.of([outcome(1.0)]) is None


def test_a_refused_row_keeps_the_reason(tmp_path):
    def refuse(run, model, cluster):
        raise bad_value("no kernels were measured", "nvfp4")

    (found,) = compare([row(tmp_path)], refuse)
    assert (found.prediction, found.refused) == (None, "no kernels were measured")


def test_other_exceptions_of_a_predictor_are_not_hidden(tmp_path):
    with pytest.raises(ZeroDivisionError):
        compare([row(tmp_path)], lambda run, model, cluster: 1 / 0)


def test_a_prediction_is_called_with_the_row(tmp_path):
    (found,) = compare([row(tmp_path)], at_forty_percent)
    # 6 x 7.505e9 weights x 65,536 tokens at 40 % of 16 x 989.4 TFLOP/s
    assert found.prediction.step_s == pytest.approx(0.466, rel=0.01)


def test_a_model_is_never_predicted_with_constants_fitted_to_it():
    runs = [
        run(id="a", model="llama3-8b", calibrates="h100"),
        run(id="b", model="llama3-70b", calibrates="h100"),
        run(id="c", model="llama3-70b", calibrates="h100"),
        run(id="d", model="llama2-7b"),
        run(id="e", model="gpt3-5b", calibrates="fsdp"),
    ]
    fitted = []

    def calibrate(constants, rows):
        names = [each.id for each in rows]
        fitted.append((constants, names))
        return lambda *_: Prediction(float(len(names)))

    predict = leave_one_model_out(runs, "h100", calibrate)
    assert [predict(each, None, None).step_s for each in runs[:4]] == [2.0, 1.0, 1.0, 3.0]
    # Each model is fitted once; a model that calibrates nothing is predicted with all rows.
    assert fitted == [("h100", ["b", "c"]), ("h100", ["a"]), ("h100", ["a", "b", "c"])]


def test_the_error_of_a_predictor_is_an_error_of_syncline():
    assert issubclass(type(bad_value("a", "b")), SynclineError)
