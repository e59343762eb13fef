"""Writes the results of a search into a folder."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core, schemas
from syncline.design import folder as folders
from syncline.design.bandwidth import plot, portable
from syncline.design.bandwidth.algorithms import entries
from syncline.input.dump import dump

if TYPE_CHECKING:
    from syncline.design.bandwidth.search_rates import Allocation, SearchResult

FILES = "files"
"""Folder of the files that the winner's scenarios name."""
_FILES = ("model", "file", "list")
"""Keys of a scenario that may name a file."""
_SECTIONS = ("workload", "compute", "collectives", "network", "prices")


def save(found: SearchResult, folder: str) -> list[str]:
    """Writes the answer, the tables, the plot, and the winner as scenarios with their results; returns the file names.

    Writes the folder atomically. Replaces the folder of an earlier search (:func:`syncline.design.folder.check`).
    """
    return folders.write(folder, lambda path: _write(found, path))


def _write(found: SearchResult, folder: Path) -> list[str]:
    tables = {"allocations.csv": found.allocations, **({"pareto.csv": found.front} if found.front else {})}
    for name, rows in tables.items():
        (folder / name).write_text(_csv(rows, found), "utf-8")
    if found.winner.usd is not None and plot.available():
        for ending in ("svg", "png"):
            plot.draw(found, folder / f"pareto.{ending}")
    stems = _stems(found)
    for at, (stem, result) in enumerate(zip(stems, found.results, strict=True)):
        (folder / f"{stem}.yaml").write_text(dump(scenario(found, at, folder)), "utf-8")
        result.save(folder / (f"run-{stem}" if found.request.spec.jobs else "run"))
    names = [schemas.ANSWER, *folders.names(folder)]
    answer = {**as_dict(found), "files": names}
    (folder / schemas.ANSWER).write_text(json.dumps(answer, indent=1) + "\n", "utf-8")
    return names


def _stems(found: SearchResult) -> list[str]:
    """Names of the winner's scenarios: one for each job, all different."""
    if not found.request.spec.jobs:
        return ["scenario"]
    stems: list[str] = []
    for job in found.request.jobs:
        slug = re.sub(r"[^\w.+-]+", "-", job.name).strip("-.") or "job"
        stems.append(slug if slug not in stems else f"{slug}-{len(stems) + 1}")
    return stems


def scenario(found: SearchResult, job: int, folder: Path) -> dict[str, Any]:
    """The scenario of a job on the winning fabric, for ``simulate``.

    Copies files that it names into ``folder``, and writes a PyTorch module as its layers.
    """
    request = found.request
    root = request.source.root.to_python()
    own = root["jobs"][job] if request.spec.jobs else root
    fabric = {key: root["fabric"][key] for key in ("names", "latency", "efficiency") if key in root["fabric"]}
    dims = len(found.winner.rates)
    fabric = {key: value[:dims] if isinstance(value, list) else value for key, value in fabric.items()}
    rates = [_core.exact_quantity("rate", round(8 * each)) for each in found.winner.rates]
    sections: dict[str, Any] = {"schema": schemas.SCENARIO, "name": request.name}
    for key in _SECTIONS:
        value = own.get(key) if own.get(key) is not None and key in ("workload", "compute") else root.get(key)
        if key == "workload" and isinstance(value, dict) and "module" in value:
            # The module's code may be absent where the file is simulated.
            value = portable.layers(value, (found.results[job].scenario or {})["workload"])
        if value is not None:
            sections[key] = _with_files(value, request.source.folder, folder, named=key == "prices")
    if not found.is_settled and found.algorithms[job]:
        own_way = dict(sections.get("collectives", {}))
        own_way["algorithms_of"] = [*own_way.get("algorithms_of", []), *entries(found.algorithms[job])]
        sections["collectives"] = own_way
    sections["fabric"] = {"shape": found.winner.shape, "rate_per_npu": rates, **fabric}
    return sections


