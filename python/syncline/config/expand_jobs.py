"""Resolves several jobs: each like a scenario with one job, placed under the job's own key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from syncline.config import expand_compute, expand_workload
from syncline.config.jobs import numbers
from syncline.config.origin import Origins
from syncline.errors import SynclineError
from syncline.input.node import Node, Path
from syncline.input.source import Source

if TYPE_CHECKING:
    from syncline.config.expand_workload import Built
    from syncline.config.jobs import Job
    from syncline.config.scenario import Scenario
    from syncline.errors import Diagnostic


def views(source: Source) -> list[Source]:
    """For each job, a scenario with only this job; its values keep their places in the file."""
    jobs = source.root.at(("jobs",))
    rest = cast("dict[str, Node]", source.root.value)
    found = []
    for job in jobs.value if jobs and isinstance(jobs.value, list) else []:
        own = job.value if isinstance(job.value, dict) else {}
        merged = {**{key: node for key, node in rest.items() if key != "jobs"}, **own}
        keys = {**source.root.keys, **job.keys}
        found.append(Source(Node(merged, job.mark, keys), source.file))
    return found


def models(source: Source) -> tuple[list[Built | None], list[Diagnostic]]:
    """The layers of the models that jobs name, and the errors in the parameters of these models."""
    built, problems = [], []
    for index, view in enumerate(views(source)):
        layers, found = expand_workload.model(view)
        built.append(layers)
        problems += [_within(each, index, own_compute=False) for each in found]
    return built, problems


def expand(scenario: Scenario, origins: Origins, built: list[Built | None], shared: dict[str, Any]) -> dict[str, Any]:
    """The resolved workload that holds all jobs.

    ``built`` is the result of :func:`models`, ``shared`` the resolved ``collectives`` of the scenario.
    """
    every = enumerate(zip(scenario.jobs, views(origins.source), built, strict=True))
    return {"source": "jobs", "jobs": [_job(scenario, origins, *each, index, shared) for index, each in every]}


def _job(
    scenario: Scenario,
    origins: Origins,
    job: Job,
    view: Source,
    layers: Built | None,
    index: int,
    shared: dict[str, Any],
) -> dict[str, Any]:
    own = Origins(view)
    compute = scenario.compute if job.compute is None else job.compute
    try:
        workload = expand_workload.expand(job.workload, own, layers)
        timed = expand_compute.expand(compute, workload, own)
        memory = expand_compute.memory(compute, own)
    except SynclineError as problem:
        placed = [_within(each, index, own_compute=job.compute is not None) for each in problem.diagnostics]
        raise SynclineError(placed, problem.exit_status) from None
    at: Path = ("workload", "jobs", index)
    origins.move(at, ("jobs", index))
    if job.compute is None:
        origins.move((*at, "compute"), ("compute",))
    for resolved, (source, path) in own.moved.items():
        # In the scenario's own file, these keys are under the job.
        inside = path[:1] == ("workload",) or (path[:1] == ("compute",) and job.compute is not None)
        where = ("jobs", index, *path) if source is view and inside else path
        origins.move((*at, *resolved), where, None if source is view else source)
    origins.move((*at, "placement", "npus"), ("jobs", index, "placement"))
    given = job.collectives.model_dump(exclude_unset=True)
    collectives = {**shared, **given}
    if "plans" in given:
        collectives["plans"] = {kind: view.relative(path) for kind, path in given["plans"].items()}
    placement = (
        numbers(job.placement) if isinstance(job.placement, str) and job.placement != "linear" else job.placement
    )
    return {
        "name": job.name,
        "workload": workload.resolved,
        "compute": timed,
        **({} if memory is None else {"npu_memory": memory}),
        "placement": {"npus": placement} if isinstance(placement, list) else placement,
        "start": job.start,
        "collectives": collectives if given else None,
    }


def _within(diagnostic: Diagnostic, index: int, *, own_compute: bool) -> Diagnostic:
    """The diagnostic with the job's path before its key, if the key is the job's own."""
    key = diagnostic.get("key", "")
    if key.split(".")[0] == "workload" or (own_compute and key.split(".")[0] == "compute"):
        return {**diagnostic, "key": f"jobs.{index}.{key}"}
    return diagnostic
