"""Whether the fastest configuration of a model on a number of servers is found."""

from __future__ import annotations

from syncline.validation.cells import cells
from tests.validation.rows import outcome

CELL = {"dataset": "nanotron", "cluster": "h100-hugging-face"}


def cell(*pairs, **changes):
    """The cell of rows with these predicted and measured steps."""
    rows = [
        outcome(predicted, **CELL, id=f"{at}", step_s=measured, **changes)
        for at, (predicted, measured) in enumerate(pairs)
    ]
    (found,) = cells(rows)
    return found


def test_the_configuration_with_the_smallest_prediction_is_chosen():
    found = cell((3.0, 1.0), (2.0, 1.04), (4.0, 9.0))
    assert (found.chosen.run.id, found.fastest.run.id, found.rank) == ("1", "0", 2)
    assert round(found.loss, 3) == 0.04
    assert found.near
    assert found.among_first


def test_a_cell_is_missed_beyond_five_percent_and_three_configurations():
    found = cell((5.0, 1.0), (2.0, 1.06), (3.0, 9.0), (4.0, 9.0))
    assert not found.near
    assert not found.among_first


def test_equal_predictions_count_against_the_predictor():
    # Sources list fast configurations first: the order of rows must not give the answer away.
    found = cell((2.0, 1.0), (2.0, 1.5), (2.0, 2.0), (2.0, 3.0))
    assert (found.chosen.run.id, found.rank) == ("3", 4)


def test_a_refused_configuration_is_predicted_to_be_the_slowest():
    assert cell((None, 1.0), (2.0, 3.0), (3.0, 4.0), (9.0, 5.0)).rank == 4


def test_configurations_are_compared_by_time_for_a_token():
    rows = [
        outcome(4.0, **CELL, id="a", step_s=4.0, global_batch=16),
        outcome(3.0, **CELL, id="b", step_s=3.0, global_batch=8),
    ]
    (found,) = cells(rows)
    assert (found.fastest.run.id, found.chosen.run.id) == ("a", "a")


def test_a_cell_is_a_model_on_a_number_of_servers():
    rows = [
        outcome(1.0, **CELL),
        outcome(1.0, **CELL, gpus=32),
        outcome(1.0, **CELL, model="llama3-70b"),
        outcome(1.0, **CELL, step_s=None),
        outcome(1.0, dataset="vtrain"),
    ]
    assert [(each.model, each.servers, each.rows) for each in cells(rows)] == [
        ("llama3-70b", 2, 1),
        ("llama3-8b", 2, 1),
        ("llama3-8b", 4, 1),
    ]
