"""Constants of software, fitted to all measured runs or to those of other models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from syncline.errors import SynclineError
from syncline.estimate import software as stacks
from syncline.estimate.software import ConstantSet
from syncline.nccl.calibration import summary
from syncline.validation.calibration import CALIBRATIONS, EXPERTS
from syncline.validation.estimates import estimator, predicted, predictor
from syncline.validation.least_squares import fit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from syncline import _core
    from syncline.clusters.known import Cluster
    from syncline.estimate.software import Software
    from syncline.models.architecture import Architecture
    from syncline.nccl.machine import Errors
    from syncline.validation.calibration import Calibration
    from syncline.validation.checks import Row
    from syncline.validation.prediction import Predict, Prediction
    from syncline.validation.runs import Run


def calibrated(rows: Sequence[Row], *, without: str | None = None, only: str | None = None) -> dict[str, ConstantSet]:
    """Sets of constants, each fitted to the rows that name it, by the names of the sets.

    Rows that cannot be estimated are left out. A fit of all sets to all rows also finds the errors of each set, with a
    model left out at a time.

    :param without: a model whose rows are left out.
    :param only: the only set to fit.
    :raises SynclineError: the package `scipy` is not installed.
    """
    sets: dict[str, ConstantSet] = {}
    wanted = CALIBRATIONS if only is None else (CALIBRATIONS[only].like, only)
    for name, calibration in CALIBRATIONS.items():
        if name not in wanted:
            continue
        jobs = _Jobs.of(calibration, rows)
        errors = jobs.errors() if without is None and only is None else (None, None)
        constants = jobs.constants(without)
        if calibration.like:
            constants = _alike(calibration, sets[calibration.like].constants)
        sets[name] = ConstantSet(
            frameworks=list(calibration.frameworks),
            accelerators=list(calibration.accelerators),
            constants=constants,
            calibrated=_source(calibration) if calibration.like or jobs.dense or jobs.experts else "nothing",
            rows=sum(job.model != without for job in jobs.dense),
            errors=errors[0],
            expert_rows=sum(job.model != without for job in jobs.experts),
            expert_errors=errors[1],
        )
    return sets if only is None else {only: sets[only]}


def _alike(calibration: Calibration, constants: Software) -> Software:
    """The constants of a set that takes those of another one, ``constants``."""
    return constants.model_copy(update=calibration.start.model_dump(exclude_unset=True))


def _source(calibration: Calibration) -> str:
    """What a set is fitted to."""
    if calibration.like:
        return f"nothing of its own: the constants of `{calibration.like}`"
    return f"rows of runs.csv with `{calibration.rows}` in `calibrates`" if calibration.fitted else "nothing"


@dataclass(frozen=True)
class _Job:
    """A measured run with its estimator."""

    model: str
    estimator: _core.Estimator
    measured_s: float

    def error(self, constants: str) -> float:
        """The relative error of its estimate with constants."""
        return self.estimator.seconds(constants) / self.measured_s - 1


@dataclass(frozen=True)
class _Jobs:
    """The rows of a set: those for its constants of dense models, and those for its constants of experts."""

    calibration: Calibration
    dense: list[_Job]
    experts: list[_Job]
    found: dict[str | None, Software] = field(default_factory=dict)
    """Constants fitted to ``dense``, by the model that was left out."""

    @classmethod
    def of(cls, calibration: Calibration, rows: Sequence[Row]) -> _Jobs:
        """The rows that calibrate a set and can be estimated."""
        experts = _jobs(calibration, EXPERTS, rows) if calibration.experts else []
        return cls(calibration, _jobs(calibration, calibration.rows, rows), experts)

    def constants(self, without: str | None = None, known: Software | None = None) -> Software:
        """The constants that fit the rows of other models best: those of experts are fitted last.

        Constants for which there are no such rows are those of ``known``, if it is given.
        """
        experts = [job for job in self.experts if job.model != without]
        dense = self.dense_constants(without)
        if known is not None and all(job.model == without for job in self.dense):
            dense = known
        elif known is not None and not experts:
            dense = dense.model_copy(update={name: getattr(known, name) for name in self.calibration.experts})
        return _fitted(dense, self.calibration.experts, experts)

    def lacks(self, without: str) -> bool:
        """Whether some constants have no rows of other models."""
        kinds = [self.dense, self.experts] if self.calibration.experts else [self.dense]
        return any(all(job.model == without for job in jobs) for jobs in kinds)

    def dense_constants(self, without: str | None = None) -> Software:
        """The constants that fit ``dense`` best; those of experts keep their values before the fit."""
        dense = [job for job in self.dense if job.model != without]
        left_out = without if len(dense) < len(self.dense) else None
        if left_out not in self.found:
            self.found[left_out] = _fitted(
                self.calibration.start, self.calibration.fitted, dense, self.calibration.near
            )
        return self.found[left_out]

    def errors(self) -> tuple[Errors | None, Errors | None]:
        """The errors of each model's rows with constants that were fitted to the rows of the others."""
        dense = _left_out(self.calibration.start, self.calibration.fitted, self.dense, self.calibration.near)
        return dense, _left_out(self.dense_constants(), self.calibration.experts, self.experts)


