"""``syncline probe``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.cli.commands.options import seconds
from syncline.codes import Code
from syncline.errors import ExitStatus, SynclineError
from syncline.input.problem import error, raise_errors, require_writable
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import console, print_diagnostics, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.distances.hosts import Host
    from syncline.probing.budget import Wanted
    from syncline.probing.outcome import Outcome
    from syncline.probing.rounds import MakeSchedule


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """Options of ``syncline probe``, as the user gives them."""

    names: Sequence[str]
    hosts: str | None
    launch: str | None
    job: bool
    rtt: bool
    rate: bool
    sampled: bool
    samples: int | None
    budget: str | None
    out: str
    force: bool
    seed: int
    port: int
    allow_missing: bool
    key_file: str | None
    tls: str | None
    insecure: bool
    as_json: bool
    quiet: bool

    def wanted(self) -> Wanted:
        """What to measure. Raises :class:`SynclineError` if a number is out of range."""
        from syncline.probing.budget import Wanted

        budget_s = None if self.budget is None else seconds("--budget", self.budget)
        return Wanted(rtt=self.rtt, rate=self.rate, samples=self.samples, budget_s=budget_s)

    def schedule(self) -> MakeSchedule:
        """Which pairs to measure."""
        from syncline.probing.rounds import full, sampled

        return sampled(self.seed) if self.sampled else full

    def listed(self) -> list[Host]:
        """The hosts to probe. Raises :class:`SynclineError` if they are not valid."""
        from syncline.distances.hosts import named, read_hosts

        if self.hosts is not None and self.names:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "hosts are given twice",
                    key="--hosts",
                    found=f"{self.names[0]} and --hosts {self.hosts}",
                    allowed="names, or a file",
                )
            )
        return named(self.names) if self.hosts is None else read_hosts(self.hosts)


def probe(options: ProbeOptions) -> int:
    """Probes hosts or ranks, writes the file and prints a summary; returns the exit status."""
    wanted = options.wanted()
    if options.sampled and not options.rtt:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "a sampled schedule follows round trips",
                key="--what",
                found="rate",
                allowed="rtt, both",
                help="--what both; or --schedule full",
            )
        )
    if options.samples is not None and not options.rtt:
        help = "rates take as many transfers as fit into the budget"
        raise_errors(error(Code.BAD_VALUE, "`--samples` needs round trips", key="--samples", help=help))
    if options.seed and not options.sampled:
        raise_errors(error(Code.BAD_VALUE, "`--seed` needs `--schedule sampled`", key="--seed", help="leave it out"))
    return _of_job(options, wanted) if options.job else _of_hosts(options, wanted)


def _of_hosts(options: ProbeOptions, wanted: Wanted) -> int:
    from syncline.probing.coordinator import probe as call
    from syncline.probing.launching import DEFAULT, Launch

    for name, value in (("--key-file", options.key_file), ("--tls", options.tls), ("--insecure", options.insecure)):
        if value:
            raise_errors(
                error(Code.BAD_VALUE, f"`{name}` needs `--job`", key=name, help="agents make their own secret")
            )
    hosts = options.listed()
    launch = Launch.parse(options.launch or DEFAULT)
    _require_writable(options)
    with Waiting(quiet=options.quiet or options.as_json) as progress:
        outcome = call(hosts, launch, options.schedule(), wanted, port=options.port, tell=progress)
    return _report(outcome, options)


def _of_job(options: ProbeOptions, wanted: Wanted) -> int:
    from syncline.probing.job import probe as call
    from syncline.runtime import Communicator, Meeting, Security
    from syncline.runtime.addresses import setting

    port = options.port or None
    for name, value in (
        ("HOSTS", options.names),
        ("--hosts", options.hosts),
        ("--launch", options.launch),
        ("--port", port),
    ):
        if value:
            raise_errors(
                error(Code.BAD_VALUE, f"`{name}` and `--job` exclude each other", key=name, help="a job has its ranks")
            )
    if setting(os.environ, "RANK", None) == 0:
        _require_writable(options)
    security = Security(key_file=options.key_file, tls=options.tls, insecure=options.insecure)
    with Communicator.join(job="syncline-probe", meeting=Meeting(interfaces=_interfaces()), security=security) as ranks:
        if ranks.world < 2:
            raise_errors(error(Code.BAD_DISTANCES, "a probe needs at least 2 ranks", key="WORLD_SIZE", found="1 rank"))
        quiet = options.quiet or options.as_json or ranks.rank != 0
        with Waiting(quiet=quiet) as progress:
            outcome = call(ranks, options.schedule(), wanted, tell=progress)
        if ranks.rank == 0:
            return _report(outcome, options)
    return ExitStatus.INTERRUPTED if outcome.interrupted else ExitStatus.DONE


def _interfaces() -> list[str] | None:
    """The address from which this host reaches rank 0; None if the environment gives addresses, or only loopback."""
    from syncline.runtime.addresses import toward

    address = os.environ.get("MASTER_ADDR", "")
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and ":" not in host:
        address = host
    own = toward(address) if address and "SYNCLINE_ADDRESSES" not in os.environ else None
    return None if own is None else [own]


def _report(outcome: Outcome, options: ProbeOptions) -> int:
    """Writes the file and prints the summary; returns the exit status."""
    from syncline.distances import save
    from syncline.probing import screen

    status = _status(outcome, allow_missing=options.allow_missing)
    unsaved: SynclineError | None = None
    try:
        save(outcome.measured, options.out)
    except SynclineError as problem:
        # Show the measurements even though they could not be saved.
        unsaved, status = problem, ExitStatus(problem.exit_status)
    if options.as_json:
        diagnostics = [] if unsaved is None else unsaved.diagnostics
        file = options.out if unsaved is None else None
        show_json({"exit_status": status, "file": file, **outcome.as_dict(), "diagnostics": diagnostics})
    else:
        show(*screen.summary(outcome, console().width))
        for line in screen.problems(outcome):
            say(line)
    if unsaved is not None:
        print_diagnostics(unsaved.diagnostics)
    elif not options.quiet and not options.as_json:
        say(f"Measurements are in {options.out}")
        for line in screen.next_steps(options.out):
            say(line)
    return status


def _status(outcome: Outcome, *, allow_missing: bool) -> ExitStatus:
    if outcome.interrupted:
        return ExitStatus.INTERRUPTED
    if (outcome.hosts or outcome.pairs) and not allow_missing:
        return ExitStatus.PEER
    return ExitStatus.LIMIT if outcome.limited else ExitStatus.DONE


def _require_writable(options: ProbeOptions) -> None:
    """Raises :class:`SynclineError` if the file could not be written after the probe."""
    path = Path(options.out)
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise_errors(
            error(
                Code.BAD_VALUE, "not a file of measurements", key="--out", found=options.out, allowed="*.parquet, *.csv"
            )
        )
    require_writable(path, force=options.force)
