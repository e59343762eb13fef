"""Runs a hub; reads the status of hubs elsewhere, and asks them to save."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from syncline import _core
from syncline.input.problem import bad_value
from syncline.runtime import congestion_control
from syncline.runtime.addresses import resolve, with_port
from syncline.runtime.security import Security

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.hub.saves import Saves

MAX_CORES = 256
"""Maximum number of cores of a hub."""

PORT = 29_420
"""Default port of a hub."""


MIN_MEMORY = 1 << 16
"""Minimum bytes of memory for jobs: enough for a job of one small chunk, one rank and one core."""


def available_memory() -> int:
    """Returns the bytes of memory of this machine, or the limit of the control group if that is lower."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int(file.read_text("ascii")))
    return found


@dataclass(frozen=True, kw_only=True)
class HubResources:
    """Resources that a hub uses: threads, memory, CPUs."""

    cores: int | None = None
    """Threads that sum, by default one for each CPU. Each owns some of the chunks; workers reach core ``c`` through
    interface ``c mod interfaces``."""
    pin: bool = False
    """Whether each of these threads gets a CPU to itself; for hosts that run nothing but the hub."""
    memory: int | None = None
    """Bytes that all jobs together may take, by default half of this machine's memory; the hub refuses jobs that need
    more. A job needs three times the size of its vectors (with ``in_order``, ``1 + 2 * ranks`` times), once more with
    policy ``wait``, once more if the hub saves it, twice more with hubs in several racks; plus the state of its
    optimizers (twice if the hub saves it), and four chunks for each rank at each core."""
    ahead: int = 64 << 20
    """Bytes that a rank may be ahead of the others at a core, and behind in reading results; both limits are lower when
    less memory is left."""
    max_jobs: int = 64
    """Maximum number of jobs at once."""
    congestion: str | None = None
    """TCP's congestion control, such as ``cubic``; by default the system's."""

    def as_dict(self, interfaces: int) -> dict[str, Any]:
        """Returns the resources of a hub with this number of interfaces as data for the core."""
        return {
            **asdict(self),
            "cores": max(min(os.cpu_count() or 1, MAX_CORES), interfaces) if self.cores is None else self.cores,
            "memory": available_memory() // 2 if self.memory is None else self.memory,
        }


class Service:
    """A hub that runs in this process until it is closed."""

    def __init__(
        self,
        listen: Sequence[str] = ("127.0.0.1",),
        *,
        port: int = PORT,
        security: Security | None = None,
        resources: HubResources | None = None,
        saves: Saves | None = None,
        interval_s: float = 0.4,
        silence_s: float = 1.5,
    ) -> None:
        """Starts the hub. It listens at each address in ``listen``, one address for each interface.

        An address without a port gets ``port``; port 0 takes any free one.

        ``resources`` are what the hub uses of its machine. With ``saves`` it saves its jobs, and continues jobs that
        it has saved before. The hub sends a heartbeat every ``interval_s``; a rank
        that is silent for ``silence_s`` is lost. To listen beyond this machine, the hub needs certificates or a key, or
        the user's word that neither is needed: ``security``.

        Raises ``SynclineError`` if the hub cannot listen at an address, or an argument is invalid.
        """
        security, resources = security or Security(), resources or HubResources()
        congestion_control.check(resources.congestion)
        if resources.memory is not None and resources.memory < MIN_MEMORY:
            found_memory = f"memory={resources.memory}"
            raise bad_value("too little memory for a hub", found_memory, allowed=f"at least {MIN_MEMORY} bytes")
        found = [resolve(each, port) for each in listen]
        key = security.secret(("hub",))
        security.check([host for host, _ in found], key)
        arguments = {
            "interfaces": [with_port(host, port) for host, port in found],
            **resources.as_dict(len(found)),
            "saves": None if saves is None else saves.as_dict(),
            "interval_s": interval_s,
            "silence_s": silence_s,
        }
        try:
            self._core = _core.HubService.open(json.dumps(arguments, allow_nan=False), key)
        except ValueError as error:
            raise bad_value(
                "invalid arguments for a hub", str(error), help="syncline.hub.Service describes its arguments"
            ) from None

    @property
    def addresses(self) -> list[str]:
        """The addresses at which the hub listens, one for each interface."""
        return self._core.addresses()

    def status(self) -> dict[str, Any]:
        """Returns the hub's status: its jobs, their ranks, and bytes by core. Empty once the hub has ended."""
        text = self._core.status()
        return {} if text is None else dict(json.loads(text))

    def events(self) -> list[dict[str, Any]]:
        """Returns the events since the last call: jobs that begin and end, ranks that join, leave and are lost."""
        return list(json.loads(self._core.events()))

    def drain(self, seconds: float = 30.0) -> None:
        """Refuses new jobs from now on, and ends the hub once it has no jobs, or after ``seconds``."""
        self._core.drain(seconds)

    @property
    def ended(self) -> bool:
        """Whether the hub has ended."""
        return self._core.ended()

    def close(self) -> None:
        """Ends the hub at once."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def status(
    address: str,
    *,
    security: Security | None = None,
    wait_s: float = 5.0,
) -> dict[str, Any]:
    """Returns the status of the hub at ``address``.

    Raises ``SynclineError`` (SL1201, exit status 6) if the hub does not answer within ``wait_s`` seconds.
    """
    host, port = resolve(address, PORT)
    key = (security or Security()).secret(("rank", "rank-0", "hub"))
    return dict(json.loads(_core.hub_status(with_port(host, port), wait_s, key)))


def save(address: str, *, security: Security | None = None, wait_s: float = 30.0) -> list[dict[str, Any]] | None:
    """Asks the hub at ``address`` to save its jobs, and waits for it.

    Returns for each job: its name (``job``), the step of its last save (``step``), and why there is no new one
    (``why``), both ``None`` if there is nothing to say. Returns ``None`` if the hub has no folder for saves.

    Raises ``SynclineError`` (SL1201, exit status 6) if the hub does not answer within ``wait_s`` seconds.
    """
    host, port = resolve(address, PORT)
    key = (security or Security()).secret(("rank", "rank-0", "hub"))
    found: list[dict[str, Any]] | None = json.loads(_core.hub_save(with_port(host, port), wait_s, key))
    return found
