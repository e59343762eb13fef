"""Messages between two ranks: each is matched by its sender and its tag with whoever waits for it.

Plans move what all ranks know of; this is for the rest: sends and receives, and collectives whose blocks differ in
size. A rank connects to another when it first sends to it, with the handshake that lanes have. The sender offers a
message; once the receiver waits for one of that tag it asks for it, and the bytes go from the sender's memory to the
receiver's, so nothing is kept in between. Small messages of applications are sent at once, and kept until somebody
waits for them, as long as they are few. Connections are served by one thread.

Frames have a header (kind, number of the message, its space and tag, bytes) that may be followed by bytes. Messages of
applications are in space 0; every other space is one collective, whose tag says which kind.
"""

from __future__ import annotations

import collections
import contextlib
import os
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from syncline import _core
from syncline.errors import SynclineError
from syncline.runtime import completions

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.runtime.completions import Callback
    from syncline.runtime.memory import Memory

HEADER = struct.Struct("<BIQqQ")
"""Kind, space, number, tag, bytes: little-endian."""

GLANCE_S = 0.2
"""How often deadlines and peers are looked after."""

LONGEST_TEXT = 4096
"""Most bytes of a text in a frame."""

MOST_STRANGERS = 64
"""Most handshakes at once with whoever connects."""

HANDSHAKE_S = 5.0
"""How long a handshake may take, once it has begun."""

SMALL = 64 << 10
"""Most bytes of a message that is sent before it is asked for."""

KEPT = 1 << 20
"""Most bytes of such messages that a receiver keeps for a sender."""

PIECE = 1 << 20
"""Most bytes that are moved at once."""


class Kind(IntEnum):
    """Kinds of frames."""

    OFFER = 1
    """There is a message of so many bytes."""
    ASK = 2
    """Its receiver waits for it."""
    DATA = 3
    """The message; its bytes follow."""
    REFUSE = 4
    """Its receiver waits for something else; why follows."""
    FAIL = 5
    """A collective has failed; why follows."""
    SMALL = 6
    """A message that nobody has asked for; its bytes follow."""
    TAKEN = 7
    """Such a message of so many bytes is not kept any more."""


class RefusedError(Exception):
    """A connection that cannot be believed, or is over; says why."""


def _error(message: str) -> SynclineError:
    return SynclineError([{"code": "SL1202", "severity": "error", "message": message}], 6)


def _told(fault: SynclineError | None, transfer: Transfer, otherwise: str) -> SynclineError:
    """What ended a message: what the whole group was told, if it was."""
    why = fault.diagnostics[0]["message"] if fault else otherwise
    return _error(f"{why} ({transfer})")


