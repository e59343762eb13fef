"""What would make a job fit into the memory of its accelerators: changes, each with its own estimate.

A change leaves model, accelerators and batch as they are. Single changes come first; if none suffices, two together,
then three. Each is estimated by the core as a job of its own, so that what is said to fit does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from syncline.errors import SynclineError
from syncline.estimate.frameworks import unsupported
from syncline.estimate.job import estimator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from syncline.estimate.job import Job
    from syncline.estimate.machines import Machine
    from syncline.models.architecture import Decoder

MOST = 3
"""How many changes are tried together."""
_EACH = 2
"""How many changes of the same values are combined with others: those that save most."""


@dataclass(frozen=True)
class Change:
    """Changes of a job, with which it fits."""

    said: str
    """What to do, such as ``recompute the first 4 layers of each chunk``."""
    job: Job
    """The job after it."""
    memory_bytes: int
    """Bytes of the fullest rank."""
    host_bytes: int
    """Bytes in the host's memory of such a rank."""
    step_s: float
    """Seconds of a step."""


@dataclass(frozen=True)
class _Candidate:
    said: str
    values: Mapping[str, Any]
    """Values of the job."""


def changes_that_fit(
    architecture: Decoder, job: Job, machine: Machine, framework: str, constants: str, capacity: float, most: int = 5
) -> list[Change]:
    """The fastest changes, at most ``most``, with which a job fits into ``capacity`` bytes; none if no three do.

    :param framework: the software whose memory counts, and that must be able to do what changes.
    :param constants: its constants, as JSON.
    """
    candidates = list(_candidates(architecture, job, machine))  # of a kind, the smallest change comes first
    host = machine.host.memory_bytes or float("inf")

    def fits(change: Change) -> bool:
        return change.memory_bytes <= capacity and change.host_bytes <= host

    def estimated(chosen: Iterable[_Candidate]) -> Change | None:
        values: dict[str, Any] = {}
        said: list[str] = []
        for each in chosen:
            if values.keys() & each.values.keys():
                return None
            values.update(each.values)
            said.append(each.said)
        try:
            changed = job.changed(**_batched(job, values))
            if any(unsupported(framework, changed)):
                return None
            core = estimator(architecture, changed, machine)
        except (SynclineError, ValueError):
            return None
        memory = core.memory(framework)[0]
        made = Change(_sentence(said), changed, memory["total"], memory["host"], float("inf"))
        return replace(made, step_s=core.seconds(constants, framework)) if fits(made) else made

    singles = [(each, made) for each in candidates if (made := estimated([each])) is not None]
    found = _first_of_a_kind((each.values, made) for each, made in singles if fits(made))
    saving: list[_Candidate] = []
    for each, _ in sorted(singles, key=lambda pair: pair[1].memory_bytes):
        if sum(each.values.keys() == other.values.keys() for other in saving) < _EACH:
            saving.append(each)
    for count in range(2, MOST + 1):
        if found:
            break
        together = (
            ({name: 1 for each in chosen for name in each.values}, estimated(chosen))
            for chosen in combinations(saving, count)
        )
        fitting = [(keys, made) for keys, made in together if made is not None and fits(made)]
        found = _first_of_a_kind(sorted(fitting, key=lambda each: each[1].step_s))
    return sorted(found, key=lambda each: each.step_s)[:most]


def _first_of_a_kind(changes: Iterable[tuple[Mapping[str, Any], Change]]) -> list[Change]:
    """The first change of each set of values: the smallest one of single changes, which come in that order."""
    found: dict[frozenset[str], Change] = {}
    for values, each in changes:
        found.setdefault(frozenset(values), each)
    return list(found.values())


