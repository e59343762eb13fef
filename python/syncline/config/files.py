"""Files that a resolved scenario names: their paths, as seen from another folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_OF_WORKLOADS = ("prefix", "groups", "file")
"""Keys of a resolved workload that hold paths."""


def moved(resolved: dict[str, Any], start: str | Path, end: str | Path) -> dict[str, Any]:
    """A resolved scenario whose paths were relative to ``start``, with paths relative to ``end``.

    Absolute paths stay. ``end`` need not exist yet.
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
    """The section of collectives, where it names files."""
    collectives = resolved.get("collectives")
    if not isinstance(collectives, dict) or not isinstance(plans := collectives.get("plans"), dict):
        return {}
    files = {kind: _moved(path, start, end) for kind, path in plans.items() if isinstance(path, str)}
    return {"collectives": {**collectives, "plans": {**plans, **files}}}


def _moved(path: str, start: str | Path, end: str | Path) -> str:
    """One path.

    Folders are followed to where they really are, because ``..`` leads out of the target of a link and not out of the
    link. The last part stays as it is: it may be a link that is meant to change, or the prefix of several files.
    """
    file = Path(path)
    if file.is_absolute():
        return path
    real = (Path(start) / file.parent).resolve() / file.name
    try:
        return Path(os.path.relpath(real, Path(end).resolve())).as_posix()
    except ValueError:  # on another drive
        return real.as_posix()