def _fitted(start: Software, names: Sequence[str], jobs: Sequence[_Job], near: Collection[str] = ()) -> Software:
    return fit(start, names, [(job.estimator, job.measured_s) for job in jobs], near) if jobs and names else start


def _left_out(start: Software, names: Sequence[str], jobs: Sequence[_Job], near: Collection[str] = ()) -> Errors | None:
    models = sorted({job.model for job in jobs})
    if len(models) < 2:
        return None
    found = []
    for model in models:
        constants = _fitted(start, names, [job for job in jobs if job.model != model], near).model_dump_json()
        found += [job.error(constants) for job in jobs if job.model == model]
    return summary(found)


def _counts(calibration: Calibration, run: Run) -> bool:
    """Whether a run may calibrate a set."""
    kinds = (run.calibrates or "").split()
    named = calibration.rows in kinds or (bool(calibration.experts) and EXPERTS in kinds)
    return named and run.framework == calibration.frameworks[0]


def _jobs(calibration: Calibration, kind: str, rows: Iterable[Row]) -> list[_Job]:
    found = []
    for row in rows:
        run = row.run
        if kind not in (run.calibrates or "").split() or not _counts(calibration, run):
            continue
        if run.step_s is None or not row.cluster.accelerator.startswith(calibration.accelerators):
            continue
        try:
            found.append(_Job(run.model, estimator(run, row.model, row.cluster), run.step_s))
        except SynclineError:
            continue
    return found


def held_out(
    rows: Sequence[Row],
    sets: Mapping[str, ConstantSet],
    names: Collection[str],
    made: dict[tuple[str, str, bool], Software] | None = None,
    *,
    known: bool = False,
) -> Predict:
    """A predictor of rows by constants that are fitted without the rows of their model.

    It fits those sets again that ``names`` lists, for rows that calibrated them, and for pretraining of a model whose
    other rows calibrated constants of experts, also with a set that is ``like`` them. It predicts all other rows with
    ``sets``.

    :param made: fitted constants, for another predictor of the same rows: by set, model, and whether some are those of
        ``sets``.
    :param known: constants for which no other model has rows are those of ``sets``, which may have seen the model;
        otherwise they keep their values before the fit.
    """
    plain = predictor(sets)
    jobs = {name: _Jobs.of(CALIBRATIONS[name], rows) for name in names}
    siblings = {name: {job.model for job in found.experts} for name, found in jobs.items()}
    made = {} if made is None else made

    def predict(run: Run, model: Architecture, cluster: Cluster) -> Prediction:
        chosen = stacks.choose(sets, run.framework or "megatron", cluster.accelerator)
        if chosen is None:
            return plain(run, model, cluster)
        own, name = CALIBRATIONS[chosen], CALIBRATIONS[chosen].like or chosen
        if name not in names:
            return plain(run, model, cluster)
        sibling = run.task == "pretrain" and run.framework == own.frameworks[0] and run.model in siblings[name]
        if not sibling and not _counts(CALIBRATIONS[name], run):
            return plain(run, model, cluster)
        lacking = known and jobs[name].lacks(run.model)
        key = name, run.model, lacking
        if key not in made:
            made[key] = jobs[name].constants(run.model, sets[name].constants if lacking else None)
        constants = _alike(own, made[key]) if own.like else made[key]
        return predicted(run, cluster, estimator(run, model, cluster), constants)

    return predict
