"""Rewrites the paths in a resolved scenario to be relative to another folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_OF_WORKLOADS = ("prefix", "groups", "file")
"""Keys of a resolved workload that hold paths."""


def moved(resolved: dict[str, Any], start: str | Path, end: str | Path) -> dict[str, Any]:
    """Rewrites paths that are relative to ``start`` in a resolved scenario to be relative to ``end``.

    Absolute paths stay as they are. ``end`` need not exist yet.
    """
    changed = dict(resolved)
    if isinstance(workload := resolved.get("workload"), dict) and isinstance(jobs := workload.get("jobs"), list):
        own = [moved(job, start, end) if isinstance(job, dict) else job for job in jobs]
        return {**changed, "workload": {**workload, "jobs": own}, **_plans(resolved, start, end)}
    if isinstance(workload := resolved.get("workload"), dict):
        files = {key: workload[key] for key in _OF_WORKLOADS if isinstance(workload.get(key), str)}
        changed["workload"] = {**workload, **{key: _moved(path, start, end) for key, path in files.items()}}
    return {**changed, **_plans(resolved, start, end)}


def _plans(resolved: dict[str, Any], start: str | Path, end: str | Path) -> dict[str, Any]:
    """The section ``collectives`` with rewritten paths of plans; empty if it names no files."""
    collectives = resolved.get("collectives")
    if not isinstance(collectives, dict) or not isinstance(plans := collectives.get("plans"), dict):
        return {}
    files = {kind: _moved(path, start, end) for kind, path in plans.items() if isinstance(path, str)}
    return {"collectives": {**collectives, "plans": {**plans, **files}}}


def _moved(path: str, start: str | Path, end: str | Path) -> str:
    """Rewrites one path.

    Symbolic links of folders are resolved, because ``..`` leads out of a link's target and not out of the link. The
    last part is not resolved: it may be a link that is meant to change, or the prefix of several files.
    """
    file = Path(path)
    if file.is_absolute():
        return path
    real = (Path(start) / file.parent).resolve() / file.name
    try:
        return Path(os.path.relpath(real, Path(end).resolve())).as_posix()
    except ValueError:  # on another drive
        return real.as_posix()
