"""How ranks find each other through something that they share: a store of keys and values.

Rank 0 listens at a port that is free and invents a key; both reach the others through the store. Every rank first says
that it is there, with a number that it has just invented, and takes only an answer to that number: what another group
of the same name has left in the store is passed over. Once a rank has joined, what it was told is wiped.

Whoever can read the store while ranks meet can join the job, and whoever can write to it can send them elsewhere.
"""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from syncline.errors import SynclineError

if TYPE_CHECKING:
    from types import TracebackType

PAUSE_S = 0.02
"""How long to wait before looking again."""

SELDOM = 25
"""Of how many looks one is for ranks that have been answered."""


class Rendezvous(Protocol):
    """What ranks share to find each other: values under keys."""

    def publish(self, key: str, value: bytes) -> None:
        """Puts a value under a key, in the place of what was there."""
        ...

    def fetch(self, key: str, timeout: float) -> bytes:
        """The value under a key, as soon as there is one. Raises ``TimeoutError`` after ``timeout`` seconds."""
        ...


def failure(message: str) -> SynclineError:
    """Members do not meet."""
    return SynclineError([{"code": "SL1201", "severity": "error", "message": message}], 6)


class Answers:
    """What rank 0 does while ranks meet: it tells whoever is there where the coordinator is, and the key."""

    def __init__(self, rendezvous: Rendezvous, world: int, key: bytes) -> None:
        self._rendezvous = rendezvous
        self._waiting = dict.fromkeys(range(1, world), b"")
        self._key = key
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.error: Exception | None = None

    def begin(self, address: str) -> None:
        """Answers from now on, on a thread of its own."""
        self._thread = threading.Thread(target=self._run, args=(address,), name="syncline rendezvous", daemon=True)
        self._thread.start()

    def _run(self, address: str) -> None:
        try:
            for turn in itertools.count():
                if self._over.is_set():
                    return
                for rank, before in self._waiting.items():
                    if before and turn % SELDOM:
                        continue
                    try:
                        hello = self._rendezvous.fetch(f"hello/{rank}", 0.0)
                    except TimeoutError:
                        continue
                    # A second hello is that of a rank that was started again, or the first was one of long ago.
                    if hello and hello != before:
                        answer = {"to": hello.decode(), "coordinator": address, "key": self._key.hex()}
                        self._rendezvous.publish(f"welcome/{rank}", json.dumps(answer).encode())
                        self._waiting[rank] = hello
                self._over.wait(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - stores raise what they like; it is told where ranks do not meet
            self.error = error

    def __enter__(self) -> Answers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if isinstance(raised, SynclineError) and self.error is not None:
            raise failure(f"rank 0 cannot tell others where it is: {self.error}") from self.error


def _answer(value: bytes) -> dict[str, Any]:
    """What rank 0 has said; nothing, where that cannot be read."""
    try:
        answer = json.loads(value)
        fit = len(bytes.fromhex(answer["key"])) == 32 and isinstance(answer["coordinator"], str)
    except (ValueError, KeyError, TypeError):
        return {}
    return dict(answer) if fit else {}


def look(rendezvous: Rendezvous, rank: int, wait_s: float) -> tuple[str, bytes]:
    """Where the coordinator is, and the key, for a rank other than 0.

    Raises ``SynclineError`` (SL1201) where rank 0 does not say so in time.
    """
    deadline = time.monotonic() + wait_s
    hello = secrets.token_hex(16)
    try:
        rendezvous.publish(f"hello/{rank}", hello.encode())
        while (left := deadline - time.monotonic()) > 0:
            answer = _answer(rendezvous.fetch(f"welcome/{rank}", left))
            if answer.get("to") == hello:
                return answer["coordinator"], bytes.fromhex(answer["key"])
            time.sleep(PAUSE_S)
    except TimeoutError:
        pass
    except SynclineError:
        raise
    except Exception as error:
        raise failure(f"rank {rank} cannot use the rendezvous: {error}") from error
    raise failure(f"rank 0 has not said within {wait_s:.0f} s where rank {rank} finds it")


def wipe(rendezvous: Rendezvous, rank: int) -> None:
    """Removes what a rank has said and was told: it holds the key."""
    for key in (f"hello/{rank}", f"welcome/{rank}"):
        rendezvous.publish(key, b"")
