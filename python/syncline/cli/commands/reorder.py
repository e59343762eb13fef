"""``syncline reorder``."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline.cli.commands.options import overrides, seconds, size
from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.node import Mark, Text
from syncline.input.problem import error, nearest, raise_errors, require_writable, shown
from syncline.quantity import counted
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import console, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syncline.distances import Measured
    from syncline.errors import Diagnostic
    from syncline.reordering import Format, Reordered, ReorderedJob

BYTES = "25MB"
"""Size of an all-reduce by default: a bucket of PyTorch's DDP."""


@dataclass(frozen=True)
class Options:
    """What the command line asks for, before it is checked."""

    algorithm: str | None
    """The all-reduce whose closed form counts."""
    plan: str | None
    """The all-reduce that is simulated: an algorithm, or a plan file."""
    scenario: str | None
    """The job that is simulated."""
    sets: tuple[str, ...]
    """``KEY=VALUE``."""
    bytes: str | None
    rate: str | None
    hosts: str | None
    """A file with the present order."""
    groups: str | None
    """A file of groups, between which distances count."""
    slots: int | None
    write: tuple[str, ...]
    """``FORMAT=FILE``."""
    seed: int
    proposals: int | None
    limit: str | None


def reorder(measurements: str, options: Options, *, explain: bool, force: bool, as_json: bool, quiet: bool) -> int:
    """Searches for an order of hosts, writes it, and prints what it is worth; returns the exit status."""
    from syncline import reordering
    from syncline.distances import read, read_hosts
    from syncline.reordering.difference import difference, difference_of_job
    from syncline.reordering.job_screen import job_as_dict, job_screen
    from syncline.reordering.screen import as_dict, screen

    files = [_file(each) for each in options.write]
    _check_files(files, options, force=force)
    _check_together(options)
    measured = read(measurements)
    if options.groups is not None:
        measured = _between_groups(measured, options.groups)
    given = None if options.hosts is None else read_hosts(options.hosts)
    names = measured.hosts if given is None else tuple(host.name for host in given)
    slots = {host.name: host.slots for host in given or ()}
    width, listed = console().width, not files
    with Waiting(quiet=quiet or as_json) as progress:

        def tell(done: float) -> None:
            progress(done, "search")

        with _advice():
            found = _search(measured, names, slots, options, tell)
    if isinstance(found, reordering.ReorderedJob):
        of_job = difference_of_job(found)
        answer = job_as_dict(found, of_job)
        screen_ = job_screen(found, of_job, width, explain=explain, listed=listed)
    else:
        of_ranks = difference(found)
        answer = as_dict(found, of_ranks)
        screen_ = screen(found, of_ranks, width, explain=explain, listed=listed)
    counts = [options.slots or slots.get(host, 1) for host in found.hosts]
    if options.scenario is not None and isinstance(found, reordering.ReorderedJob):
        counts = [found.ranks_per_host] * len(found.hosts)
    for form, path in files:
        reordering.write(form, path, found.hosts, counts)
    if as_json:
        show_json({"exit_status": 0, "reorder": answer})
    else:
        show(screen_)
    if not quiet:
        for form, path in files:
            say(f"Wrote {path}; {form.use(path)}")
    return 0


def _between_groups(measured: Measured, path: str) -> Measured:
    """The distances between the groups of a file, which must have all hosts."""
    from syncline.distances import by_groups
    from syncline.grouping import read

    groups = {host: number for number, group in enumerate(read(path, measured.hosts)) for host in group}
    return by_groups(measured, [groups[host] for host in measured.hosts])


