"""``syncline hub``."""

from __future__ import annotations

import json
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.errors import ExitStatus
from syncline.input.problem import error, raise_errors
from syncline.quantity import counted
from syncline.terminal.streams import say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from syncline.hub import HubResources, Saves, Service
    from syncline.runtime import Security

FLOAT = 4
"""Bytes in one element of the vectors that the bench exchanges."""

MIN_SAVE_S = 0.1
"""Shortest interval between saves, in seconds."""

POLL_S = 0.1
"""Interval at which the hub's events and state are polled."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of ``syncline hub serve``, as the user gives them."""

    listen: Sequence[str]
    port: int
    cores: int | None
    pin: bool
    key_file: str | None
    tls: str | None
    insecure: bool
    congestion: str | None
    max_jobs: int
    memory: str | None
    metrics: str | None
    log_as_json: bool
    drain_s: float
    save: str | None
    save_every: str | None

    def security(self) -> Security:
        """How the hub and its ranks authenticate each other."""
        from syncline.runtime import Security

        return Security(key_file=self.key_file, tls=self.tls, insecure=self.insecure)

    def resources(self) -> HubResources:
        """What the hub uses of this machine. Raises :class:`SynclineError` if the memory is invalid or too small."""
        from syncline.hub import HubResources

        return HubResources(
            cores=self.cores,
            pin=self.pin,
            memory=None if self.memory is None else _memory(self.memory),
            max_jobs=self.max_jobs,
            congestion=self.congestion,
        )

    def saves(self) -> Saves | None:
        """Where the hub saves its jobs. Raises :class:`SynclineError` if the interval is invalid or has no folder."""
        from syncline.hub import Saves

        if self.save is None:
            if self.save_every is not None:
                remedy = "add --save FOLDER"
                message = "an interval between saves needs a folder"
                raise_errors(error(Code.BAD_VALUE, message, key="--save-every", found=self.save_every, help=remedy))
            return None
        return Saves(self.save) if self.save_every is None else Saves(self.save, _seconds(self.save_every))


def serve(options: ServeOptions) -> int:
    """Serves until SIGTERM or Ctrl-C; returns the exit status."""
    from syncline.hub import Service

    resources, security, saves = options.resources(), options.security(), options.saves()
    with Service(options.listen, port=options.port, security=security, resources=resources, saves=saves) as service:
        signals: list[int] = []
        renewed = threading.Event()

        def end(number: int, frame: FrameType | None) -> None:
            if signals and number == signal.SIGINT:
                raise KeyboardInterrupt
            signals.append(number)
            service.drain(options.drain_s)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        # Certificates are read again when their files change, and at this signal at the latest.
        signal.signal(signal.SIGHUP, lambda *_: renewed.set())
        log = _Log(as_json=options.log_as_json)
        if options.metrics is not None:
            from syncline.hub.metrics import serve as serve_metrics

            log.write({"event": "metrics", "address": serve_metrics(service, options.metrics)})
        addresses = service.addresses
        log.write({"event": "listening", "addresses": addresses, "cores": service.status()["cores"]})
        return _watch(service, log, signals, renewed)


def _memory(text: str) -> int:
    """Parses ``--memory``."""
    from syncline.hub.service import MIN_MEMORY

    memory = _bytes("--memory", text)
    if memory < MIN_MEMORY:
        allowed = f"at least {MIN_MEMORY // 1024} KiB"
        raise_errors(error(Code.BAD_VALUE, "too little memory for a hub", key="--memory", found=text, allowed=allowed))
    return memory


def _seconds(text: str) -> float:
    """Parses ``--save-every``."""
    key = "--save-every"
    try:
        every_s = int(_core.parse_quantity("time", text)) / 1e12
    except ValueError as problem:
        remedy = 'write it in seconds, such as "30s"'
        raise_errors(error(Code.BAD_UNIT, problem.args[0], key=key, found=text, help=remedy))
    if every_s < MIN_SAVE_S:
        message = "saves would follow each other too closely"
        raise_errors(error(Code.BAD_VALUE, message, key=key, found=text, allowed=f"at least {MIN_SAVE_S:g}s"))
    return every_s


