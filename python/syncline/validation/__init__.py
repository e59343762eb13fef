"""Compares predictions with measurements, of training steps and of collectives.

- :mod:`~syncline.validation.runs`: measured runs, the rows of ``validation/runs.csv``;
- :mod:`~syncline.validation.architecture`: their models; :mod:`~syncline.clusters.known` has their machines;
- :mod:`~syncline.validation.checks`: what is impossible about a row, and the nearest value that works;
- :mod:`~syncline.validation.folder`: reads all of these;
- :mod:`~syncline.validation.prediction`: what a predictor is, and calibration with a model left out;
- :mod:`~syncline.validation.estimates`: the predictor that estimates steps;
- :mod:`~syncline.validation.calibration`: which of its constants of software are fitted, and to which rows;
- :mod:`~syncline.validation.calibrated`: fits them, to all rows or with a model left out, by
  :mod:`~syncline.validation.least_squares`;
- :mod:`~syncline.validation.outcome`: rows with predictions, errors, and how often fits were predicted right;
- :mod:`~syncline.validation.groups`: groups of rows, and their bars;
- :mod:`~syncline.validation.cells`: whether the fastest configuration is found;
- :mod:`~syncline.validation.collectives`: measured collectives against the times that machines predict for them;
- :mod:`~syncline.validation.collectives_simulated`: against those that simulations take;
- :mod:`~syncline.validation.collectives_screen` and :mod:`~syncline.validation.collectives_drawing`: both on a
  terminal, and as scatter plots;
- :mod:`~syncline.validation.figures`: all figures, and outliers;
- :mod:`~syncline.validation.alike_rows`: errors of rows that are alike, which estimates show as error bars;
- :mod:`~syncline.validation.kept`: figures that a repository keeps, so that they do not get worse;
- :mod:`~syncline.validation.screen`, :mod:`~syncline.validation.page` and :mod:`~syncline.validation.drawing`: the
  figures on a terminal, as HTML, and as scatter plots.

Comparisons take the predictor as an argument, so that another one can be compared on the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.clusters.known import Cluster
    from syncline.models.architecture import Architecture
    from syncline.validation.alike_rows import Alike, alike
    from syncline.validation.figures import Validation, validated
    from syncline.validation.folder import Inputs, load
    from syncline.validation.kept import recorded, worse
    from syncline.validation.outcome import Outcome, compare
    from syncline.validation.prediction import Prediction, leave_one_model_out
    from syncline.validation.runs import Run

__all__ = [
    "Alike",
    "Architecture",
    "Cluster",
    "Inputs",
    "Outcome",
    "Prediction",
    "Run",
    "Validation",
    "alike",
    "compare",
    "leave_one_model_out",
    "load",
    "recorded",
    "validated",
    "worse",
]

__getattr__ = lazy(
    __name__,
    {
        "Alike": "syncline.validation.alike_rows.Alike",
        "Architecture": "syncline.models.architecture.Architecture",
        "Cluster": "syncline.clusters.known.Cluster",
        "Inputs": "syncline.validation.folder.Inputs",
        "Outcome": "syncline.validation.outcome.Outcome",
        "Prediction": "syncline.validation.prediction.Prediction",
        "Run": "syncline.validation.runs.Run",
        "Validation": "syncline.validation.figures.Validation",
        "alike": "syncline.validation.alike_rows.alike",
        "compare": "syncline.validation.outcome.compare",
        "leave_one_model_out": "syncline.validation.prediction.leave_one_model_out",
        "load": "syncline.validation.folder.load",
        "recorded": "syncline.validation.kept.recorded",
        "validated": "syncline.validation.figures.validated",
        "worse": "syncline.validation.kept.worse",
    },
)
