"""What a search found, as files in a folder."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.config.dump import dump
from syncline.config.node import Mark, Text
from syncline.config.problem import error, refuse
from syncline.design import plot

if TYPE_CHECKING:
    from syncline.design.bandwidth import Allocation, Found

ANSWER = "design.json"
SCHEMA = "syncline-design-results/1"
_SECTIONS = ("workload", "compute", "collectives", "network", "prices")


def keep(found: Found, folder: str) -> list[str]:
    """Writes the answer, the tables, the plot, and the winner as scenarios with their results; gives the files' names.

    The folder appears whole or not at all. That of an earlier search is replaced, one with anything else left alone.
    """
    path = Path(folder)
    if path.exists() and not (path / ANSWER).is_file() and (not path.is_dir() or any(path.iterdir())):
        refuse(
            error(
                "SL0801",
                "there is something else in the folder",
                mark=Mark(Text(folder, ()), 0, 0, 0),
                help="name another one with --out",
            )
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        aside.chmod(0o755)
        try:
            names = _write(found, aside, path)
            if path.exists():
                shutil.rmtree(path)
            aside.replace(path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        refuse(error("SL0801", f"cannot be written: {reason}", mark=Mark(Text(folder, ()), 0, 0, 0)))
    return names


def _write(found: Found, folder: Path, final: Path) -> list[str]:
    names = [ANSWER, "allocations.csv"]
    (folder / ANSWER).write_text(json.dumps(plain(found), indent=1) + "\n", "utf-8")
    (folder / "allocations.csv").write_text(_csv(found.allocations, found), "utf-8")
    if found.front:
        (folder / "pareto.csv").write_text(_csv(found.front, found), "utf-8")
        names.append("pareto.csv")
    if found.winner.usd is not None and plot.available():
        for ending in ("svg", "png"):
            plot.draw(found, folder / f"pareto.{ending}")
            names.append(f"pareto.{ending}")
    for at, (job, result) in enumerate(zip(found.request.jobs, found.results, strict=True)):
        stem = _slug(job.name) if found.request.spec.jobs else "scenario"
        run = f"run-{stem}" if found.request.spec.jobs else "run"
        (folder / f"{stem}.yaml").write_text(dump(scenario(found, at, final)), "utf-8")
        result.save(folder / run)
        names += [f"{stem}.yaml", f"{run}/"]
    return names


def scenario(found: Found, job: int, folder: Path) -> dict[str, Any]:
    """A job on the winning fabric, as ``simulate`` takes it; files are named as seen from ``folder``."""
    request = found.request
    root = request.source.root.plain()
    own = root["jobs"][job] if request.spec.jobs else root
    fabric = {key: root["fabric"][key] for key in ("names", "latency", "efficiency", "tiers") if key in root["fabric"]}
    dims = len(found.winner.rates)
    fabric = {key: value[:dims] if isinstance(value, list) else value for key, value in fabric.items()}
    rates = [_core.exact_quantity("rate", round(8 * each)) for each in found.winner.rates]
    sections: dict[str, Any] = {"schema": "syncline/1", "name": request.name}
    for key in _SECTIONS:
        value = own.get(key) if own.get(key) is not None and key in ("workload", "compute") else root.get(key)
        if value is not None:
            sections[key] = _moved(value, request.source.folder, folder)
    if isinstance(sections["workload"], dict) and request.spec.iterations != 1:
        sections["workload"]["iterations"] = request.spec.iterations
    sections["fabric"] = {"shape": found.winner.shape, "rate_per_npu": rates, **fabric}
    return sections


def _moved(value: Any, here: Path, there: Path) -> Any:
    """The same with paths of files that are there, as seen from another folder."""
    if isinstance(value, dict):
        return {key: _moved(each, here, there) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, here, there) for each in value]
    if isinstance(value, str) and ("/" in value or "." in value) and len(value) < 1024 and (here / value).is_file():
        return Path(os.path.relpath((here / value).resolve(), there.resolve())).as_posix()
    return value


def plain(found: Found) -> dict[str, Any]:
    """The answer as one JSON object."""
    return {
        "schema": SCHEMA,
        "name": found.request.name,
        "objective": found.request.spec.objective,
        "npus": found.candidate.npus,
        "jobs": [{"name": job.name, "weight": job.weight} for job in found.request.jobs],
        "best": _allocation(found.winner),
        "allocations": [_allocation(each) for each in found.allocations],
        "front": [_allocation(each) for each in found.front],
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
        "utilization": each.utilization,
        "cost_usd": each.usd,
        "npus_usd": each.npus_usd,
        "steps_per_s_per_usd": each.per_cost,
        "case": each.case,
        "breaks": list(each.broken),
        "reached": list(each.reached),
    }


def _csv(allocations: list[Allocation], found: Found) -> str:
    jobs = [job.name for job in found.request.jobs]
    most = max(len(each.rates) for each in allocations)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    head = ["scheme", "shape", *(f"dim{at}_bytes_per_s" for at in range(1, most + 1)), "predicted_s"]
    if len(jobs) > 1:
        head += [f"predicted_{name}_s" for name in jobs]
    rows.writerow([*head, *(f"simulated_{name}_s" for name in jobs), "utilization", "cost_usd", "breaks"])
    for each in allocations:
        cells: list[Any] = [each.scheme, each.shape, *each.rates, *[""] * (most - len(each.rates)), each.total_s]
        if len(jobs) > 1:
            cells += each.predicted
        cells += each.simulated or [""] * len(jobs)
        rows.writerow([*cells, each.utilization, "" if each.usd is None else each.usd, " ".join(each.broken)])
    return text.getvalue()


def _slug(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "-" for each in name).strip("-.") or "job"
