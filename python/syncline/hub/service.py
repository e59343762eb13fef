"""A hub that serves."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from syncline import _core
from syncline.runtime import congestions, trust
from syncline.runtime.addresses import resolve, with_port
from syncline.runtime.memory import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.runtime.trust import Certificates

MOST_CORES = 256
"""Cores that a hub may have."""

PORT = 29_420
"""Where a hub listens, unless told otherwise."""


LEAST_MEMORY = 1 << 16
"""Least bytes of memory for jobs: a job of one small chunk, a rank and a core."""


def available_memory() -> int:
    """Bytes of the machine's memory, or of the control group's where that has less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int(file.read_text("ascii")))
    return found


class Service:
    """A hub that serves, until it is closed."""

    def __init__(
        self,
        listen: Sequence[str] = ("127.0.0.1",),
        *,
        port: int = PORT,
        cores: int | None = None,
        pin: bool = False,
        key_file: str | Path | None = None,
        tls: Certificates | str | Path | None = None,
        insecure: bool = False,
        congestion: str | None = None,
        most_jobs: int = 64,
        memory: int | None = None,
        ahead: int = 64 << 20,
        interval_s: float = 0.4,
        silence_s: float = 1.5,
    ) -> None:
        """Begins to serve at ``listen``, an address of each interface, at ``port`` unless it names one (0: any).

        ``cores`` threads sum, each with the chunks of its own (as many as this machine has; core ``c`` is reached
        through interface ``c mod interfaces``). With ``pin`` each has a CPU of its own: on a host that only serves.
        Jobs together take at most ``memory`` bytes (half of the machine's, without it), and those that need more are
        refused: three times their vectors (in order, twice each rank's and once more), what optimizers remember, with
        policy ``wait`` once more, and for each rank at each core four chunks. A rank may be up to ``ahead`` bytes
        ahead of others at a core, and as many behind with what it reads; it is less where the memory that is left
        allows less. Whoever gives no sign of life for ``silence_s`` is lost.

        Beyond this machine hub and workers show each other certificates of the job's CA (``tls``: a folder that
        ``syncline hub certs`` made, or :class:`~syncline.runtime.Certificates`), or prove that they share the key in
        ``key_file``, or the user says that it is ``insecure``.

        Raises ``SynclineError`` where an address cannot be had, or what is given is invalid.
        """
        congestions.check(congestion)
        if memory is not None and memory < LEAST_MEMORY:
            raise refusal("a hub needs memory for jobs", f"memory={memory}", f"at least {LEAST_MEMORY} bytes")
        found = [resolve(each, port) for each in listen]
        key = trust.secret(key_file, tls, names=("hub",))
        trust.check([host for host, _ in found], key, insecure=insecure)
        plan = {
            "interfaces": [with_port(host, port) for host, port in found],
            "cores": max(min(os.cpu_count() or 1, MOST_CORES), len(found)) if cores is None else cores,
            "pin": pin,
            "ahead": ahead,
            "most_jobs": most_jobs,
            "memory": available_memory() // 2 if memory is None else memory,
            "congestion": congestion,
            "interval_s": interval_s,
            "silence_s": silence_s,
        }
        try:
            self._core = _core.HubService.open(json.dumps(plan, allow_nan=False), key)
        except ValueError as error:
            raise refusal("what the hub is told is invalid", str(error), "see syncline.hub.Service") from None

    @property
    def addresses(self) -> list[str]:
        """Where it listens, by interface."""
        return self._core.addresses()

    def status(self) -> dict[str, Any]:
        """How it is: its jobs, their ranks, bytes by core."""
        text = self._core.status()
        return {} if text is None else dict(json.loads(text))

    def events(self) -> list[dict[str, Any]]:
        """What has happened since it was asked last: jobs that begin and end, ranks that come, leave and are lost."""
        return list(json.loads(self._core.events()))

    def drain(self, seconds: float = 30.0) -> None:
        """Takes no new jobs, and ends once there are none, or after ``seconds``."""
        self._core.drain(seconds)

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._core.ended()

    def close(self) -> None:
        """Ends at once."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def status(
    address: str,
    *,
    key_file: str | Path | None = None,
    tls: Certificates | str | Path | None = None,
    wait_s: float = 5.0,
) -> dict[str, Any]:
    """How a hub elsewhere is.

    Raises ``SynclineError`` (SL1201, exit status 6) where it does not say.
    """
    host, port = resolve(address, PORT)
    key = trust.secret(key_file, tls, names=("rank", "rank-0", "hub"))
    return dict(json.loads(_core.hub_status(with_port(host, port), wait_s, key)))