def _with_files(value: Any, here: Path, folder: Path, *, named: bool = False) -> Any:
    """Copies files that ``value`` names into a folder, and returns the value with the new paths.

    ``named`` says that the value itself may be the path of a file.
    """
    if isinstance(value, dict):
        return {
            key: _with_files(each, here, folder, named=key in _FILES)
            if key != "plans"
            else {kind: _with_files(plan, here, folder, named=True) for kind, plan in (each or {}).items()}
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_with_files(each, here, folder) for each in value]
    if named and isinstance(value, str) and (here / value).is_file():
        return _copied((here / value).resolve(), folder).as_posix()
    return value


def _copied(file: Path, folder: Path) -> Path:
    """Copies a file; returns its path relative to ``folder``. Files with the same name get different subfolders."""
    content = file.read_bytes()
    for number in itertools.count(1):
        # Keep the name of the file's folder, since a model may be named after it.
        parent = file.parent.name or "files"
        place = Path(FILES, parent if number == 1 else f"{parent}-{number}", file.name)
        target = folder / place
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if target.read_bytes() == content:
            return place
    raise AssertionError("numbers do not end")


def as_dict(found: SearchResult) -> dict[str, Any]:
    """The content of ``design.json``."""
    return {
        "schema": schemas.BANDWIDTH_RESULTS,
        "name": found.request.name,
        "objective": found.request.spec.objective,
        "npus": found.candidate.npus,
        "jobs": [{"name": job.name, "weight": job.weight} for job in found.request.jobs],
        "best": _allocation(found.winner),
        "allocations": [_allocation(each) for each in found.allocations],
        "front": [_allocation(each) for each in found.front],
        "algorithms": [
            {"job": job.name, "algorithms_of": entries(algorithms)}
            for job, algorithms in zip(found.request.jobs, found.algorithms, strict=True)
        ],
        "left_out": [{"shape": shape, "why": why} for shape, why in found.skipped],
        "notes": found.notes,
    }


def _allocation(each: Allocation) -> dict[str, Any]:
    return {
        "scheme": each.scheme,
        "shape": each.shape,
        "dims": [
            {"name": name, "rate_per_npu_bytes_per_s": rate, "share": share}
            for name, rate, share in zip(each.names, each.rates, each.shares, strict=True)
        ],
        "predicted_s": list(each.predicted),
        "simulated_s": list(each.simulated),
        "total_predicted_s": each.total_s,
        "predicted_utilization": each.utilization,
        "simulated_utilization": each.used,
        "cost_usd": each.usd,
        "npus_usd": each.npus_usd,
        "predicted_steps_per_s_per_usd": each.per_cost,
        "simulated_steps_per_s_per_usd": each.found_per_cost if each.simulated else None,
        "sized_by": list(each.sized_by),
        "breaks": list(each.broken),
        "reached": list(each.reached),
    }


def _csv(allocations: list[Allocation], found: SearchResult) -> str:
    jobs = [job.name for job in found.request.jobs]
    most = max(len(each.rates) for each in allocations)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    head = ["scheme", "shape", *(f"dim{at}_bytes_per_s" for at in range(1, most + 1)), "predicted_s"]
    if len(jobs) > 1:
        head += [f"predicted_{name}_s" for name in jobs]
    head += [*(f"simulated_{name}_s" for name in jobs), "predicted_utilization", "simulated_utilization"]
    rows.writerow([*head, "cost_usd", "breaks"])
    for each in allocations:
        cells: list[Any] = [each.scheme, each.shape, *each.rates, *[""] * (most - len(each.rates)), each.total_s]
        if len(jobs) > 1:
            cells += each.predicted
        cells += each.simulated or [""] * len(jobs)
        cells += ["" if cell is None else cell for cell in (each.utilization, each.used, each.usd)]
        rows.writerow([*cells, " ".join(each.broken)])
    return text.getvalue()
