"""Loads a scenario: reads what the user gives, checks it, and resolves it into the core's form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from time import monotonic
from typing import TYPE_CHECKING, Any

from syncline import _core, schemas
from syncline.codes import Code
from syncline.config import (
    expand_compute,
    expand_fabric,
    expand_jobs,
    expand_nccl,
    expand_prices,
    expand_workload,
    faults,
    files,
    network,
    other_tools,
    run_overrides,
)
from syncline.config.origin import Origins
from syncline.config.scenario import Scenario
from syncline.errors import Diagnostic, SynclineError
from syncline.input.check import Whole, collect, in_order
from syncline.input.node import Mark, Node, Text, from_python
from syncline.input.problem import error, raise_errors, shown
from syncline.input.source import Override, Source, from_argument, from_file

if TYPE_CHECKING:
    from syncline.distances import Measured

RESOLVED_FILE = "scenario.resolved.yaml"
"""Name of the file that holds the resolved scenario in a run's folder."""
WHOLE = Whole(
    "the scenario",
    hint=lambda path: other_tools.hint(str(path[-1])) if "workload" in path[:-1] else None,
    when_empty="write a scenario to start from with `syncline init`",
)
"""What a scenario's file describes."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scenario, ready to run."""

    name: str
    """Name of the scenario, and of its results."""
    resolved: dict[str, Any]
    """The scenario in the core's form; paths are relative to the current directory."""
    origins: Origins
    """Where each part of it came from."""
    started: float = field(default_factory=monotonic)
    """When reading began, in seconds of :func:`time.monotonic`; the limit on wall time counts from then."""

    @property
    def written(self) -> dict[str, Any]:
        """The scenario as the user wrote it, with all changes: keys and values as in a file."""
        written: dict[str, Any] = self.origins.source.root.to_python()
        return written

    @property
    def json(self) -> str:
        """The resolved scenario as JSON."""
        return json.dumps(self.resolved)

    def check(self) -> list[Diagnostic]:
        """All errors and warnings that can be found without simulating."""
        found: list[Diagnostic] = json.loads(_core.check(self.json))
        return in_order(self.origins.placed(each) for each in found)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of the core on the scenario; adds file and line to its errors."""
        return self.placing(lambda: function(self.json, *arguments))

    def placing(self, function: Callable[[], Any]) -> Any:
        """Calls a function; adds file and line to its errors about parts of the scenario."""
        try:
            return function()
        except SynclineError as problem:
            placed = in_order(self.origins.placed(each) for each in problem.diagnostics)
            raise SynclineError(placed, problem.exit_status) from None


def load(given: str | FilePath | Mapping[str, Any], overrides: Iterable[Override] = ()) -> Loaded:
    """Reads, checks and resolves a scenario: a file, ``-`` for standard input, the folder of a run, or a mapping.

    A mapping has the keys of a file.

    Raises :class:`SynclineError` with all errors.
    """
    started = monotonic()
    source = _source(given)
    if source.root.at(("workload", "source")):
        run_overrides.changed(source, overrides, lambda source: _resolved(source).resolved)
    else:
        source.override(overrides)
    _check_kind(source)
    workload = source.root.at(("workload", "source"))
    return replace(_resolved(source) if workload else resolve(source), started=started)


def load_between(
    hosts: Measured, given: str | FilePath | Mapping[str, Any], overrides: Iterable[Override] = ()
) -> tuple[Loaded, bool]:
    """Loads a scenario onto the network between ``hosts``, and says whether that replaced another fabric.

    Its own fabric is only used for ``rate`` and ``nodes``, if it is a measured one.

    Raises :class:`SynclineError` with all errors, and for the folder of a run, which holds no measured fabric.
    """
    started = monotonic()
    source = _source(given)
    if source.root.at(("workload", "source")):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "the results of a run have a network of their own",
                mark=source.root.mark,
                help="give the file of the scenario",
            )
        )
    fabric = source.root.at(("fabric",))
    replaced = fabric is not None and source.root.at(("fabric", "measured")) is None
    if fabric is None or replaced:
        source.override([Override.of("fabric", {"measured": hosts.source or "measurements"})])
    source.override(overrides)
    _check_kind(source)
    return replace(resolve(source, hosts), started=started), replaced


def _source(given: str | FilePath | Mapping[str, Any]) -> Source:
    """The values of what :func:`load` is given."""
    if isinstance(given, Mapping):
        source = Source(from_python(given))
    elif not isinstance(given, str | FilePath):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "not a scenario",
                found=type(given).__name__,
                allowed="the path of a file or of a run's folder, or a mapping with the keys of a file",
            )
        )
    else:
        path = FilePath(given)
        source = from_file(_of_run(path).as_posix()) if path.is_dir() else from_argument(str(given))
    if not isinstance(source.root.value, dict):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "not a scenario",
                mark=source.root.mark,
                found=shown(source.root.to_python()),
                allowed="a mapping",
            )
        )
    return source


def _check_kind(source: Source) -> None:
    """Raises an error if ``source`` is a job file, or one for a search, whose keys differ from those of a scenario."""
    schema = source.root.at(("schema",))
    searches = {schemas.BANDWIDTH: ("bandwidth", "rates"), schemas.JOINT: ("joint", "links")}
    if schema is not None and schema.value == schemas.JOB:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "this is a job file, not a scenario",
                mark=schema.mark,
                key="schema",
                found=schemas.JOB,
                allowed=schemas.SCENARIO,
                help=f"`syncline estimate {source.file or 'FILE'}` takes job files",
            )
        )
    if schema is not None and isinstance(schema.value, str) and schema.value in searches:
        search, absent = searches[schema.value]
        command = f"syncline design {search} {source.file or 'SPEC.yaml'}"
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"this is a file for a search, not a scenario: it has no {absent} yet",
                mark=schema.mark,
                key="schema",
                found=schema.value,
                allowed=schemas.SCENARIO,
                help=f"`{command}` finds the {absent} and writes a scenario",
            )
        )


def _of_run(folder: FilePath) -> FilePath:
    """Path of the scenario in the folder of a run. Raises an error for any other folder."""
    resolved = folder / RESOLVED_FILE
    if not resolved.is_file():
        there = sorted(each.as_posix() for each in folder.iterdir() if each.suffix in (".yaml", ".yml"))
        raise_errors(
            error(
                Code.UNREADABLE,
                f"this folder holds no results: it has no {RESOLVED_FILE}",
                mark=Mark(Text(folder.as_posix(), ()), 0, 0, 0),
                help=f"name a file, such as {' or '.join(there[:3])}" if there else "name a scenario's file",
            )
        )
    return resolved


def kept(folder: FilePath) -> dict[str, Any] | None:
    """The resolved scenario in the folder of a run; None if it has no workload, as after ``syncline astra-sim``."""
    source = from_file((folder / RESOLVED_FILE).as_posix())
    return _resolved(source).resolved if source.root.at(("workload",)) else None


def _resolved(source: Source) -> Loaded:
    """Loads a scenario of a run's folder, which is already in the core's form, with paths relative to the folder."""
    resolved = source.root.to_python()
    if source.file:
        resolved = files.moved(resolved, source.folder, "")
    _in_full(resolved)
    if resolved.get("network") in network.NAMES:
        resolved["network"] = network.resolved(resolved["network"])
    origins = Origins(source)
    if isinstance(collectives := resolved.get("collectives"), dict) and isinstance(collectives.get("nccl"), str):
        collectives["nccl"] = expand_nccl.expand(collectives["nccl"], source)
    if isinstance(resolved.get("prices"), str):
        resolved["prices"] = expand_prices.expand(resolved["prices"], origins)
    return Loaded(str(resolved.get("name") or "run"), resolved, origins)


def _in_full(resolved: dict[str, Any]) -> None:
    """Expands short forms that ``--set`` may put into a resolved scenario: degrees of parallelism and a placement."""
    parallel = (resolved.get("workload") or {}).get("parallel")
    if isinstance(parallel, dict):
        for mesh in (parallel, *(parallel.get("meshes") or {}).values()):
            for axes in (mesh, mesh.get("axes") or {}):
                known = ("tensor", "data", "pipeline") if axes is mesh else tuple(axes)
                axes |= {name: expand_workload.axes(axes[name]) for name in known if name in axes}
    if isinstance(resolved.get("placement"), list):
        resolved["placement"] = {"npus": resolved["placement"]}


def resolve(source: Source, hosts: Measured | None = None) -> Loaded:
    """Checks and resolves a scenario that a user wrote. ``hosts`` are those of a measured fabric, if not its file's."""
    _drop_empty(source.root)
    scenario, problems = collect(source, Scenario, WHOLE)
    several = source.root.at(("jobs",)) is not None
    built, found = expand_workload.model(source)
    of_jobs, more = expand_jobs.models(source) if several else ([], [])
    problems += found + more
    if scenario is None or problems:
        raise_errors(*in_order(problems))
    origins = Origins(source)
    name = scenario.name or _name(source.file)
    shared = _collectives(scenario, source)
    if scenario.workload is None:
        jobs = expand_jobs.expand(scenario, origins, of_jobs, shared)
        workload = expand_workload.Expanded(jobs)
        compute: dict[str, Any] = {"model": "given"}
    else:
        workload = expand_workload.expand(scenario.workload, origins, built)
        compute = expand_compute.expand(scenario.compute, workload, origins)
    resolved = {
        "schema": schemas.SCENARIO,
        "name": name,
        "seed": scenario.seed,
        "workload": workload.resolved,
        "compute": compute,
        **_memory(scenario, origins),
        "fabric": expand_fabric.expand(scenario.fabric, origins, hosts),
        "placement": {"npus": scenario.placement} if isinstance(scenario.placement, list) else scenario.placement,
        "collectives": shared,
        "network": network.resolved(scenario.network),
        "faults": [faults.resolved(each) for each in scenario.faults],
        "jitter": scenario.jitter.model_dump(),
        **({} if scenario.prices is None else {"prices": expand_prices.expand(scenario.prices, origins)}),
        "limits": scenario.limits.model_dump(),
        "trace": scenario.trace.model_dump(),
        "symmetry": scenario.symmetry,
        "report": scenario.report,
    }
    return Loaded(name, resolved, origins)