def _watch(service: Service, log: _Log, signals: Sequence[int], renewed: threading.Event) -> int:
    """Logs events until the hub has ended; returns the exit status. ``signals`` holds those that ask it to end.

    ``renewed`` is set to read certificates again. The status is :attr:`ExitStatus.PEER` if the hub failed, or
    jobs were still running when the drain time ended.
    """
    from syncline.runtime import renewal

    is_draining = False
    while not service.ended:
        time.sleep(POLL_S)
        if renewed.is_set():
            renewed.clear()
            renewal.look()
        for event in service.events():
            log.write(event)
        status = service.status()
        if signals and not is_draining:
            is_draining = True
            log.write({"event": "draining", "jobs": [each["job"] for each in status["jobs"]]})
        if "failure" in status:
            log.write({"event": "failed", "why": status["failure"]})
            return ExitStatus.PEER
    for event in service.events():
        log.write(event)
    cut_off = service.status()["cut_off"]
    log.write({"event": "ended", "cut_off": cut_off})
    return ExitStatus.PEER if cut_off else ExitStatus.DONE


WORDS = {
    "listening": "hub listening at {addresses} with {cores}",
    "metrics": "metrics at http://{address}/metrics",
    "job_opened": "job {job} opened",
    "job_restored": "job {job} continues from its save {why}",
    "job_ended": "job {job} ended",
    "save_failed": "job {job} was not saved: {why}",
    "job_failed": "job {job} failed: {why}",
    "rank_joined": "job {job}: rank {rank} joined",
    "rank_left": "job {job}: rank {rank} left",
    "rank_lost": "job {job}: rank {rank} was lost: it {why}",
    "rank_refused": "job {job}: rank {rank} was refused: {why}",
    "connection_refused": "a connection from {from} was refused: {why} ({refused} so far)",
    "draining": "shutting down: refusing new jobs, waiting for {jobs}",
    "failed": "hub failed: {why}",
    "ended": "hub ended; {cut_off} cut off",
}
"""The text log's line for each event."""

COUNTED = {"cores": "core", "cut_off": "job"}
"""What the numbers in these lines count."""


class _Log:
    """The log on stderr, one event a line: as text, or as JSON with the time in seconds since 1970."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def write(self, event: dict[str, Any]) -> None:
        """Writes an event to the log."""
        if self._as_json:
            say(json.dumps({"time": round(time.time(), 3), **event}))
            return
        words = {key: ", ".join(each) or "none" if isinstance(each, list) else each for key, each in event.items()}
        words |= {key: counted(event[key], word) for key, word in COUNTED.items() if key in event}
        say(f"{time.strftime('%H:%M:%S')} {WORDS[event['event']].format(**words)}")


def status(address: str, key_file: str | None, tls: str | None, *, as_json: bool) -> int:
    """Prints a hub's state; returns the exit status."""
    from syncline.hub import status as ask
    from syncline.runtime import Security

    found = ask(address, security=Security(key_file=key_file, tls=tls))
    if as_json:
        show_json({"exit_status": 0, "hub": found})
        return 0
    from syncline.hub.screen import overview

    show(*overview(found))
    return 0


