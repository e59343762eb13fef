"""Finds and reads the files of a validation: rows, models, clusters, what is known of outliers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from syncline.clusters.known import clusters as shipped
from syncline.clusters.known import read_clusters
from syncline.codes import Code
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.limits import MAX_MODEL_FILE_BYTES
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import Source, read_file
from syncline.input.yaml import read
from syncline.models.architectures import architectures
from syncline.validation import checks
from syncline.validation.architecture import read_models
from syncline.validation.runs import read_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.clusters.known import Cluster
    from syncline.models.architecture import Architecture
    from syncline.validation.architecture import Unknown
    from syncline.validation.checks import Row
    from syncline.validation.runs import Runs

FOLDER = "validation"
"""The folder of a checkout of the repository that holds the files."""
RUNS, MODELS, CLUSTERS, OUTLIERS = "runs.csv", "models.yaml", "clusters.yaml", "outliers.yaml"


Ids = Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(min_length=1)]
Words = Annotated[str, Field(min_length=1, max_length=1000)]


class Explained(Strict):
    """Outliers with one reason."""

    rows: Ids
    """Ids of the rows."""
    why: Words
    """The reason."""


class Unexplained(Strict):
    """Outliers whose reason is not known."""

    rows: Ids
    """Ids of the rows."""
    seen: Words
    """What was found when they were looked into."""


class Outliers(Strict):
    """What is known of outliers. Rows that are no outliers any more may stay."""

    explained: list[Explained] = Field(default_factory=list)
    unexplained: list[Unexplained] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Remarks:
    """What is known of outliers, by the ids of their rows."""

    explained: Mapping[str, str]
    """Reasons."""
    seen: Mapping[str, str]
    """What was found of rows without a known reason."""

    @classmethod
    def none(cls) -> Remarks:
        """Nothing is known of any row."""
        return cls({}, {})


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that a validation reads."""

    runs: Runs
    rows: list[Row]
    remarks: Remarks


def load(file: str | None = None, models: str | None = None, clusters: str | None = None) -> Inputs:
    """Reads and checks the files.

    By default the rows are those of the folder ``validation``. Models and clusters are those of the package, and those
    of files in the folder of the rows, which replace them. What is known of outliers, if anything, is in the folder of
    the rows.

    :raises SynclineError: a file cannot be read or is malformed, or a row is impossible.
    """
    path = file or f"{FOLDER}/{RUNS}"
    if file is None and not Path(path).is_file():
        place = Mark(Text(path, ()), 0, 0, 0)
        remedy = "name a file of runs, or run this in a checkout of syncline"
        raise_errors(error(Code.UNREADABLE, "no such file", mark=place, help=remedy))
    runs = read_runs(path)
    folder = Path(path).parent
    rows = checks.check(runs, _models(folder, models), _clusters(folder, clusters))
    outliers = folder / OUTLIERS
    return Inputs(runs, rows, read_outliers(outliers.as_posix()) if outliers.is_file() else Remarks.none())


def read_outliers(path: str) -> Remarks:
    """Reads a file that says what is known of outliers.

    :raises SynclineError: the file cannot be read or is malformed, or names a row twice.
    """
    source = Source(read(read_file(path, MAX_MODEL_FILE_BYTES), path), path)
    found = check(source, Outliers, Whole("the file"))
    explained = {row: each.why for each in found.explained for row in each.rows}
    seen = {row: each.seen for each in found.unexplained for row in each.rows}
    names = [row for reason in found.explained for row in reason.rows]
    names += [row for remark in found.unexplained for row in remark.rows]
    if twice := sorted({row for row in names if names.count(row) > 1}):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "a row has two remarks",
                mark=Mark(Text(path, ()), 0, 0, 0),
                found=", ".join(twice),
                help="name each row once, under `explained` or `unexplained`",
            )
        )
    return Remarks(explained, seen)


def _clusters(folder: Path, given: str | None) -> Mapping[str, Cluster]:
    """The clusters of a file that is given or is beside the rows, and those of the package, which they may replace."""
    beside = folder / CLUSTERS
    file = given or (beside.as_posix() if beside.is_file() else None)
    return shipped() if file is None else {**shipped(), **read_clusters(file)}


def _models(folder: Path, given: str | None) -> Mapping[str, Architecture | Unknown]:
    """The models of a file that is given or is beside the rows, and those of the package, which they may replace."""
    beside = folder / MODELS
    file = given or (beside.as_posix() if beside.is_file() else None)
    return architectures() if file is None else {**architectures(), **read_models(file)}
