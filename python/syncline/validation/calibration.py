"""Finds constants of software by measured runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline.errors import SynclineError
from syncline.estimate import software as stacks
from syncline.estimate.software import ConstantSet, Software
from syncline.nccl.calibration import summary
from syncline.validation.estimates import estimator, predicted, predictor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from syncline import _core
    from syncline.clusters.known import Cluster
    from syncline.models.architecture import Architecture
    from syncline.nccl.machine import Errors
    from syncline.validation.checks import Row
    from syncline.validation.prediction import Predict, Prediction
    from syncline.validation.runs import Run

TOLERANCE = 0.05
"""Relative error from which on an error counts by its size and no more by its square (soft L1)."""
SPREAD = 0.15
"""How far constants that stay near their first values are from these, as a difference of logarithms."""
PACES = ("layer_cpu_s", "expert_cpu_s")
"""Constants that leave no trace where the accelerator is slower than the processor that launches its kernels."""
CPU_STARTS = (1e-3, 4e-3, 9e-3)
"""Values of these at which searches begin, in seconds."""
EXPERTS = "experts"
"""What the column ``calibrates`` has for rows to which constants of experts are fitted."""
BOUNDS: Mapping[str, tuple[float, float]] = {
    "products": (0.5, 1.2),
    "low_precision_products": (0.5, 1.2),
    "attention": (0.3, 1.6),
    "element_wise": (0.5, 6.0),
    "logit_bytes": (6.0, 120.0),
    "layer_cpu_s": (1e-5, 0.02),
    "staged_layer_s": (0.0, 0.01),
    "tensor_exposed": (0.0, 2.0),
    "dispatch": (0.2, 4.0),
    "expert_exposed": (0.0, 1.0),
    "expert_cpu_s": (0.0, 0.05),
    "each_expert_cpu_s": (0.0, 0.002),
    "partial_graphs": (0.1, 1.0),
    "expert_element_wise": (0.5, 10.0),
    "data_exposed": (0.0, 1.0),
    "pipeline_exposed": (0.0, 1.0),
}
"""What the constants can be."""


@dataclass(frozen=True)
class Calibration:
    """Which constants of a set are fitted, and to which rows."""

    rows: str
    """The name in the column ``calibrates``."""
    frameworks: tuple[str, ...]
    """The set is for these; rows of the first one count."""
    accelerators: tuple[str, ...]
    """How the names of accelerators begin for which the set is."""
    start: Software
    """Constants before the fit; those that are not fitted stay."""
    fitted: tuple[str, ...]
    near: tuple[str, ...] = ()
    """Of those that are fitted, constants that stay near ``start`` unless many rows ask for another value: rows tell
    them badly from the rates of products, so that a fit without some rows would be far off."""
    experts: tuple[str, ...] = ()
    """Constants that are fitted afterwards, to rows with ``experts`` in ``calibrates``; the others stay then."""
    like: str = ""
    """A set before this one whose constants this one has, but for those that ``start`` names: the same kernels."""


PLAIN = Software(fused_accumulation=False, logit_bytes=20.0, attention_library="flash-attention-2")
"""PyTorch without kernels that fuse the loss or the sum of gradients."""
CALIBRATIONS: Mapping[str, Calibration] = {
    "megatron-a100": Calibration(
        "a100",
        ("megatron-deepspeed", "megatron"),
        ("A100",),
        Software(products=0.95, layer_cpu_s=6e-3, launch_power=4.0),
        ("products", "layer_cpu_s"),
    ),
    "megatron": Calibration(
        "h100",
        ("megatron",),
        ("H100", "H200", "H800", "H20-", "B200", "GB200", "B300", "GB300"),
        # `layer_cpu_s` is that of Megatron on A100: NVIDIA's runs have longer layers, or graphs. Exchanges of ZeRO-3
        # hide, but take 20 of 132 multiprocessors, as dispatch does. `expert_exposed`, `partial_graphs` and
        # `each_expert_cpu_s` are set by hand: few rows depend on them.
        Software(
            products=0.9,
            low_precision_products=0.9,
            # MaxText's, on the same accelerators, from its own rows.
            element_wise=1.5,
            attention_library="cudnn",
            layer_cpu_s=4.8e-3,
            launch_power=4.0,
            sharded_exposed=0.15,
            expert_exposed=0.1,
            partial_graphs=0.8,
            fused_biases=False,
            # Twelve launches: products, and casts or activations beside them.
            each_expert_cpu_s=1e-4,
        ),
        (
            "products",
            "low_precision_products",
            "element_wise",
            "tensor_exposed",
            "data_exposed",
            "pipeline_exposed",
        ),
        ("element_wise", "tensor_exposed", "data_exposed", "pipeline_exposed"),
        ("expert_element_wise", "expert_cpu_s", "dispatch"),
    ),
    "maxtext": Calibration(
        "",
        ("maxtext",),
        ("H100", "H200", "H800", "H20-", "B200", "GB200", "B300", "GB300"),
        Software(attention_library="cudnn", element_wise=1.5),
        (),
    ),
    # Linear layers, norms and attention of Transformer Engine, as in Megatron; gradients are summed by PyTorch.
    "automodel": Calibration(
        "",
        ("automodel",),
        ("H100", "H200", "H800", "H20-", "B200", "GB200", "B300", "GB300"),
        Software(fused_accumulation=False),
        (),
        like="megatron",
    ),
    "nanotron": Calibration(
        "nanotron",
        ("nanotron",),
        ("H100",),
        Software(
            products=0.87,
            attention_library="flash-attention-2",
            fused_accumulation=False,
            element_wise=3.0,
            logit_bytes=30.0,
            layer_cpu_s=4e-3,
            staged_layer_s=2e-3,
        ),
        ("element_wise", "logit_bytes", "layer_cpu_s", "staged_layer_s", "tensor_exposed", "data_exposed"),
    ),
    "llm-foundry": Calibration(
        "fsdp",
        ("llm-foundry",),
        ("H100", "A100"),
        PLAIN,
        ("products", "element_wise", "layer_cpu_s", "data_exposed"),
    ),
    "internevo": Calibration("fsdp", ("internevo",), ("A100",), PLAIN, ("products", "element_wise", "data_exposed")),
    "torchtitan": Calibration(
        "fsdp",
        ("torchtitan", "fsdp2"),
        ("H100", "H200", "H800", "H20-", "B200", "GB200", "B300", "GB300"),
        PLAIN,
        ("products", "low_precision_products", "attention", "element_wise"),
    ),
}
"""All sets. The constants of a set hold for all its accelerators: those of newer ones are never fitted."""


def fit(
    start: Software,
    names: Sequence[str],
    jobs: Sequence[tuple[_core.Estimator, float]],
    near: Collection[str] = (),
) -> Software:
    """The constants with which estimates are nearest to measured steps: pairs of job and measured seconds.

    Only those of ``names`` differ from ``start``.

    It minimises the soft-L1 loss of the logarithms of predicted over measured times, within :data:`BOUNDS`. A constant
    in ``near`` counts as a row that measured its value in ``start``, with a spread of :data:`SPREAD`.

    :raises SynclineError: the package `scipy` is not installed.
    """
    optimize = _scipy()
    measured = [math.log(seconds) for _, seconds in jobs]

    def constants(values: Iterable[float]) -> Software:
        return start.model_copy(update=dict(zip(names, map(float, values), strict=True)))

    def residuals(values: Iterable[float]) -> list[float]:
        found = constants(values)
        text = found.model_dump_json()
        rows = [math.log(job.seconds(text)) - log for (job, _), log in zip(jobs, measured, strict=True)]
        return rows + [weight * math.log(max(getattr(found, name), 1e-6) / getattr(start, name)) for name in kept]

    kept, weight = [name for name in names if name in near], TOLERANCE / SPREAD
    lows, highs = zip(*(BOUNDS[name] for name in names), strict=True)

    def found(values: Any) -> Any:
        # Kernels' times have small steps, which wide differences pass over; narrow ones then find the minimum.
        for step in (0.02, 1e-4):
            answer = optimize.least_squares(
                residuals,
                values,
                bounds=(lows, highs),
                x_scale="jac",
                loss="soft_l1",
                f_scale=TOLERANCE,
                diff_step=step,
                max_nfev=60,
            )
            values = answer.x
        return answer

    def within(values: Iterable[float]) -> list[float]:
        return [min(max(value, low), high) for value, low, high in zip(values, lows, highs, strict=True)]

    # A processor that launches in time leaves no trace, so searches that begin below it cannot find it.
    launched = [name for name in PACES if name in names]
    paces = CPU_STARTS if launched else (0.0,)
    starts = (start.model_copy(update=dict.fromkeys(launched, pace)) for pace in paces)
    answers = [found(within(getattr(each, name) for name in names)) for each in starts]
    best = min(answers, key=lambda answer: float(answer.cost))
    return constants(round(float(f"{value:.4g}"), 6) for value in best.x)


def calibrated(rows: Sequence[Row], *, without: str | None = None, only: str | None = None) -> dict[str, ConstantSet]:
    """All sets, fitted to the rows that name them; ``without`` leaves out a model, ``only`` fits a single set.

    Rows that are refused are left out. Without these arguments, the errors of each set are found, too, which takes a
    fit for each model.

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
            calibrated=_source(calibration),
            rows=sum(job.model != without for job in jobs.dense),
            errors=errors[0],
            expert_rows=sum(job.model != without for job in jobs.experts),
            expert_errors=errors[1],
        )
    return sets if only is None else {only: sets[only]}