def save(address: str, key_file: str | None, tls: str | None, *, as_json: bool) -> int:
    """Lets a hub save its jobs; returns the exit status."""
    from syncline.hub import save as ask
    from syncline.runtime import Security

    found = ask(address, security=Security(key_file=key_file, tls=tls))
    if found is None:
        remedy = "start the hub with syncline hub serve --save FOLDER"
        raise_errors(error(Code.BAD_VALUE, "the hub has no folder for saves", found=address, help=remedy))
    status = ExitStatus.PEER if any(each["why"] for each in found) else ExitStatus.DONE
    if as_json:
        show_json({"exit_status": status, "jobs": found})
        return status
    for each in found:
        last = "has no save" if each["step"] is None else f"is saved after step {each['step']}"
        show(f"job {each['job']} {last}" + (f", and has no new save: {each['why']}" if each["why"] else ""))
    if not found:
        show("no jobs")
    return status


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of ``syncline hub bench``, as the user gives them."""

    address: str
    world: int
    size: str
    steps: int
    chunk: str
    key_file: str | None
    tls: str | None
    insecure: bool
    as_json: bool


def bench(options: BenchOptions) -> int:
    """Measures how fast a hub exchanges vectors; returns the exit status."""
    from syncline.hub.bench import run
    from syncline.runtime import Security

    nbytes, chunk = _bytes("--size", options.size), _bytes("--chunk", options.chunk)
    _require_measurable(options, nbytes, chunk)
    security = Security(key_file=options.key_file, tls=options.tls, insecure=options.insecure)
    found = run(options.address, options.world, nbytes, options.steps, chunk=chunk, security=security)
    if options.as_json:
        show_json({"exit_status": 0, **found.as_dict()})
        return 0
    show(found.text())
    return 0


def _require_measurable(options: BenchOptions, nbytes: int, chunk: int) -> None:
    """Raises :class:`SynclineError` if the vectors do not fit this machine's memory, or a hub allows no such chunks."""
    from syncline.hub.service import available_memory
    from syncline.hub.worker import CHUNKS, MAX_CHUNKS
    from syncline.quantity import size

    if nbytes < FLOAT or nbytes % FLOAT:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "the vector's elements are floats of 4 bytes",
                key="--size",
                found=options.size,
                allowed=f"a multiple of {FLOAT}B",
            )
        )
    if options.world * nbytes > (memory := available_memory()):
        ranks = counted(options.world, "rank")
        allowed = f"{size(memory)} for the vectors of {ranks}, which are all in this process"
        message = "this machine has too little memory"
        raise_errors(error(Code.BAD_VALUE, message, key="--size", found=options.size, allowed=allowed))
    if chunk not in CHUNKS:
        allowed = f"{size(CHUNKS[0])} to {size(CHUNKS[-1])}"
        message = "not a valid size for chunks"
        raise_errors(error(Code.BAD_VALUE, message, key="--chunk", found=options.chunk, allowed=allowed))
    if (chunks := -(-nbytes // chunk)) > MAX_CHUNKS:
        allowed = f"at most {MAX_CHUNKS} chunks; this size makes {chunks}"
        raise_errors(error(Code.BAD_VALUE, "too many chunks", key="--chunk", found=options.chunk, allowed=allowed))


def _bytes(option: str, text: str) -> int:
    """Parses a size such as ``25MB``."""
    try:
        return int(_core.parse_quantity("bytes", text))
    except ValueError as problem:
        message, remedy = problem.args
        raise_errors(error(Code.BAD_UNIT, message, key=option, found=text, help=remedy))


def doctor(
    address: str | None, listen: str | None, port: int, key_file: str | None, tls: str | None, *, as_json: bool
) -> int:
    """Checks what a hub needs; returns the exit status."""
    from syncline.cli.commands.doctor import report
    from syncline.hub.doctor import findings

    found = findings(address, None if listen is None else listen.split(","), port, key_file, tls)
    return report(found, as_json=as_json)


def certs(folder: str, job: str | None, ranks: int, days: int, *, force: bool, as_json: bool) -> int:
    """Makes certificates for hubs and ranks; returns the exit status."""
    from syncline.hub.certificates import make

    made = make(folder, job=job, ranks=ranks, days=days, force=force)
    if as_json:
        show_json({"exit_status": 0, "certificates": made.as_dict()})
        return 0
    show(made.text())
    return 0
