"""Finds and reads the files of a validation: rows, models, clusters, explanations of outliers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, RootModel

from syncline.clusters.known import clusters as shipped
from syncline.clusters.known import read_clusters
from syncline.codes import Code
from syncline.input.check import Whole, check
from syncline.input.limits import MAX_MODEL_FILE_BYTES
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import Source, read_file
from syncline.input.yaml import read
from syncline.validation import checks
from syncline.validation.architecture import read_models
from syncline.validation.runs import read_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.clusters.known import Cluster
    from syncline.validation.checks import Row
    from syncline.validation.runs import Runs

FOLDER = "validation"
"""The folder of a checkout of the repository that holds the files."""
RUNS, MODELS, CLUSTERS, OUTLIERS = "runs.csv", "models.yaml", "clusters.yaml", "outliers.yaml"


class Explanations(RootModel[dict[str, Annotated[str, Field(min_length=1, max_length=1000)]]]):
    """Explanations of outliers by the ids of their rows."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that a validation reads."""

    runs: Runs
    rows: list[Row]
    explanations: Mapping[str, str]


def load(file: str | None = None, models: str | None = None, clusters: str | None = None) -> Inputs:
    """Reads and checks the files.

    By default the rows are those of the folder ``validation``. Models are in the folder of the rows, or else in
    ``validation``. Clusters are in the folder of the rows, or else those of the package. The explanations, if there are
    any, are in the folder of the rows.

    :raises SynclineError: a file cannot be read or is malformed, or a row is impossible.
    """
    path = file or f"{FOLDER}/{RUNS}"
    if file is None and not Path(path).is_file():
        place = Mark(Text(path, ()), 0, 0, 0)
        remedy = "name a file of runs, or run this in a checkout of syncline"
        raise_errors(error(Code.UNREADABLE, "no such file", mark=place, help=remedy))
    runs = read_runs(path)
    folder = Path(path).parent
    rows = checks.check(runs, read_models(models or _near(folder, MODELS)), _clusters(folder, clusters))
    outliers = folder / OUTLIERS
    return Inputs(runs, rows, read_explanations(outliers.as_posix()) if outliers.is_file() else {})


def read_explanations(path: str) -> Mapping[str, str]:
    """Reads a file that explains outliers.

    :raises SynclineError: the file cannot be read or is malformed.
    """
    content = read_file(path, MAX_MODEL_FILE_BYTES)
    return check(Source(read(content, path), path), Explanations, Whole("the file")).root


def _clusters(folder: Path, given: str | None) -> Mapping[str, Cluster]:
    """The clusters of a file that is given or is beside the rows, and those of the package, which they may replace."""
    beside = folder / CLUSTERS
    file = given or (beside.as_posix() if beside.is_file() else None)
    return shipped() if file is None else {**shipped(), **read_clusters(file)}


def _near(folder: Path, name: str) -> str:
    """The file of this name beside the rows, or else in the repository's folder."""
    beside = folder / name
    return beside.as_posix() if beside.is_file() else f"{FOLDER}/{name}"