def _search(
    measured: Measured,
    names: tuple[str, ...],
    slots: dict[str, int],
    options: Options,
    tell: Callable[[float], None],
) -> Reordered | ReorderedJob:
    """Searches by a closed form, or by simulations of a job or an all-reduce."""
    limit_s = None if options.limit is None else seconds("--limit", options.limit)
    nbytes = size("--bytes", options.bytes or BYTES)
    if options.plan is None and options.scenario is None:
        from syncline.reordering import reorder

        return reorder(
            measured,
            algorithm=options.algorithm or "ring",
            nbytes=nbytes,
            order=names,
            seed=options.seed,
            proposals=options.proposals,
            limit_s=limit_s,
            progress=tell,
        )
    from syncline.reordering.jobs import all_reduce, plan_override, search_for
    from syncline.reordering.reorder import in_order
    from syncline.reordering.simulation import Simulation

    changes: dict[str, tuple[str, str | None]] = {"--rate": ("fabric.rate", options.rate)}
    given: str | dict[str, Any] = options.scenario or ""
    if options.plan is not None:
        given = all_reduce(options.plan, nbytes)
        changes["--plan"] = plan_override(options.plan)
    simulation = Simulation(in_order(measured, names), given, overrides(options.sets, changes))
    if options.plan is None:
        _check_slots(simulation.per_host, {options.slots} if options.slots else {*slots.values()} - {1})
    return search_for(simulation, seed=options.seed, proposals=options.proposals, limit_s=limit_s, progress=tell)


@contextmanager
def _advice() -> Iterator[None]:
    """Adds the options that remedy an error."""
    remedies = {
        "algorithm": "`--plan` takes any algorithm, by simulations",
        "fabric.rate": "no rates were measured; give the rate of each host's interface, such as `--rate 25Gb/s`",
    }
    try:
        yield
    except SynclineError as problem:
        told: list[Diagnostic] = []
        for each in problem.diagnostics:
            # A value that cannot be read has a place and a remedy of its own.
            remedy = None if "place" in each else remedies.get(each.get("key", ""))
            told.append({**each, "help": remedy} if remedy else each)
        raise SynclineError(told, problem.exit_status) from None


def _check_slots(npus: int, slots: set[int]) -> None:
    """Refuses slots that differ from the NPUs of each host: they would give ranks to other hosts."""
    if wrong := slots - {npus}:
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"the scenario has {counted(npus, 'rank')} on each host",
                key="slots",
                found=str(min(wrong)),
                allowed=str(npus),
                help="set `fabric.nodes.npus` of the scenario to the ranks of a host",
            )
        )


def _check_together(options: Options) -> None:
    """Refuses options that exclude each other or have no effect."""
    chosen = [
        flag
        for flag, value in (
            ("--algorithm", options.algorithm),
            ("--plan", options.plan),
            ("--scenario", options.scenario),
        )
        if value is not None
    ]
    if len(chosen) > 1:
        message = "an order is for one all-reduce or one job"
        raise_errors(error(Code.BAD_VALUE, message, key=chosen[1], found=" and ".join(chosen), help="keep one"))
    of_job, simulated = options.scenario is not None, options.scenario is not None or options.plan is not None
    for flag, useless, needs in (
        ("--bytes", options.bytes is not None and of_job, "the scenario has sizes of its own"),
        ("--set", bool(options.sets) and not of_job, "it changes a scenario: add --scenario"),
        ("--rate", options.rate is not None and not simulated, "it is for simulations: add --plan or --scenario"),
    ):
        if useless:
            raise_errors(error(Code.BAD_VALUE, f"`{flag}` has no effect", key=flag, help=needs))


def _check_files(files: list[tuple[Format, str]], options: Options, *, force: bool) -> None:
    """Refuses, before the search, files that could not be written after it."""
    paths = [path for _, path in files]
    if twice := next((path for at, path in enumerate(paths) if path in paths[:at]), None):
        raise_errors(error(Code.BAD_VALUE, "two files have one name", key="--write", found=shown(twice)))
    for path in paths:
        require_writable(path, force=force)
    if options.slots is not None and not any(form.has_slots for form, _ in files):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "`--slots` has no effect",
                key="--slots",
                found=f"{options.slots}",
                help="write a file that holds slots, such as --write openmpi=hostfile",
            )
        )


def _file(text: str) -> tuple[Format, str]:
    """Reads ``FORMAT=FILE``."""
    from syncline.reordering import Format

    name, equals, path = text.partition("=")
    mark = Mark(Text("--write", [text]), 1, 1, len(name))
    formats = [each.value for each in Format]
    if name not in formats or not equals or not path:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "not of the form FORMAT=FILE",
                mark=mark,
                found=shown(text),
                allowed=", ".join(formats),
                nearest=nearest(name, formats),
                help="write it like openmpi=hostfile",
            )
        )
    return Format(name), path