def _batched(job: Job, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the batch of a step as it was, and with all ranks in what divides states.

    :raises ValueError: ranks or batch do not divide.
    """
    axes = {name: values.get(name, getattr(job, name)) for name in ("tensor", "pipeline", "context")}
    data, left = divmod(job.ranks, axes["tensor"] * axes["pipeline"] * axes["context"])
    micro = values.get("micro_batch", job.micro_batch)
    if left or data == 0 or job.global_batch % (data * micro):
        raise ValueError("the ranks do not divide")
    if job.sequence % (
        axes["context"] * (axes["tensor"] if values.get("sequence_parallel", job.sequence_parallel) else 1)
    ):
        raise ValueError("the sequence does not divide")
    whole = job.shard_group >= job.data * job.context
    group = data * axes["context"] if whole else min(job.shard_group, data * axes["context"])
    return {**values, "data": data, "shard_group": group, "micro_batches": job.global_batch // (data * micro)}


def _candidates(architecture: Decoder, job: Job, machine: Machine) -> Iterator[_Candidate]:
    if not job.fused_attention:
        yield _Candidate("use fused attention", {"fused_attention": True})
    if job.tensor > 1 and not job.sequence_parallel:
        yield _Candidate("sequence parallelism", {"sequence_parallel": True})
    yield from _recomputation(architecture, job)
    yield from _offloading(architecture, job, machine)
    if job.micro_batch > 1:
        half = max(each for each in range(1, job.micro_batch // 2 + 1) if job.micro_batch % each == 0)
        yield _Candidate(f"micro-batches of {half}", {"micro_batch": half})
    if job.data * job.context > 1:
        for stage, what in ((1, "optimizer states"), (2, "gradients too"), (3, "parameters too")):
            if stage > job.zero and (stage < 2 or job.pipeline == 1):
                yield _Candidate(f"ZeRO-{stage} ({what})", {"zero": stage})
    if job.gradient_bytes == 4:
        yield _Candidate("gradients in 16 bits", {"gradient_bytes": 2})
    if job.moment_bytes > 2:
        yield _Candidate("moments in 16 bits", {"moment_bytes": 2})
    if job.moment_bytes > 1:
        yield _Candidate("moments in 8 bits", {"moment_bytes": 1})
    for times in (2, 4, 8, 16):
        tensor = job.tensor * times
        if tensor <= machine.domain:
            said = f"tensor parallelism {tensor} with sequence parallelism"
            yield _Candidate(said, {"tensor": tensor, "sequence_parallel": True})
        if job.schedule == "1f1b":
            values = {"pipeline": job.pipeline * times, "virtual_stages": 1}
            yield _Candidate(f"{job.pipeline * times} stages", values)
        yield _Candidate(f"context parallelism {job.context * times}", {"context": job.context * times})


def _chunk(architecture: Decoder, job: Job) -> int:
    """The most layers of a chunk."""
    return -(-(architecture.layers + architecture.prediction_layers) // (job.pipeline * job.virtual_stages))


def _offloading(architecture: Decoder, job: Job, machine: Machine) -> Iterator[_Candidate]:
    """More layers whose activations lie in the host's memory, and optimizer states there."""
    offload = job.offload.model_dump()
    if machine.host.to_host is None:
        return
    # The backward pass needs the last layer at once.
    most = _chunk(architecture, job) - (job.pipeline == 1)
    for count in range(offload["layers"] + 1, most + 1) if not offload["modules"] else ():
        what = "layer" if count == 1 else f"{count} layers"
        said = f"offload activations of the first {what} of each chunk to the host"
        yield _Candidate(said, {"offload": {**offload, "layers": count}})
    if job.adapters is None and offload["optimizer"] < 1 and machine.host.memory_bytes_per_s is not None:
        overlap = {**job.overlap.model_dump(), "optimizer": True}
        values = {"offload": {**offload, "optimizer": 1.0}, "overlap": overlap}
        yield _Candidate("offload optimizer states to the host", values)


def _recomputation(architecture: Decoder, job: Job) -> Iterator[_Candidate]:
    """Blocks of more layers than the job recomputes, and all layers."""
    if job.recompute == "full" and job.recompute_method != "block":
        return
    most = _chunk(architecture, job)
    less = job.recompute_layers if job.recompute == "full" else 0
    for count in range(less + 1, most):
        values = {"recompute": "full", "recompute_method": "block", "recompute_layers": count}
        what = "the first layer" if count == 1 else f"the first {count} layers"
        yield _Candidate(f"recompute {what} of each chunk", {**values, "recompute_modules": []})
    values = {"recompute": "full", "recompute_method": None, "recompute_layers": 1, "recompute_modules": []}
    yield _Candidate("recompute all layers", values)


def _sentence(said: Sequence[str]) -> str:
    return " and ".join(said) if len(said) < 3 else f"{', '.join(said[:-1])} and {said[-1]}"
