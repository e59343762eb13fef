"""``syncline design parallel``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.cli.commands.options import network_rate, size
from syncline.cli.commands.pages import check_page, write_page
from syncline.codes import Code
from syncline.files import write_whole
from syncline.input.problem import bad_value, cannot_write, error, raise_errors, require_writable
from syncline.terminal.prose import lines
from syncline.terminal.streams import console, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.parallel.search_configurations import Found, Offloaded
    from syncline.design.parallel.simulation import Simulated
    from syncline.estimate import Machine
    from syncline.estimate.job import Dispatcher, Gradients, Graphs, Moments, Precision, Schedule

MOST_GPUS = 1_000_000
"""Most accelerators of a search."""
MOST_COUNTS = 32
"""Most numbers of accelerators that one search compares."""
MOST_SEQUENCES = 1_000_000
"""Most sequences of a step."""
SEQUENCE = 8192
"""Tokens of a sequence where neither the user nor the model says fewer."""
_LONG = 12


@dataclass(frozen=True, kw_only=True)
class ParallelOptions:
    """Options of ``syncline design parallel``, as the user gives them."""

    gpus: str
    accelerator: str | None
    cluster: str | None
    sequence: int | None
    global_batch: int | None
    precision: Precision
    schedules: tuple[Schedule, ...]
    graphs: Graphs
    dispatcher: Dispatcher
    gradients: Gradients
    moments: Moments
    nic_rate: str | None
    domain: int | None
    memory: str | None
    nccl: str | None
    constants: str | None
    offload: tuple[Offloaded, ...]
    host_rate: str | None
    host_memory: str | None
    host_memory_rate: str | None
    top: int
    best_by: str
    price: str | None
    power: str | None
    simulate: int
    job: str | None
    report: str | None
    force: bool
    as_json: bool
    quiet: bool = False


def parallel(model: str, options: ParallelOptions) -> int:
    """Searches for the best configuration, and prints it; returns the exit status."""
    from rich.console import Group

    from syncline.design.parallel import Costs, Objective, Request, read_model, sizes_screen, sweep
    from syncline.design.parallel.screen import as_dict, screen
    from syncline.design.parallel.search_configurations import batch_of
    from syncline.design.parallel.sizes import board_power, unknown_power

    objective = Objective(options.best_by)
    counts = _counts(options.gpus)
    usd = None if options.price is None else _price(options.price)
    watts = None if options.power is None else _power(options.power)
    if objective is Objective.DOLLARS and usd is None:
        raise_errors(
            error(
                Code.MISSING_KEY,
                "`--best-by dollars` needs the price of an accelerator",
                key="--price",
                help="add what an accelerator costs for an hour in dollars, such as `--price 2.50`",
            )
        )
    if options.report is not None:
        check_page(options.report, force=options.force)
    if options.job is not None:
        _check_job_file(options.job, force=options.force)
    nic = None if options.nic_rate is None else network_rate("--nic-rate", options.nic_rate) / 8
    architecture = read_model(model)
    sequence = options.sequence or min(SEQUENCE, architecture.longest or SEQUENCE)
    if architecture.longest is not None and sequence > architecture.longest and not options.quiet:
        longest = f"{architecture.longest:,} tokens"
        say(lines(f"Note: {model} is made for sequences of at most {longest}.", console(error=True).width))
    request = Request(
        architecture,
        _machine(options, counts, nic),
        counts[0],
        sequence,
        options.global_batch or _batch(counts, batch_of(counts, sequence)),
        precision=options.precision,
        schedules=options.schedules,
        graphs=options.graphs,
        dispatcher=options.dispatcher,
        gradients=options.gradients,
        moments=options.moments,
        offload=options.offload,
        keep=options.top,
        constants=options.constants,
    )
    # One number of accelerators by time has no trade-off to show.
    traded = len(counts) > 1 or objective is not Objective.TIME or usd is not None or watts is not None
    draws = board_power(request) if watts is None else watts
    if draws is None and traded:
        raise_errors(unknown_power(request))
    found = sweep([replace(request, gpus=each) for each in counts], objective, Costs(draws or 0.0, usd))
    runs: Sequence[Simulated] = ()
    if options.simulate:
        from syncline.design.parallel.simulation import simulated

        runs = simulated(found, options.simulate)
    if options.report is not None:
        from syncline.design.parallel.page import page

        write_page(options.report, page(found, runs))
    if options.job is not None:
        _write_job(options.job, model, found.best)
        if not options.quiet:
            say(f"Wrote {options.job}")
    if options.as_json:
        told = {**as_dict(found.best), **({"costs": sizes_screen.as_dict(found)} if traded else {})}
        if runs:
            from syncline.design.parallel.simulation_screen import as_list

            told["simulated"] = as_list(runs)
        show_json({"exit_status": 0, "parallel": told})
    else:
        width = console().width
        show(screen(found.best, width, sizes_screen.blocks(found, width) if traded else ()))
        if runs:
            from syncline.design.parallel.simulation_screen import blocks

            show(Group(*blocks(runs, width)))
    return 0


def _check_job_file(path: str, *, force: bool) -> None:
    if Path(path).suffix.lower() not in (".yaml", ".yml"):
        raise bad_value("not a name of a job file", path, allowed="a name that ends in .yaml")
    require_writable(path, force=force)


def _write_job(path: str, model: str, found: Found) -> None:
    """Writes the best configuration as a job file."""
    from syncline.design.parallel.training import training_job
    from syncline.jobs.written import job_text

    made = training_job(found.request, found.best[0])
    which = f"{found.fitting:,} configurations of {made.name} on {made.job.ranks:,} accelerators"
    try:
        write_whole(path, job_text(made, model, str(Path(path).parent), f"The best of {which} that fit."))
    except OSError as problem:
        raise_errors(cannot_write(path, problem))


def _machine(options: ParallelOptions, counts: Sequence[int], nic_bytes_per_s: float | None) -> Machine:
    """The machine of a known cluster, or of commercial servers; options replace its network and its domain."""
    from syncline.clusters.known import find
    from syncline.estimate import machine, of_cluster
    from syncline.estimate.machines import check_nccl

    memory = None if options.memory is None else size("--memory", options.memory)
    host = (
        None if options.host_rate is None else network_rate("--host-rate", options.host_rate) / 8,
        None if options.host_memory is None else size("--host-memory", options.host_memory),
        None if options.host_memory_rate is None else network_rate("--host-memory-rate", options.host_memory_rate) / 8,
    )
    if options.cluster is None:
        return machine(
            options.accelerator or "H100",
            nic_bytes_per_s=nic_bytes_per_s,
            domain=options.domain,
            memory_bytes=memory,
            nccl=options.nccl,
            host_bytes_per_s=host[0],
            host_memory_bytes=host[1],
            host_memory_bytes_per_s=host[2],
        )
    if options.accelerator is not None:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "`--cluster` has its own accelerators",
                key="--accelerator",
                found=options.accelerator,
                help="leave out `--accelerator` or `--cluster`",
            )
        )
    cluster = find(options.cluster, "or give --accelerator, --domain and --nic-rate of your own")
    most = None if cluster.hosts is None else cluster.hosts * cluster.host
    if most is not None and max(counts) > most:
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"`{options.cluster}` has fewer accelerators",
                key="--gpus",
                found=str(max(counts)),
                allowed=f"at most {most}",
            )
        )
    found = of_cluster(cluster)
    if nic_bytes_per_s is not None:
        found = replace(found, nic_bytes_per_s=nic_bytes_per_s)
    if memory is not None:
        found = replace(found, memory_bytes=memory)
    if options.nccl is not None:
        check_nccl(found.accelerator, options.nccl)
    found = replace(found, nccl=options.nccl, host=found.host.changed(*host))
    return found if options.domain is None else replace(found, domain=options.domain, used=None)


def _counts(text: str) -> list[int]:
    """The numbers of accelerators, such as ``256,512,1024``."""
    found = []
    for word in text.split(","):
        number = int(word) if word.strip().isascii() and word.strip().isdigit() and len(word) < _LONG else 0
        if not 1 <= number <= MOST_GPUS:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "not a number of accelerators",
                    key="--gpus",
                    found=word.strip() or text,
                    allowed=f"whole numbers from 1 to {MOST_GPUS:,}, such as 512 or 256,512,1024",
                )
            )
        if number not in found:
            found.append(number)
    if len(found) > MOST_COUNTS:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "too many numbers of accelerators",
                key="--gpus",
                found=str(len(found)),
                allowed=f"at most {MOST_COUNTS}",
            )
        )
    return found


def _batch(counts: Sequence[int], batch: int) -> int:
    """The batch that all numbers of accelerators can have."""
    if batch > MOST_SEQUENCES:
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"a batch that divides among each of these numbers has {batch:,} sequences",
                key="--gpus",
                found=",".join(map(str, counts)),
                help="give --global-batch, or numbers with common factors",
            )
        )
    return batch


def _price(text: str) -> float:
    """Dollars for an accelerator and an hour: ``2.5`` or ``$2.50``."""
    return _amount(
        "--price",
        text,
        r"\$?\s*({})",
        0.001,
        1000.0,
        "dollars for an accelerator and an hour, from 0.001 to 1,000, such as 2.50",
    )


def _power(text: str) -> float:
    """Watts: ``700``, ``700W`` or ``0.7kW``."""
    least, most = 1.0, 100_000.0
    factor = 1000.0 if text.strip().endswith("kW") else 1.0
    pattern = r"({})\s*(?:kW|W)?"
    allowed = "a power from 1 W to 100 kW, such as 700W"
    return factor * _amount("--power", text, pattern, least / factor, most / factor, allowed)


def _amount(flag: str, text: str, pattern: str, least: float, most: float, allowed: str) -> float:
    """A number between two bounds in an option's text."""
    found = re.fullmatch(pattern.format(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}"), text.strip())
    if found is None or not least <= (number := float(found[1])) <= most:
        raise_errors(error(Code.BAD_VALUE, "value not allowed", key=flag, found=text, allowed=allowed))
    return number
