"""Lets ranks find each other through a shared key-value store.

Rank 0 listens at a free port and makes up a secret key. The other ranks learn both from the store: each publishes a
random number, and accepts only an answer that repeats it. Ranks therefore ignore what an earlier group of the same name
left in the store. Once a rank has joined, it wipes its entries.

Anyone who can read the store while ranks meet can join the job. Anyone who can write to it can redirect ranks.
"""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.problem import error as diagnostic
from syncline.input.problem import exception

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

PAUSE_S = 0.02
"""Seconds between two looks at the store."""

BELL = "bell"
"""The key that a rank of an elastic job changes when it appears."""

SELDOM = 25
"""Rank 0 looks for new messages of ranks that it has answered only once in this many rounds."""


class Rendezvous(Protocol):
    """A key-value store through which ranks find each other."""

    def publish(self, key: str, value: bytes) -> None:
        """Stores a value under a key, and replaces any older value."""
        ...

    def fetch(self, key: str, timeout: float) -> bytes:
        """Waits for a value under a key and returns it. Raises ``TimeoutError`` after ``timeout`` seconds."""
        ...


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """How ranks find each other beyond the address of rank 0, and where this rank listens."""

    interfaces: Sequence[str] | None = None
    """This host's addresses (``SYNCLINE_ADDRESSES``, by default loopback only). Lanes use them in turn: each lane
    listens at its address and connects from it. Give ``ADDRESS@LISTEN`` if other hosts reach the interface at
    ``ADDRESS`` rather than at its own address ``LISTEN``."""
    ports: str | None = None
    """The ports at which this rank may listen (``SYNCLINE_PORTS``), such as ``29500-29599``."""
    listen: str | None = None
    """The address at which rank 0 listens for the others (``SYNCLINE_LISTEN``); by default, all
    addresses that the coordinator's name resolves to and that this host has."""
    announce: Callable[[str], None] | None = None
    """Rank 0 calls it with its address (``HOST:PORT``) if the coordinator's port is 0, which means any free port. The
    caller must pass the address on to the other ranks."""
    rendezvous: Rendezvous | None = None
    """A store through which rank 0 tells the other ranks its address. Unless a coordinator is given, this is an address
    of its first interface. Unless they use certificates, the ranks also share a new key, valid for this group only."""


def meeting_error(message: str) -> SynclineError:
    """Returns the error of ranks that cannot meet (SL1201)."""
    return exception(diagnostic(Code.NO_MEETING, message))


class Answers:
    """Rank 0's side of the rendezvous: sends every rank that appears the coordinator's address and the key."""

    def __init__(self, rendezvous: Rendezvous, world: int, key: bytes) -> None:
        self._rendezvous = rendezvous
        self._waiting = dict.fromkeys(range(1, world), b"")
        self._key = key
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.error: Exception | None = None

    def begin(self, address: str) -> None:
        """Starts a thread that answers with ``address`` until the context ends."""
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
                    hello = hello_of(self._rendezvous, rank)
                    # A second hello comes from a restarted rank, or the first was left by an earlier group.
                    if hello and hello != before:
                        answer(self._rendezvous, rank, hello, Contact(coordinator=address, rank=0, key=self._key))
                        self._waiting[rank] = hello
                self._over.wait(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - stores may raise anything; it is reported if ranks do not meet
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
            raise meeting_error(
                f"rank 0 cannot publish its address through the rendezvous: {self.error}"
            ) from self.error


@dataclass(frozen=True, kw_only=True)
class Contact:
    """What a rank needs to know to join."""

    coordinator: str
    """The coordinator's address."""
    rank: int
    """The rank in whose process the coordinator runs."""
    key: bytes
    """The key that all ranks of the job share."""


def value_of(rendezvous: Rendezvous, key: str) -> bytes:
    """Returns the value under a key; empty if there is none."""
    try:
        return rendezvous.fetch(key, 0.0)
    except TimeoutError:
        return b""


def hello_of(rendezvous: Rendezvous, rank: int) -> bytes:
    """Returns the random number that a rank has published when it appeared; empty if it has not, or has joined."""
    return value_of(rendezvous, f"hello/{rank}")


def answer(rendezvous: Rendezvous, rank: int, hello: bytes, contact: Contact) -> None:
    """Tells a rank that has appeared how to join."""
    told = {
        "to": hello.decode(errors="replace"),
        "coordinator": contact.coordinator,
        "rank": contact.rank,
        "key": contact.key.hex(),
    }
    rendezvous.publish(f"welcome/{rank}", json.dumps(told).encode())


def _contact_for(hello: str, value: bytes) -> Contact | None:
    """Reads an answer; returns ``None`` if it is malformed, or answers another process."""
    try:
        told = json.loads(value)
        contact = Contact(coordinator=told["coordinator"], rank=told["rank"], key=bytes.fromhex(told["key"]))
        fit = isinstance(contact.coordinator, str) and isinstance(contact.rank, int) and len(contact.key) == 32
    except (ValueError, KeyError, TypeError):
        return None
    return contact if fit and told.get("to") == hello else None


def look(rendezvous: Rendezvous, rank: int, wait_s: float, *, rings: bool) -> Contact:
    """Returns how to join, once the coordinator's process has answered. ``rings`` says that the job is elastic.

    Raises ``SynclineError`` (SL1201) if it does not answer within ``wait_s`` seconds.
    """
    deadline = time.monotonic() + wait_s
    hello = secrets.token_hex(16)
    try:
        rendezvous.publish(f"hello/{rank}", hello.encode())
        if rings:
            # In a job that runs, the coordinator looks for ranks only when this changes.
            rendezvous.publish(BELL, hello.encode())
        while (left := deadline - time.monotonic()) > 0:
            contact = _contact_for(hello, rendezvous.fetch(f"welcome/{rank}", left))
            if contact is not None:
                return contact
            time.sleep(PAUSE_S)
    except TimeoutError:
        pass
    except SynclineError:
        raise
    except Exception as error:
        raise meeting_error(f"rank {rank} cannot use the rendezvous: {error}") from error
    whose = "the coordinator" if rings else "rank 0"
    raise meeting_error(f"rank {rank} got no address of {whose} from the rendezvous within {wait_s:.0f} s")


def wipe(rendezvous: Rendezvous, rank: int) -> None:
    """Wipes a rank's entries in the store, because they contain the key."""
    for key in (f"hello/{rank}", f"welcome/{rank}"):
        rendezvous.publish(key, b"")
