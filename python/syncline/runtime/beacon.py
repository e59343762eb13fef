"""Keeps an elastic job findable in its rendezvous, for ranks that are started again.

Whichever rank coordinates the job answers ranks that appear, as rank 0 does while ranks meet
(:mod:`~syncline.runtime.rendezvous`), and shows every second that the job lives. A rank 0 that is started again looks
for that sign: it joins the running job, or begins a new one if there is none.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

from syncline.runtime.addresses import at_port
from syncline.runtime.rendezvous import BELL, Contact, answer, hello_of, value_of, wipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline import _core
    from syncline.runtime.rendezvous import Rendezvous

BEAT = "alive"
"""The key under which the coordinator's process shows that the job lives. Its value changes with every sign."""

BEAT_S = 1.0
"""Seconds between two signs of life."""

CLOSE_S = 5.0
"""The most seconds for which a rank that leaves waits for its rendezvous."""

LOOK_S = 0.2
"""Seconds between two looks at the rendezvous."""

_log = logging.getLogger("syncline")


def is_running(rendezvous: Rendezvous, silence_s: float) -> bool:
    """Returns whether a job shows signs of life. Waits for one only if a job has shown some before.

    After the coordinator's death there is none until another rank coordinates, which takes a few times ``silence_s``,
    the time after which silent ranks are lost.
    """
    before = value_of(rendezvous, BEAT)
    if not before:
        return False
    deadline = time.monotonic() + 5 * silence_s + 4 * BEAT_S
    while time.monotonic() < deadline:
        time.sleep(LOOK_S)
        if (now := value_of(rendezvous, BEAT)) != before:
            # A job that ends wipes its sign.
            return bool(now)
    return False


class Beacon:
    """A thread of a rank, which answers others while this rank coordinates the job."""

    def __init__(self, rendezvous: Rendezvous, rank: int, world: int, contact: Contact) -> None:
        """``contact`` is how this rank has joined. If it coordinates the job, others know its host by that name."""
        self._rendezvous = rendezvous
        self._rank = rank
        self._world = world
        self._contact = contact
        self._over = threading.Event()
        self._core: weakref.ref[_core.Communicator] = lambda: None  # type: ignore[assignment]
        self._thread: threading.Thread | None = None
        self._warned = False
        self._next_beat = 0.0
        self._rung = b""
        """The value of the bell at the last look."""
        self._answered: dict[int, bytes] = {}
        """Ranks that have been answered and have not joined yet, with the number that they gave."""

    def shine(self, core: _core.Communicator) -> None:
        """Answers for ``core``, the communicator of the current epoch, from now on."""
        self._core = weakref.ref(core)
        if self._own() is not None:
            # Once an epoch has begun, a rank 0 that starts does not begin another job.
            self._try(self._beat)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="syncline beacon", daemon=True)
            self._thread.start()

    def _own(self) -> Contact | None:
        """Returns how to join at this rank; ``None`` unless it coordinates the job."""
        core = self._core()
        addresses = None if core is None else core.coordinates_at()
        if addresses is None:
            return None
        address = addresses[0]
        if self._contact.rank == self._rank:
            address = at_port(self._contact.coordinator, int(address.rpartition(":")[2]))
        return replace(self._contact, coordinator=address, rank=self._rank)

    def _beat(self) -> None:
        self._rendezvous.publish(BEAT, secrets.token_hex(8).encode())
        self._next_beat = time.monotonic() + BEAT_S

    def _try(self, use: Callable[[], None]) -> None:
        """Uses the rendezvous. Stores may raise anything, and the job goes on without them: warns once."""
        try:
            use()
            self._warned = False
        except Exception as error:  # noqa: BLE001 - see above
            if not self._warned:
                _log.warning("Ranks that are started again cannot find the job: its rendezvous fails: %s", error)
            self._warned = True

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            own = self._own()
            if own is not None:
                self._try(lambda own=own: self._look(own))  # type: ignore[misc]

    def _look(self, own: Contact) -> None:
        if time.monotonic() >= self._next_beat:
            self._beat()
        if (rung := value_of(self._rendezvous, BELL)) != self._rung:
            self._answer(own)
            self._rung = rung
        self._wipe()

    def _answer(self, own: Contact) -> None:
        for rank in range(self._world):
            hello = b"" if rank == self._rank else hello_of(self._rendezvous, rank)
            if hello and hello != self._answered.get(rank):
                answer(self._rendezvous, rank, hello, own)
                self._answered[rank] = hello

    def _wipe(self) -> None:
        """Wipes answers, which contain the key, of ranks that have joined meanwhile."""
        for rank in [rank for rank in self._answered if not hello_of(self._rendezvous, rank)]:
            wipe(self._rendezvous, rank)
            del self._answered[rank]

    def close(self) -> None:
        """Ends the thread. Call it before the rank leaves.

        Wipes answers, which contain the key, and if this rank coordinates the job, the sign of life.
        """
        thread, self._thread = self._thread, None
        self._over.set()
        if thread is None:
            return
        thread.join(CLOSE_S)
        if thread.is_alive():
            return  # The rendezvous does not answer.
        for rank in self._answered:
            self._try(lambda rank=rank: wipe(self._rendezvous, rank))  # type: ignore[misc]
        if self._own() is not None:
            self._try(lambda: self._rendezvous.publish(BEAT, b""))
