"""Checks rows against their models and clusters: impossible meshes, batches and measurements.

Each problem names what was found, what is allowed, and the nearest value that works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from syncline.codes import Code
from syncline.estimate.job import Module
from syncline.input.check import in_order
from syncline.input.problem import divisors, error, nearest, raise_errors
from syncline.quantity import digits
from syncline.validation.architecture import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from syncline.clusters.known import Cluster
    from syncline.errors import Diagnostic
    from syncline.models.architecture import Architecture
    from syncline.validation.runs import Placed, Run, Runs


MODULES: tuple[str, ...] = get_args(Module)
"""Parts of a layer that a run can compute again."""
SETS = ("a100", "experts", "fsdp", "gb300", "h100", "nanotron")
"""What the column ``calibrates`` can have: rows that constants of software, or the clock of GB300, may be fitted to."""
POLICIES = ("operators", "all but qkv")
"""What frameworks compute again by rules of their own: torchtitan and MaxText."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row whose model and cluster are known."""

    placed: Placed
    model: Architecture
    cluster: Cluster

    @property
    def run(self) -> Run:
        """The run."""
        return self.placed.run

    def problem(
        self,
        column: str,
        message: str,
        *,
        allowed: str | None = None,
        near: object = None,
        help: str | None = None,
    ) -> Diagnostic:
        """An error about a cell. ``near`` is the nearest value that works."""
        value = getattr(self.run, column)
        return error(
            Code.BAD_VALUE,
            f"{message} (row `{self.run.id}`)",
            mark=self.placed.mark(column),
            key=column,
            found="nothing" if value is None else str(value),
            allowed=allowed,
            nearest=None if near is None else str(near),
            help=help,
        )


def check(runs: Runs, models: Mapping[str, Architecture | Unknown], clusters: Mapping[str, Cluster]) -> list[Row]:
    """The rows with their models and clusters.

    :raises SynclineError: some rows name unknown ones, or are impossible; all problems are in it.
    """
    problems: list[Diagnostic] = []
    rows: list[Row] = []
    for placed in runs.used:
        run = placed.run
        model, cluster = models.get(run.model), clusters.get(run.cluster)
        for column, name, known in (("model", run.model, models), ("cluster", run.cluster, clusters)):
            if name not in known:
                near = nearest(name, known, likeness=0.6)
                problems.append(
                    error(
                        Code.BAD_VALUE,
                        f"unknown {column} `{name}` (row `{run.id}`)",
                        mark=placed.mark(column),
                        key=column,
                        found=name,
                        allowed=f"a name of the package, or of {column}s.yaml beside the rows",
                        nearest=near,
                        help=None if near else f"describe it in a file {column}s.yaml beside the rows",
                    )
                )
        if isinstance(model, Unknown):
            missing = f"`{run.model}` cannot be predicted: {'; '.join(model.unknown)} (row `{run.id}`)"
            remedy = "write the reason into `excluded`"
            problems.append(error(Code.BAD_VALUE, missing, mark=placed.mark("model"), key="model", help=remedy))
        elif model is not None and cluster is not None:
            row = Row(placed, model, cluster)
            problems += problems_of(row)
            rows.append(row)
    if problems:
        raise_errors(*in_order(problems))
    return rows


def problems_of(row: Row) -> list[Diagnostic]:
    """What is impossible about a row."""
    found: list[Diagnostic] = []
    for each in _CHECKS:
        found += each(row)
    return found


def _sets(row: Row) -> Iterator[Diagnostic]:
    for name in (row.run.calibrates or "").split():
        if name not in SETS:
            message = f"no constants are fitted to rows with `{name}`"
            yield row.problem("calibrates", message, allowed=", ".join(SETS), near=nearest(name, SETS))


