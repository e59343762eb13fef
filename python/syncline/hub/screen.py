"""Shows the status of a hub in the terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from syncline.quantity import counted, duration, scaled

if TYPE_CHECKING:
    from rich.console import RenderableType


def overview(status: dict[str, Any]) -> list[RenderableType]:
    """Returns lines about a hub and a table of its jobs."""
    from rich.table import Table

    addresses = ", ".join(status["interfaces"])
    draining = ", takes no new jobs" if status["draining"] else ""
    head = f"hub at {addresses}: {counted(status['cores'], 'core')}, up {duration(status['uptime_s'])}{draining}"
    held = scaled(sum(job["memory"] for job in status["jobs"]), "B")
    counts = f"{counted(status['lost'], 'rank')} lost, {counted(status['refused'], 'connection')} refused"
    counts += f", {held} of {scaled(status['memory'], 'B')} of memory reserved for jobs"
    if not status["jobs"]:
        return [head, counts, "no jobs"]
    saves = any("saved" in job or "save_failure" in job for job in status["jobs"])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (
        ("job", "left"),
        ("ranks", "left"),
        ("vectors", "right"),
        ("chunks", "right"),
        ("steps", "right"),
        ("in", "right"),
        ("out", "right"),
        ("busiest core", "right"),
        *((("saved", "left"),) if saves else ()),
    ):
        table.add_column(column, justify=justify)
    for job in status["jobs"]:
        ranks = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in Counter(job["ranks"]).items())
        total = sum(job["bytes_in"])
        busiest = f"{max(job['bytes_in']) * len(job['bytes_in']) / total:.2f}x the mean" if total else "-"
        steps = f"{job['steps'] / job['chunks']:.0f}" if job["chunks"] else "-"
        table.add_row(
            job["job"],
            ranks,
            str(job["keys"]),
            str(job["chunks"]),
            steps,
            scaled(total, "B"),
            scaled(sum(job["bytes_out"]), "B"),
            busiest,
            *([_saved(job)] if saves else []),
        )
    return [head, counts, table]


def _saved(job: dict[str, Any]) -> str:
    """Describes the last save of a job."""
    last = job.get("saved")
    words = "never" if last is None else f"step {last['step']}, {duration(last['age_s'])} ago"
    return f"{words}, then failed: {job['save_failure']}" if "save_failure" in job else words