def _alike(calibration: Calibration, constants: Software) -> Software:
    """The constants of a set that is like another one, which has ``constants``."""
    return constants.model_copy(update=calibration.start.model_dump(exclude_unset=True))


def _source(calibration: Calibration) -> str:
    """What a set is fitted to."""
    if calibration.like:
        return f"nothing of its own: the constants of `{calibration.like}`"
    return f"rows of runs.csv with `{calibration.rows}` in `calibrates`" if calibration.fitted else "nothing"


@dataclass(frozen=True)
class _Job:
    model: str
    estimated: _core.Estimator
    measured_s: float

    def error(self, constants: str) -> float:
        """The relative error of its estimate with constants."""
        return self.estimated.seconds(constants) / self.measured_s - 1


@dataclass(frozen=True)
class _Jobs:
    """The rows of a set: those for its own constants, and those for its constants of experts."""

    calibration: Calibration
    dense: list[_Job]
    experts: list[_Job]
    found: dict[str | None, Software] = field(default_factory=dict)
    """Constants that were fitted to rows without experts, by the model that was left out."""

    @classmethod
    def of(cls, calibration: Calibration, rows: Sequence[Row]) -> _Jobs:
        """The rows to which a set may be fitted."""
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
        """The same, without those of experts."""
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
    return fit(start, names, [(job.estimated, job.measured_s) for job in jobs], near) if jobs and names else start


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
    """A predictor that fits each set in ``names`` again for each model of its rows, without the rows of that model.

    Rows that did not calibrate one of these sets are predicted with ``sets``, but for pretraining of a model with
    experts of which other rows did, also those of a set that theirs is like: these are left out, too. Constants for
    which no other model has rows are those before a fit or, if ``known``, those of ``sets``, which may have seen that
    model. ``made`` keeps constants for another predictor of the same rows: by set and model, and whether some are those
    of ``sets``.
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


def _scipy() -> Any:
    from syncline.kernels.fitting.packages import require

    require()
    from scipy import optimize

    return optimize