class Transfer:
    """A message on its way: a send or a receive. Its memory may not be touched until it is over."""

    def __init__(self, messenger: Messenger, what: str, peer: int | None, space: int, tag: int, memory: Memory) -> None:
        self.messenger = messenger
        self.what = what
        self.peer = peer
        self.space = space
        self.tag = tag
        self.memory: Memory | None = memory
        self.nbytes = memory.nbytes
        self.began = time.monotonic()
        self.error: SynclineError | None = None
        self.moving = False
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callback] = []

    def __str__(self) -> str:
        whom = "any rank" if self.peer is None else f"rank {self.peer}"
        direction = "to" if self.what == "send" else "from"
        tag = f", tag {self.tag}" if self.space == 0 else ""
        return f"{self.what} of {self.nbytes} bytes {direction} {whom}{tag}, after {self.elapsed():.3f} s"

    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    def done(self) -> bool:
        """Whether it is over."""
        return self._over.is_set()

    def end(self, error: SynclineError | None) -> None:
        """It is over. Only the first end counts."""
        with self._lock:
            if self._over.is_set():
                return
            self.error = error
            self.memory = None
            self._over.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            completions.call(callback, error)

    def then(self, callback: Callback) -> None:
        """Has ``callback`` called once it is over, with its error if it has one, on the thread that moves messages."""
        with self._lock:
            if not self._over.is_set():
                self._callbacks.append(callback)
                return
        completions.call(callback, self.error)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it is over, ``seconds`` at most, and says whether it is. Raises what went wrong."""
        if not self._over.wait(seconds):
            return False
        if self.error is not None:
            raise self.error
        return True


@dataclass(eq=False)
class Connection:
    """A connection, in one direction for messages and in both for what is said about them."""

    stream: socket.socket
    handshake: _core.Handshake
    peer: int | None
    """With whom; unknown until whoever connected has shown who it is."""
    outgoing: bool
    began: float = field(default_factory=time.monotonic)
    connecting: bool = False
    known: bool = False
    out: collections.deque[memoryview] = field(default_factory=collections.deque)
    """What is to be written."""
    leaving: collections.deque[tuple[int, Transfer, Memory | None]] = field(default_factory=collections.deque)
    """How many bytes are to be written until a send is over, one after the other; its memory lives until then."""
    header: bytearray = field(default_factory=bytearray)
    into: memoryview | None = None
    """Where the bytes go that follow a header, as far as they are still to come."""
    reading: Transfer | None = None
    """The message that these bytes are of, if they are of one."""
    then: Callable[[], None] | None = None
    """What is to be done once they have come."""
    sends: dict[int, Transfer] = field(default_factory=dict)
    """Messages that were offered here, by number."""
    receives: dict[int, Transfer] = field(default_factory=dict)
    """Messages that were asked for here, by number."""
    kept: int = 0
    """Bytes of small messages that the receiver keeps."""


@dataclass
class Offer:
    """A message that nobody waits for yet."""

    connection: Connection
    number: int
    space: int
    tag: int
    nbytes: int
    content: bytearray | None = None
    """The message itself, where it has been sent already."""


class Messenger:
    """Sends and receives messages, once it has met the others."""

    def __init__(
        self,
        rank: int,
        world: int,
        *,
        job: str,
        key: bytes | None,
        interface: str,
        deadline_s: float,
        fault: Callable[[], SynclineError | None],
        names: Callable[[int], str] = str,
    ) -> None:
        self.rank = rank
        self.world = world
        self._job = f"{job}, messages"
        self._key = key
        self._deadline_s = deadline_s
        self._fault = fault
        self._names = names
        family = socket.AF_INET6 if ":" in interface else socket.AF_INET
        self._listener = socket.create_server((interface, 0), family=family, backlog=1024)
        self._listener.settimeout(0)
        self.port = int(self._listener.getsockname()[1])
        self._addresses: list[tuple[str, int]] = []
        self._lock = threading.Lock()
        self._wanted: collections.deque[Transfer] = collections.deque()
        self._failing: collections.deque[tuple[int, SynclineError]] = collections.deque()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._closed = False
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ring, False)
        # The thread's own, from here on.
        self._selector = selectors.DefaultSelector()
        self._out: dict[int, Connection] = {}
        self._in: dict[int, Connection] = {}
        self._strangers: list[Connection] = []
        self._waiting: list[Transfer] = []
        self._offers: list[Offer] = []
        self._failed: dict[int, SynclineError] = {}
        self._number = 0

    def meet(self, addresses: list[tuple[str, int]]) -> None:
        """Where each rank listens. From now on messages are sent, and taken from others."""
        self._addresses = addresses
        self._thread = threading.Thread(target=self._run, name="syncline messages", daemon=True)
        self._thread.start()

    def send(self, memory: Memory, to: int, tag: int, *, space: int = 0) -> Transfer:
        """Sends what is in ``memory`` to a rank."""
        return self._want(Transfer(self, "send", to, space, tag, memory))

    def receive(self, memory: Memory, source: int | None, tag: int, *, space: int = 0) -> Transfer:
        """Receives a message of a rank, or of any (``Transfer.peer`` says of which, then)."""
        return self._want(Transfer(self, "recv", source, space, tag, memory))

    def fail(self, space: int, error: SynclineError) -> None:
        """Ends a collective, here and on all ranks that are connected."""
        with self._lock:
            self._failing.append((space, error))
        self._wake()

    def close(self) -> None:
        """Ends what is under way, with an error."""
        with self._lock:
            self._closing, closed = True, self._closed
        if self._thread is None:
            self._shut()
        elif not closed:
            self._wake()
            self._thread.join(5)

    def _want(self, transfer: Transfer) -> Transfer:
        with self._lock:
            closing = self._closing
            if not closing:
                self._wanted.append(transfer)
        if closing:
            transfer.end(_error(f"the group is closed ({transfer})"))
        else:
            self._wake()
        return transfer

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._ring, b"!")

    # What follows runs on the thread.

    def _run(self) -> None:
        try:
            self._selector.register(self._listener, selectors.EVENT_READ, None)
            self._selector.register(self._bell, selectors.EVENT_READ, None)
            looked = time.monotonic()
            while True:
                # Where nothing is under way there is nothing to look after.
                busy = self._waiting or self._connections()
                for key, events in self._selector.select(GLANCE_S if busy else None):
                    if isinstance(key.data, Connection):
                        self._serve(key.data, events)
                    elif key.fd == self._bell:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self._bell, 4096)
                    else:
                        self._accept()
                with self._lock:
                    wanted, self._wanted = self._wanted, collections.deque()
                    failing, self._failing = self._failing, collections.deque()
                    if self._closing:
                        self._waiting.extend(wanted)
                        break
                for transfer in wanted:
                    self._begin(transfer)
                for space, error in failing:
                    self._fail_space(space, error)
                if time.monotonic() - looked > GLANCE_S:
                    looked = time.monotonic()
                    self._look()
        finally:
            self._shut()

    def _shut(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = self._closing = True
            left = [*self._wanted, *self._waiting]
        for connection in self._connections():
            left += [*connection.sends.values(), *connection.receives.values()]
            connection.stream.close()
        for transfer in left:
            transfer.end(_error(f"the group was closed ({transfer})"))
        self._listener.close()
        self._selector.close()
        os.close(self._bell)
        os.close(self._ring)

    def _connections(self) -> list[Connection]:
        return [*self._out.values(), *self._in.values(), *self._strangers]

    def _begin(self, transfer: Transfer) -> None:
        if (failed := self._failed.get(transfer.space)) is not None:
            transfer.end(failed)
            return
        if transfer.what == "recv":
            self._waiting.append(transfer)
            self._match()
            return
        peer = transfer.peer
        if peer is None or not 0 <= peer < self.world or peer == self.rank:
            transfer.end(_error(f"there is no such rank to send to ({transfer})"))
            return
        self._number += 1
        try:
            connection = self._out.get(peer) or self._connect(peer)
        except OSError as error:
            transfer.end(_error(f"rank {self._names(peer)} cannot be reached: {error} ({transfer})"))
            return
        if transfer.space == 0 and transfer.nbytes <= min(SMALL, KEPT - connection.kept):
            connection.kept += transfer.nbytes
            self._say(connection, Kind.SMALL, 0, self._number, transfer.tag, transfer.nbytes, transfer)
            return
        connection.sends[self._number] = transfer
        self._say(connection, Kind.OFFER, transfer.space, self._number, transfer.tag, transfer.nbytes)

    def _connect(self, peer: int) -> Connection:
        host, port = self._addresses[peer]
        stream = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        stream.settimeout(0)
        handshake = _core.Handshake.connect(self._key, self._job, self.rank, peer)
        connection = Connection(stream, handshake, peer, outgoing=True, connecting=True)
        with contextlib.suppress(BlockingIOError):
            stream.connect((host, port))
        self._selector.register(stream, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
        self._out[peer] = connection
        # Frames wait behind the handshake: see `_serve`.
        return connection

    def _accept(self) -> None:
        # Where the system gives no more files, those who wait outside do so a little longer.
        with contextlib.suppress(OSError):
            for _ in range(MOST_STRANGERS):
                stream, _ = self._listener.accept()
                stream.settimeout(0)
                if len(self._strangers) >= MOST_STRANGERS:
                    self._drop(self._strangers[0], RefusedError("made room"))
                handshake = _core.Handshake.accept(self._key, self._job, self.rank, self.world)
                connection = Connection(stream, handshake, None, outgoing=False)
                self._strangers.append(connection)
                self._selector.register(stream, selectors.EVENT_READ, connection)

    def _serve(self, connection: Connection, events: int) -> None:
        try:
            if connection.connecting and events & selectors.EVENT_WRITE:
                self._connected(connection)
            if events & selectors.EVENT_READ:
                self._read(connection)
            if events & selectors.EVENT_WRITE:
                self._write(connection)
        except BlockingIOError:
            pass
        except (OSError, RefusedError) as error:
            self._drop(connection, error)

    def _connected(self, connection: Connection) -> None:
        code = connection.stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise RefusedError(os.strerror(code))
        connection.connecting = False
        connection.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.stream.sendall(connection.handshake.first())

    def _read(self, connection: Connection) -> None:
        if not connection.known:
            self._greet(connection)
            return
        for _ in range(64):
            try:
                self._take(connection)
            except BlockingIOError:
                return

    def _greet(self, connection: Connection) -> None:
        handshake = connection.handshake
        came = connection.stream.recv(max(handshake.wants(), 1))
        if not came:
            raise RefusedError("closed its connection in the handshake")
        answer, done, why = handshake.received(came)
        if answer:
            # A few hundred bytes on a connection that has said nothing else.
            connection.stream.sendall(answer)
        if why is not None:
            raise RefusedError(why)
        if not done:
            return
        connection.known = True
        if not connection.outgoing:
            peer = handshake.peer()
            self._strangers.remove(connection)
            if peer in self._in:
                raise RefusedError("connected twice")
            connection.peer = peer
            self._in[peer] = connection
            connection.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._watch(connection)

    def _take(self, connection: Connection) -> None:
        """Reads a header, or bytes that follow one."""
        if connection.into is None:
            came = connection.stream.recv(HEADER.size - len(connection.header))
            if not came:
                raise RefusedError("closed its connection")
            connection.header += came
            if len(connection.header) == HEADER.size:
                header = HEADER.unpack(connection.header)
                connection.header = bytearray()
                self._hear(connection, *header)
        else:
            read = connection.stream.recv_into(connection.into[:PIECE])
            if not read:
                raise RefusedError("closed its connection in the middle of a message")
            connection.into = connection.into[read:]
        if connection.into is not None and not connection.into.nbytes:
            then, connection.into, connection.then = connection.then, None, None
            if then is not None:
                then()

    def _hear(self, connection: Connection, kind: int, space: int, number: int, tag: int, nbytes: int) -> None:
        if kind == Kind.OFFER and not connection.outgoing and space in self._failed:
            why = str(self._failed[space].diagnostics[0]["message"])
            self._tell(connection, Kind.FAIL, space, 0, why)
        elif kind == Kind.OFFER and not connection.outgoing:
            self._offers.append(Offer(connection, number, space, tag, nbytes))
            self._match()
        elif kind == Kind.SMALL and not connection.outgoing and not space and nbytes <= SMALL:
            content = bytearray(nbytes)

            def kept() -> None:
                self._offers.append(Offer(connection, number, space, tag, nbytes, content))
                self._match()

            connection.into, connection.then = memoryview(content), kept
        elif kind == Kind.TAKEN and connection.outgoing and nbytes <= connection.kept:
            connection.kept -= nbytes
        elif kind == Kind.ASK and connection.outgoing and number in connection.sends:
            transfer = connection.sends.pop(number)
            transfer.moving = True
            self._say(connection, Kind.DATA, space, number, tag, transfer.nbytes, transfer)
        elif kind == Kind.ASK and connection.outgoing and space in self._failed:
            # The receiver had not heard of it yet.
            return
        elif kind == Kind.DATA and number in connection.receives:
            transfer = connection.receives[number]
            if nbytes != transfer.nbytes:
                raise RefusedError(f"sent {nbytes} bytes where it had offered {transfer.nbytes}")

            def arrived() -> None:
                connection.receives.pop(number, None)
                connection.reading = None
                transfer.end(None)

            # Where it has failed since it was asked for nobody wants it any more.
            wanted = transfer.memory
            connection.into = wanted.bytes() if wanted is not None else memoryview(bytearray(nbytes))
            connection.reading, connection.then = transfer, arrived
        elif (kind == Kind.REFUSE or (kind == Kind.FAIL and space)) and nbytes <= LONGEST_TEXT:
            text = bytearray(nbytes)

            def told() -> None:
                why = text.decode(errors="replace")
                if kind == Kind.FAIL:
                    self._fail_space(space, _error(why), tell=False)
                elif (refused := connection.sends.pop(number, None)) is not None:
                    refused.end(_error(why))

            connection.into, connection.then = memoryview(text), told
        else:
            raise RefusedError(f"sent an invalid frame (kind {kind})")

    def _match(self) -> None:
        """Brings those who wait together with what is offered, the oldest first."""
        for transfer in list(self._waiting):
            for offer in self._offers:
                peer = offer.connection.peer
                same = offer.space == transfer.space and transfer.peer in (None, peer)
                if not same or (offer.space == 0 and offer.tag != transfer.tag):
                    continue
                self._offers.remove(offer)
                self._waiting.remove(transfer)
                transfer.peer = peer
                self._answer(offer, transfer)
                break

    def _answer(self, offer: Offer, transfer: Transfer) -> None:
        connection = offer.connection
        peer = connection.peer if connection.peer is not None else self.rank
        if offer.content is not None:
            self._say(connection, Kind.TAKEN, 0, offer.number, 0, offer.nbytes)
        them, us = f"rank {self._names(peer)}", f"rank {self._names(self.rank)}"
        why = None
        if offer.tag != transfer.tag:
            why = f"{them} runs another collective than {us} ({transfer})"
        elif offer.nbytes != transfer.nbytes:
            why = f"{them} sends {offer.nbytes} bytes where {us} expects {transfer.nbytes} bytes ({transfer})"
        if why is None and offer.content is not None:
            if transfer.memory is not None:
                transfer.memory.bytes()[:] = offer.content
            transfer.end(None)
            return
        if why is None:
            connection.receives[offer.number] = transfer
            transfer.moving = True
            self._say(connection, Kind.ASK, offer.space, offer.number, offer.tag, offer.nbytes)
            return
        self._tell(connection, Kind.REFUSE, offer.space, offer.number, why)
        transfer.end(_error(why))

    def _tell(self, connection: Connection, kind: Kind, space: int, number: int, why: str) -> None:
        text = why.encode()[:LONGEST_TEXT]
        self._say(connection, kind, space, number, 0, len(text))
        connection.out.append(memoryview(text))
        self._watch(connection)

    def _say(
        self,
        connection: Connection,
        kind: Kind,
        space: int,
        number: int,
        tag: int,
        nbytes: int,
        transfer: Transfer | None = None,
    ) -> None:
        connection.out.append(memoryview(HEADER.pack(kind, space, number, tag, nbytes)))
        if transfer is not None:
            if transfer.memory is not None and nbytes:
                connection.out.append(transfer.memory.bytes())
            before = sum(view.nbytes for view in connection.out) - sum(left for left, _, _ in connection.leaving)
            connection.leaving.append((before, transfer, transfer.memory))
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        events = selectors.EVENT_READ
        if connection.connecting or (connection.known and connection.out):
            events |= selectors.EVENT_WRITE
        with contextlib.suppress(KeyError):
            self._selector.modify(connection.stream, events, connection)

    def _write(self, connection: Connection) -> None:
        if not connection.known:
            return
        for _ in range(64):
            if not connection.out:
                break
            first = connection.out[0]
            written = connection.stream.send(first[:PIECE])
            if written == first.nbytes:
                connection.out.popleft()
            else:
                connection.out[0] = first[written:]
            while written and connection.leaving:
                left, transfer, memory = connection.leaving[0]
                gone = min(left, written)
                written -= gone
                if gone < left:
                    connection.leaving[0] = (left - gone, transfer, memory)
                    break
                connection.leaving.popleft()
                transfer.end(None)
        self._watch(connection)

    def _drop(self, connection: Connection, error: Exception) -> None:
        """A connection is over, and with it what was under way on it."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.stream)
        connection.stream.close()
        if connection in self._strangers:
            self._strangers.remove(connection)
        peer = connection.peer
        if peer is None:
            return
        table = self._out if connection.outgoing else self._in
        if table.get(peer) is not connection:
            return
        del table[peer]
        self._offers = [offer for offer in self._offers if offer.connection is not connection]
        left = [*connection.sends.values(), *connection.receives.values()]
        left += [transfer for _, transfer, _ in connection.leaving]
        if not connection.outgoing:
            # Whoever closes sends no more.
            left += [transfer for transfer in self._waiting if transfer.peer == peer]
        cause = self._fault()
        why = f"rank {self._names(peer)} closed its connection"
        if not isinstance(error, RefusedError):
            why += f" ({error})"
        elif connection.outgoing and not connection.known:
            why = f"rank {self._names(peer)} cannot be reached: {error}"
        for transfer in left:
            self._end(transfer, _told(cause, transfer, why))

    def _end(self, transfer: Transfer, error: SynclineError) -> None:
        if transfer in self._waiting:
            self._waiting.remove(transfer)
        transfer.end(error)

    def _fail_space(self, space: int, error: SynclineError, *, tell: bool = True) -> None:
        why = str(error.diagnostics[0]["message"])
        if self._failed.setdefault(space, error) is not error and not tell:
            return
        self._offers = [offer for offer in self._offers if offer.space != space]
        for transfer in [each for each in self._waiting if each.space == space]:
            self._end(transfer, error)
        for connection in self._connections():
            under_way = [*connection.sends.values(), *connection.receives.values()]
            under_way += [transfer for _, transfer, _ in connection.leaving]
            failing = [transfer for transfer in under_way if transfer.space == space]
            # Whoever is not known yet is told once it is, or when it offers something.
            if tell and connection.peer is not None:
                self._tell(connection, Kind.FAIL, space, 0, why)
            if connection.into is not None and connection.reading in failing:
                # What is still to come of it goes nowhere: the memory is the caller's again.
                connection.into = memoryview(bytearray(connection.into.nbytes))
            for transfer in failing:
                self._end(transfer, error)
            connection.sends = {number: each for number, each in connection.sends.items() if each not in failing}

    def _look(self) -> None:
        """Looks for what takes too long, and for peers that are lost."""
        fault = self._fault()
        for connection in list(self._strangers):
            if time.monotonic() - connection.began > HANDSHAKE_S:
                self._drop(connection, RefusedError("takes too long over its handshake"))
        for connection in [*self._out.values(), *self._in.values()]:
            under_way = [*connection.sends.values(), *connection.receives.values()]
            under_way += [transfer for _, transfer, _ in connection.leaving]
            under_way = [transfer for transfer in under_way if not transfer.done()]
            late = [transfer for transfer in under_way if fault or transfer.elapsed() > self._deadline_s]
            for transfer in late:
                not_yet = "was not through with" if transfer.moving else "has not asked for"
                why = f"rank {self._names(connection.peer or 0)} {not_yet} what is sent"
                transfer.end(_told(fault, transfer, why))
            if late:
                self._drop(connection, RefusedError("took too long"))
        for transfer in list(self._waiting):
            if fault or transfer.elapsed() > self._deadline_s:
                whom = "no rank" if transfer.peer is None else f"rank {self._names(transfer.peer)}"
                not_yet = "has sent" if transfer.peer is None else "has not sent"
                self._end(transfer, _told(fault, transfer, f"{whom} {not_yet} what is waited for"))
