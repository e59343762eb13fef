"""``syncline design parallel``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.cli.commands.options import network_rate
from syncline.terminal.streams import console, show, show_json

if TYPE_CHECKING:
    from syncline.estimate.job import Precision


@dataclass(frozen=True, kw_only=True)
class ParallelOptions:
    """Options of ``syncline design parallel``, as the user gives them."""

    gpus: int
    accelerator: str
    sequence: int
    global_batch: int | None
    precision: Precision
    nic_rate: str | None
    domain: int | None
    top: int
    as_json: bool


def parallel(model: str, options: ParallelOptions) -> int:
    """Searches for the fastest division, and prints it; returns the exit status."""
    from syncline.design.parallel import Request, read_model, search
    from syncline.design.parallel.screen import as_dict, screen
    from syncline.design.parallel.search_divisions import batch_of
    from syncline.estimate import machine

    nic = None if options.nic_rate is None else network_rate("--nic-rate", options.nic_rate) / 8
    request = Request(
        read_model(model),
        machine(options.accelerator, nic_bytes_per_s=nic, domain=options.domain),
        options.gpus,
        options.sequence,
        options.global_batch or batch_of(options.gpus, options.sequence),
        precision=options.precision,
        keep=options.top,
    )
    found = search(request)
    if options.as_json:
        show_json({"exit_status": 0, "parallel": as_dict(found)})
    else:
        show(screen(found, console().width))
    return 0