def _drop_empty(root: Node) -> None:
    """Removes sections without a value, such as a bare ``limits:``: they count as absent."""
    if isinstance(root.value, dict):
        for key in ("limits", "trace", "collectives", "faults", "jitter", "prices"):
            node = root.value.get(key)
            if node is not None and node.value is None:
                del root.value[key]


def _name(file: str) -> str:
    """The default name: that of the file, or of its folder if the file is called ``scenario``."""
    if not file:
        return "scenario"
    path = FilePath(file)
    folder = path.absolute().parent.name
    return folder if path.stem == "scenario" and folder else path.stem


def _memory(scenario: Scenario, origins: Origins) -> dict[str, Any]:
    # With several jobs, each has its own memory, given with its compute model.
    memory = None if scenario.workload is None else expand_compute.memory(scenario.compute, origins)
    return {} if memory is None else {"npu_memory": memory}


def _collectives(scenario: Scenario, source: Source) -> dict[str, Any]:
    resolved = scenario.collectives.model_dump()
    resolved["plans"] = {kind: source.relative(path) for kind, path in scenario.collectives.plans.items()}
    computes = [scenario.compute, *(job.compute for job in scenario.jobs)]
    accelerators = [name for each in computes if (name := getattr(each, "accelerator", None)) is not None]
    for key in expand_nccl.KEYS:
        del resolved[key]
    if nccl := expand_nccl.expand_all(scenario.collectives, source, accelerators):
        resolved["nccl"] = nccl
    return resolved
