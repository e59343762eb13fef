"""``syncline estimate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.cli.commands.options import overrides
from syncline.cli.commands.pages import check_page, write_page
from syncline.errors import ExitStatus
from syncline.terminal.streams import console, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterable


def estimate(path: str, sets: Iterable[str], *, report: str | None, simulate: bool, force: bool, as_json: bool) -> int:
    """Estimates the job of a file, prints what was found, and writes it as the page ``report``; returns the status.

    With ``simulate``, the job is also simulated.

    :raises SynclineError: it cannot be simulated.
    """
    from syncline.jobs import estimate as estimated
    from syncline.jobs import faster, read_job
    from syncline.jobs.screen import as_dict, screen

    if report is not None:
        check_page(report, force=force)
    found = estimated(read_job(path, overrides(sets, {})))
    run = None
    if simulate:
        from syncline.design.parallel.simulation import simulated_job
        from syncline.input.problem import raise_errors

        run = simulated_job(found.job)
        if run.problem is not None:
            raise_errors(run.problem)
    status = ExitStatus.DONE if found.fits else ExitStatus.PROBLEM
    better = faster(found)
    if report is not None:
        from syncline.jobs.page import page

        write_page(report, page(found, better=better))
    if as_json:
        told = {"exit_status": int(status), "estimate": as_dict(found, better)}
        if run is not None:
            told["simulated"] = {"step_s": run.step_s, "exposed_s": run.exposed_s, "not_simulated": run.reason}
        show_json(told)
    else:
        show(screen(found, better, console().width))
        if run is not None:
            from rich.console import Group

            from syncline.design.parallel.simulation_screen import of_job

            show(Group(*of_job(run, found.step_s, console().width)))
    return int(status)
