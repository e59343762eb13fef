"""``syncline calibrate``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from syncline import _core
from syncline.cli.commands.options import network_rate
from syncline.input.problem import bad_value, nearest, require_writable
from syncline.terminal.prose import lines
from syncline.terminal.streams import console, print_diagnostics, say, show, show_json
from syncline.terminal.table import of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from syncline.errors import Diagnostic
    from syncline.nccl.machine import Errors, Machine
    from syncline.nccl.rows import Row

_HOPS = {"ll": "5us", "ll128": "8.5us", "simple": "14us"}
"""First guesses of latencies of hops between nodes: those of NCCL's tuning model."""


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """Options of ``syncline calibrate``, as the user gives them."""

    files: list[str]
    name: str | None
    out: str | None
    operation: str | None
    gpus: int | None
    nodes: int | None
    nics: int | None
    nic_rate: str | None
    force: bool
    as_json: bool
    quiet: bool


def calibrate(options: CalibrateOptions) -> int:
    """Finds the constants of a machine, prints how well they fit, and writes them; returns the exit status."""
    from syncline.nccl import calibration, nccl_tests

    if options.operation is not None and options.operation not in (known := _core.nccl_operations()):
        near = nearest(options.operation, known)
        raise bad_value("unknown operation", options.operation, allowed=", ".join(known), nearest=near)
    if options.nic_rate is not None:
        network_rate("--nic-rate", options.nic_rate)
    name = options.name or nccl_tests.stem(options.files)
    out = options.out or f"{name}.yaml"
    require_writable(out, force=options.force)
    cut: list[Diagnostic] = []
    rows = nccl_tests.read_all(
        options.files, operation=options.operation, gpus=options.gpus, nodes=options.nodes, warnings=cut
    )
    if not options.as_json:
        print_diagnostics(cut)
    software = sorted({row.software for row in rows})
    machine = calibration.calibrate(
        rows,
        calibration.About(
            name=name,
            gpu=next((row.gpu for row in rows if row.gpu), ""),
            software=", ".join(software),
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            source=sorted({row.source for row in rows}),
        ),
        _network(options, rows),
    )
    machine.save(out)
    if options.as_json:
        content = machine.content.model_dump(by_alias=True, exclude_none=True)
        show_json({"exit_status": 0, "file": out, "machine": content, "diagnostics": cut})
    else:
        show(*_screen(machine, rows, console().width))
    if not options.quiet:
        say(f"Wrote {out}")
    return 0


def _network(options: CalibrateOptions, rows: Sequence[Row]) -> dict[str, Any] | None:
    """The network as far as it is known before the calibration; None if all times are of one node."""
    far = [row for row in rows if row.nodes > 1]
    if not far:
        return None
    if options.nics is None or options.nic_rate is None:
        raise bad_value(
            "the files have times between nodes, and nothing says what joins them",
            f"{max(row.nodes for row in far)} nodes",
            help="add --nics N --nic-rate RATE, such as --nics 8 --nic-rate 400Gb/s",
        )
    return {
        "gpus": max(row.gpus // row.nodes for row in rows),
        "nics": options.nics,
        "nic_rate": options.nic_rate,
        "efficiency": 0.92,
        "hop": _HOPS,
        "source": "calibrated with the times between nodes; number and rate of interfaces as given",
    }


def _screen(machine: Machine, rows: Sequence[Row], width: int) -> Iterator[RenderableType]:
    content = machine.content
    yield Text.assemble((content.name, "bold"), (f"  {' '.join(filter(None, (content.gpu, content.software)))}", "dim"))
    yield ""
    table = of_numbers("operation", "GPUs", "times", "median error", "p90", "largest")
    for operation, constants in content.in_node:
        if constants is not None and constants.errors is not None:
            table.add_row(operation, ", ".join(map(str, constants.gpus)), *_cells(constants.errors))
    if content.network is not None and content.network.errors is not None:
        table.add_row("between nodes", "", *_cells(content.network.errors))
    yield table
    known = {operation for operation, constants in content.in_node if constants is not None}
    if few := sorted({row.operation for row in rows} - known):
        yield ""
        yield Text(lines(f"Too few times of one node for constants: {', '.join(few)}.", width), "yellow")


def _cells(errors: Errors) -> list[str]:
    return [str(errors.rows), *(f"{100 * each:.1f} %" for each in (errors.median, errors.p90, errors.largest))]