def _mesh(row: Row) -> Iterator[Diagnostic]:
    run = row.run
    parts = run.tp * run.pp * run.cp
    if run.gpus % parts:
        yield row.problem(
            "gpus",
            f"the number of GPUs is not divisible by tp x pp x cp = {parts}",
            allowed=f"a multiple of {parts}",
            near=_multiple(run.gpus, parts),
        )
    elif run.dp is not None and run.dp != run.replicas:
        yield row.problem("dp", "dp is not gpus / (tp x pp x cp)", allowed=str(run.replicas), near=run.replicas)
    spread = run.ep * run.etp * run.pp
    if run.ep > 1 and run.gpus % spread:
        wide = _near(row, "ep", (each for each in divisors(run.gpus) if run.gpus % (each * run.etp * run.pp) == 0))
        yield row.problem(
            "ep",
            f"the number of GPUs is not divisible by ep x etp x pp = {spread}",
            allowed=f"a value with which ep x etp x pp divides {run.gpus}",
            near=wide,
        )
    if run.shard_group is not None and (run.gpus // (run.tp * run.pp)) % run.shard_group:
        ranks = run.gpus // (run.tp * run.pp)
        near = _near(row, "shard_group", divisors(ranks))
        yield row.problem("shard_group", "ranks do not divide into groups", allowed=f"a divisor of {ranks}", near=near)


def _model(row: Row) -> Iterator[Diagnostic]:
    run, model = row.run, row.model
    layers = run.layers or model.layers
    if model.heads % run.tp:
        near = _near(row, "tp", divisors(model.heads))
        yield row.problem(
            "tp", f"the {model.heads} heads are not divisible by tp", allowed=f"a divisor of {model.heads}", near=near
        )
    if run.pp > layers:
        near = _near(row, "pp", range(1, layers + 1))
        yield row.problem("pp", f"more stages than the {layers} layers", allowed=f"at most {layers}", near=near)
    elif run.pp * run.virtual_stages > layers + 2:
        most = (layers + 2) // run.pp
        yield row.problem(
            "virtual_stages",
            f"more chunks than the {layers} layers",
            allowed=f"at most {most} with pp {run.pp}",
            near=most,
        )
    elif run.split == "even" and layers % (run.pp * run.virtual_stages):
        stages = layers % run.pp != 0
        column, whole = ("pp", layers) if stages else ("virtual_stages", layers // run.pp)
        yield row.problem(
            column,
            f"the {layers} layers are not divisible by pp x virtual_stages",
            allowed=f"a divisor of {whole}" + ("" if stages else f" with pp {run.pp}"),
            near=_near(row, column, divisors(whole)),
        )
    if run.virtual_stages > 1 and run.pp == 1:
        yield row.problem("virtual_stages", "virtual stages without a pipeline", allowed="1 with pp 1", near=1)
    if run.ep > 1 and model.experts is None:
        yield row.problem("ep", f"`{run.model}` has no experts", allowed="1", near=1)
    elif run.ep > 1 and model.experts is not None and model.experts.count % run.ep:
        near = _near(row, "ep", divisors(model.experts.count))
        yield row.problem(
            "ep",
            f"the {model.experts.count} experts are not divisible by ep",
            allowed=f"a divisor of {model.experts.count}",
            near=near,
        )


def _batch(row: Row) -> Iterator[Diagnostic]:
    run = row.run
    if run.gpus % (run.tp * run.pp * run.cp):
        return
    unit = run.replicas * run.micro_batch
    if run.global_batch % unit:
        yield row.problem(
            "global_batch",
            f"the batch is not divisible by dp x micro_batch = {run.replicas} x {run.micro_batch}",
            allowed=f"a multiple of {unit}",
            near=_multiple(run.global_batch, unit),
        )
    elif run.accumulation is not None and run.accumulation != run.micro_batches:
        yield row.problem(
            "accumulation",
            "accumulation is not global_batch / (dp x micro_batch)",
            allowed=str(run.micro_batches),
            near=run.micro_batches,
        )
    parts = run.cp * (run.tp if run.sequence_parallel else 1)
    if run.sequence % parts:
        yield row.problem(
            "sequence",
            f"the sequence is not divisible by cp{' x tp' if run.sequence_parallel else ''} = {parts}",
            allowed=f"a multiple of {parts}",
            near=_multiple(run.sequence, parts),
        )


def _precision(row: Row) -> Iterator[Diagnostic]:
    card = row.cluster.card
    if card is None:
        return
    able = card.precisions
    if row.run.precision not in able:
        near = next((name for name in ("fp8", "bf16", "fp16") if name in able), None)
        message = f"{card.name} does not compute in {row.run.precision}"
        yield row.problem("precision", message, allowed=", ".join(able), near=near)


def _recomputed(row: Row) -> Iterator[Diagnostic]:
    """The parts of a layer that are computed again: modules, or one policy of another framework."""
    found = row.run.recompute_modules
    if found is None or found in POLICIES:
        return
    unknown = next((name for name in found.split() if name not in MODULES), None)
    if unknown is not None:
        allowed = ", ".join((*MODULES, *POLICIES))
        near = nearest(unknown, MODULES, likeness=0.6)
        yield row.problem("recompute_modules", f"unknown module `{unknown}`", allowed=allowed, near=near)


def _measured(row: Row) -> Iterator[Diagnostic]:
    run = row.run
    if run.mfu is not None and run.mfu >= 100:
        yield row.problem("mfu", "as fast as the peak of the accelerators or faster", allowed="below 100")
    least = least_step_s(row)
    if run.step_s is not None and least is not None and run.step_s <= least:
        yield row.problem(
            "step_s",
            "the step is faster than the peak of the accelerators allows",
            allowed=f"above {digits(least)} s",
            help="check gpus, global_batch, sequence and precision",
        )
    room = row.cluster.memory_bytes
    if run.memory_bytes is not None and room is not None and run.memory_bytes > room:
        most = digits(room / 2**30)
        yield row.problem("memory_gib", "more memory than the accelerator has", allowed=f"at most {most}", near=most)


_CHECKS: tuple[Callable[[Row], Iterable[Diagnostic]], ...] = (
    _sets,
    _mesh,
    _model,
    _batch,
    _precision,
    _recomputed,
    _measured,
)


def least_step_s(row: Row) -> float | None:
    """The time that matrix products with weights take at peak; None if the accelerator is unknown.

    Six FLOP a weight and token; four with LoRA, which computes no gradients of weights. Attention is left out.
    """
    run, card = row.run, row.cluster.card
    if card is None:
        return None
    kind = "fp8" if run.precision in ("mxfp8", "nvfp4") and run.precision not in card.peak_flop_per_s else run.precision
    peak = card.peak_flop_per_s.get(kind)
    if peak is None:
        return None
    # Accelerators that take NVFP4 compute twice as fast in it as in FP8, or faster.
    peak *= 3 if run.precision == "nvfp4" and kind == "fp8" else 1
    flop = (4 if run.task == "lora" else 6) * row.model.multiplied(run.layers) * run.global_batch * run.sequence
    return flop / (peak * run.gpus)


def _multiple(value: int, unit: int) -> int:
    """The multiple of ``unit`` nearest to ``value``, and at least ``unit``."""
    return max(1, round(value / unit)) * unit


def _near(row: Row, column: str, values: Iterable[int]) -> int | None:
    """The nearest of ``values``, the smaller one of two; if there are any, one with which the whole row works."""
    found = getattr(row.run, column)
    order = sorted(values, key=lambda each: (abs(each - found), each))
    changed = ((each, row.run.model_copy(update={column: each})) for each in order)
    return next((each for each, run in changed if _works(run, row.model)), order[0] if order else None)


def _works(run: Run, model: Architecture) -> bool:
    """Whether mesh, layers, experts and batch divide."""
    parts, ranks = run.tp * run.pp * run.cp, run.gpus // (run.tp * run.pp)
    layers = run.layers or model.layers
    return (
        run.gpus % parts == 0
        and run.gpus % (run.ep * run.etp * run.pp) == 0
        and ranks % (run.shard_group or 1) == 0
        and model.heads % run.tp == 0
        and run.pp <= layers
        and (run.split != "even" or layers % (run.pp * run.virtual_stages) == 0)
        and (1 if model.experts is None else model.experts.count) % run.ep == 0
        and run.global_batch % (run.replicas * run.micro_batch) == 0
    )
