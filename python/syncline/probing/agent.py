"""Measures and answers on one host of a cluster.

The coordinator (:mod:`syncline.probing.coordinator`) sends this file to a Python on the host, and orders after it.
The file needs Python 3.8 and its standard library, imports nothing else, and writes nothing to the host's disk. It ends
when stdin closes, or when no order has come for a while.

Orders are lines of JSON on stdin. Answers are lines on stdout: the token that the coordinator chose, a space, and JSON,
so that whatever else prints to stdout cannot be taken for an answer. The first order brings the session's secret:

========== ============================================================================================
``begin``  secret, number of this host, addresses to use: binds sockets, and answers echoes and transfers
``echo``   sends echo requests to another host, one at a time, and answers with the round trips
``rate``   sends bytes to another host, and answers with how long they took to arrive
``cancel`` ends the measurement that is under way, which answers with what it has
``count``  answers with the number of packets and connections that were not of this session
``alive``  keeps the agent running
``stop``   ends it
========== ============================================================================================

Packets of echoes carry the number of the round, a sequence number, the numbers of both hosts, and a keyed BLAKE2b
digest of these under the session's secret. A packet with a wrong digest, of an older round or for another host is
ignored. A connection for transfers starts with a proof of the secret in each direction, over numbers that are used
once.

A round trip is ``(t4 - t1) - (t3 - t2)``: sent and received here, less the time between receiving and replying there,
which the reply carries. On Linux t2 and t4 are the times at which the kernel received the packets, so that a Python
that is scheduled late does not add to them.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import queue
import select
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

PROTOCOL = 1
"""Version of orders, answers and packets."""

HEADER = struct.Struct("!4sBBxxIIIIQ")
"""Magic, kind, flags, round, sequence number, sending host, receiving host, hold time in nanoseconds."""
HOLD = struct.Struct("!Q")
"""The last field of a header."""
MAGIC = b"SLpe"
DIGEST_BYTES = 16
PACKET_BYTES = HEADER.size + DIGEST_BYTES
REQUEST, REPLY = 1, 2
KERNEL_CLOCK = 1
"""Flag of a reply: the hold time starts at the kernel's time of receipt."""

SO_TIMESTAMPNS = 35
"""Linux's option for times of receipt; the ``socket`` module does not name it."""
TIMESPEC = struct.Struct("@ll")
MAX_HOLD_NS = 1_000_000_000
"""A longer hold time means that the clock was set."""

FIRST_CONTACT = 1 << 31
"""Sequence numbers from here on are of requests that find out which address answers, and are not measured."""
CONTACT_S = 1.0
"""Time to find an address that answers."""
CONTACT_TRIES = 5
FIRST_TIMEOUT_S, MIN_TIMEOUT_S, MAX_TIMEOUT_S = 0.5, 0.02, 1.0
"""An echo is given up after this time; later, after eight times the slowest round trip so far."""
GRACE_S = 0.05
"""Time that the last lost echoes have to come back late."""
MAX_ADDRESSES = 16

BLOCK = 1 << 20
BATCH = struct.Struct("!QI")
"""Size of each transfer of a batch, and how many follow each other without a pause. Size 0 ends the connection."""
NONCE_BYTES = 16
HELLO = struct.Struct("!4sII16s")
"""Magic, connecting host, host that it connects to, nonce."""
FIRST_SIZE, LARGEST_SIZE = 64 << 10, 256 << 20
GROWTH = 4
REPEATS = 5
"""Transfers of the final size that are timed."""
TRIED = 2
"""Transfers of each smaller size, of which the last is timed."""
MAX_BYTES = 1 << 30
"""The most bytes that one order sends."""
MAX_CONNECTIONS = 16

FIRST_ORDER_S = 60.0
"""Time before the first order."""


class RefusedError(Exception):
    """An order cannot be carried out; the text says why."""


Candidates = Any
"""Addresses at which another host may be reached: for each, the address, its UDP port and its TCP port."""


def reason(problem: OSError) -> str:
    """Returns the system's words for an error."""
    return (problem.strerror or str(problem)).lower()


# --- Packets ----------------------------------------------------------------------------------------------------


class Session:
    """What all parts of the agent share: the secret and the number of this host."""

    def __init__(self, secret: bytes, own: int) -> None:
        self.secret = secret
        self.own = own

    def hashed(self, data: bytes) -> hashlib.blake2b:
        """Returns the keyed hash of ``data``, which may be continued."""
        return hashlib.blake2b(data, key=self.secret, digest_size=DIGEST_BYTES)

    def digest(self, data: bytes) -> bytes:
        """Returns the keyed digest of ``data``."""
        return self.hashed(data).digest()

    def sealed(self, header: bytes) -> bytes:
        """Returns a packet: the header and its digest."""
        return header + self.digest(header)

    def opened(self, packet: bytes) -> tuple[int, ...] | None:
        """Returns the fields of a packet's header without its magic; ``None`` if the packet is not of this session."""
        if len(packet) != PACKET_BYTES:
            return None
        header = packet[: HEADER.size]
        if not hmac.compare_digest(self.digest(header), packet[HEADER.size :]):
            return None
        magic, *fields = HEADER.unpack(header)
        return tuple(fields) if magic == MAGIC else None


def stamp_arrivals(sock: socket.socket) -> None:
    """Asks the kernel for times of receipt, where it has them."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def receive(sock: socket.socket) -> tuple[bytes, int, bool, Any]:
    """Receives a packet.

    Returns the packet, the time of receipt (ns of the real-time clock), whether that is the kernel's, and the sender.
    """
    data, control, _, sender = sock.recvmsg(2 * PACKET_BYTES, 128)
    now = time.time_ns()
    for level, kind, value in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) == TIMESPEC.size:
            seconds, nanoseconds = TIMESPEC.unpack(value)
            return data, seconds * 1_000_000_000 + nanoseconds, True, sender
    return data, now, False, sender


# --- Addresses --------------------------------------------------------------------------------------------------


def own_addresses() -> list[str]:
    """Returns the addresses of this host's interfaces, without link-local ones; loopback only if there is nothing else.

    Addresses of the interface with the default route come first.
    """
    found = [*toward_default(), *_interface_addresses()]
    if not found:
        try:
            found = [str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_DGRAM)]
        except OSError:
            found = []
    found = list(dict.fromkeys(found))
    beyond = [each for each in found if not loopback(each) and not each.lower().startswith("fe80")]
    return (beyond or found or ["127.0.0.1"])[:MAX_ADDRESSES]


def toward_default() -> list[str]:
    """Returns the addresses from which this host reaches other networks."""
    found = []
    # Addresses for documentation (RFC 5737, RFC 3849). Connecting a UDP socket sends nothing.
    for family, beyond in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((beyond, 9))
            found.append(str(sock.getsockname()[0]))
    return found


def _interface_addresses() -> list[str]:
    """Returns the first IPv4 address and all global IPv6 addresses of each interface, on Linux."""
    found: list[str] = []
    if sys.platform != "linux":
        return found
    import fcntl

    get_address = 0x8915  # SIOCGIFADDR
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):
                found.append(socket.inet_ntoa(fcntl.ioctl(sock.fileno(), get_address, request)[20:24]))
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/net/if_inet6").read_text("ascii").splitlines():
            digits, _, _, scope, *_ = line.split()
            if scope == "00":
                found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return found


def loopback(address: str) -> bool:
    """Returns whether an address is a loopback address."""
    return address.startswith("127.") or address == "::1"


def family_of(address: str) -> int:
    """Returns the address family of an IP address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


# --- Answering --------------------------------------------------------------------------------------------------


class Answers:
    """Answers echo requests and receives transfers, at each address of this host."""

    def __init__(self, session: Session, addresses: list[str], port: int) -> None:
        self.session = session
        self.ignored = 0
        """Packets that were not of this session, or of an older round."""
        self.bound: list[tuple[str, int, int]] = []
        """For each address: the address, its UDP port and its TCP port."""
        self._newest = 0
        self._echoes: list[socket.socket] = []
        self._listeners: list[socket.socket] = []
        refusals = []
        for address in addresses:
            try:
                self._bind(address, port)
            except OSError as problem:
                refusals.append(f"{address}: {reason(problem)}")
        if not self.bound:
            raise RefusedError("no address can be used: " + "; ".join(refusals))
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        for target in (self._answer_echoes, self._accept):
            threading.Thread(target=target, daemon=True).start()

    def _bind(self, address: str, port: int) -> None:
        family = family_of(address)
        echo = socket.socket(family, socket.SOCK_DGRAM)
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                echo.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            echo.bind((address, port))
            listener.bind((address, port))
            listener.listen(MAX_CONNECTIONS)
        except OSError:
            echo.close()
            listener.close()
            raise
        stamp_arrivals(echo)
        echo.settimeout(0)
        listener.settimeout(0)
        self._echoes.append(echo)
        self._listeners.append(listener)
        self.bound.append((address, echo.getsockname()[1], listener.getsockname()[1]))

    def _answer_echoes(self) -> None:
        while True:
            for sock in select.select(self._echoes, [], [])[0]:
                # The packet may be gone, or its sender unreachable.
                with contextlib.suppress(OSError):
                    self._answer(sock)

    def _answer(self, sock: socket.socket) -> None:
        packet, came, by_kernel, sender = receive(sock)
        fields = self.session.opened(packet)
        if fields is None or fields[0] != REQUEST or fields[5] != self.session.own or fields[2] < self._newest:
            self.ignored += 1
            return
        _, _, number, sequence, origin, _, _ = fields
        self._newest = number
        flags = KERNEL_CLOCK if by_kernel and 0 <= time.time_ns() - came <= MAX_HOLD_NS else 0
        # All but the hold time goes into the digest first, so that little happens after the hold time is taken.
        start = HEADER.pack(MAGIC, REPLY, flags, number, sequence, self.session.own, origin, 0)[: -HOLD.size]
        digest = self.session.hashed(start)
        hold = HOLD.pack(min(max(time.time_ns() - came, 0), MAX_HOLD_NS))
        digest.update(hold)
        sock.sendto(start + hold + digest.digest(), sender)

    def _accept(self) -> None:
        while True:
            for listener in select.select(self._listeners, [], [])[0]:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    continue
                if not self._free.acquire(blocking=False):
                    sock.close()
                    continue
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            with sock:
                sock.settimeout(5)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._receive_transfers(sock)
        except (OSError, struct.error):
            pass  # the other side says what it saw
        finally:
            self._free.release()

    def _receive_transfers(self, sock: socket.socket) -> None:
        hello = exactly(sock, HELLO.size)
        magic, _, target, _ = HELLO.unpack(hello)
        if magic != MAGIC or target != self.session.own:
            return
        own_nonce = os.urandom(NONCE_BYTES)
        sock.sendall(own_nonce + self.session.digest(b"server" + hello + own_nonce))
        proof = exactly(sock, DIGEST_BYTES)
        if not hmac.compare_digest(proof, self.session.digest(b"client" + hello + own_nonce)):
            self.ignored += 1
            return
        sock.settimeout(30)
        block = memoryview(bytearray(BLOCK))
        while True:
            size, count = BATCH.unpack(exactly(sock, BATCH.size))
            if not (0 < size <= LARGEST_SIZE and 0 < count <= 1 + REPEATS):
                return
            ends = []
            for _ in range(count):
                left = size
                while left:
                    got = sock.recv_into(block, min(BLOCK, left))
                    if not got:
                        return
                    left -= got
                ends.append(time.perf_counter_ns())
            sock.sendall(struct.pack(f"!{count}Q", *(end - ends[0] for end in ends)))


def exactly(sock: socket.socket, count: int) -> bytes:
    """Receives ``count`` bytes."""
    got = b""
    while len(got) < count:
        more = sock.recv(count - len(got))
        if not more:
            raise OSError("the other host closed the connection")
        got += more
    return got


# --- Measuring --------------------------------------------------------------------------------------------------


class Echoes:
    """Sends echo requests to one host, one at a time."""

    def __init__(
        self, session: Session, order: dict[str, Any], stopped: threading.Event, known: dict[int, int]
    ) -> None:
        self._session = session
        self._order = order
        self._stopped = stopped
        self._known = known
        self._round = order["round"]
        self._peer = order["peer"]
        self._sent: dict[int, tuple[int, int]] = {}
        """Times of sending of echoes that have not come back: by the real-time clock, and by the steady clock."""
        self._back: set[int] = set()
        self._newest = -1
        self.round_trips: list[int] = []
        self.lost = self.duplicates = self.reordered = self.ignored = 0
        self.kernel = True
        """Whether all times of receipt are the kernel's."""

    def measure(self) -> dict[str, Any]:
        """Returns what was measured; ``problem`` says why nothing was."""
        order = self._order
        candidates = order["to"]
        first = self._known.get(self._peer)
        if first is not None:
            candidates = [candidates[first]]
        found = contact(self._session, self._round, self._peer, candidates, order.get("own"))
        if found is None:
            return {"problem": "udp" if tcp_reaches(candidates, order.get("own")) else "unreachable"}
        sock, at = found
        if first is None:
            self._known[self._peer] = at
        began = time.monotonic()
        with sock:
            for sequence in range(order["count"]):
                elapsed = time.monotonic() - began
                if self._stopped.is_set() or elapsed > (
                    order["time_s"] if sequence >= order["least"] else order["limit_s"]
                ):
                    break
                self._echo(sock, sequence)
            took = time.monotonic() - began
            if self._sent and not self._stopped.is_set():
                self._await(sock, None, GRACE_S)
        return {
            "rtt_ns": self.round_trips,
            "lost": len(self._sent),
            "duplicates": self.duplicates,
            "reordered": self.reordered,
            "ignored": self.ignored,
            "kernel": self.kernel,
            "took_s": took,
            "address": order["to"][self._known[self._peer]][0],
        }

    def _echo(self, sock: socket.socket, sequence: int) -> None:
        header = HEADER.pack(MAGIC, REQUEST, 0, self._round, sequence, self._session.own, self._peer, 0)
        packet = self._session.sealed(header)
        # An error may be that of an earlier packet. If this one was not sent, it counts as lost.
        with contextlib.suppress(OSError):
            steady, real = time.perf_counter_ns(), time.time_ns()
            self._sent[sequence] = (real, steady)
            sock.send(packet)
        slowest = max(self.round_trips[-64:]) / 1e9 if self.round_trips else None
        wait_s = FIRST_TIMEOUT_S if slowest is None else min(max(8 * slowest, MIN_TIMEOUT_S), MAX_TIMEOUT_S)
        self._await(sock, sequence, wait_s)

    def _await(self, sock: socket.socket, sequence: int | None, wait_s: float) -> None:
        """Receives replies until that to ``sequence`` has come, or for ``wait_s``."""
        until = time.monotonic() + wait_s
        while sequence in self._sent or (sequence is None and self._sent):
            left = until - time.monotonic()
            if left <= 0:
                return
            sock.settimeout(left)
            try:
                packet, came, by_kernel, _ = receive(sock)
            except socket.timeout:  # noqa: UP041 - another class than TimeoutError before Python 3.10
                return
            except OSError:
                continue  # such as ICMP's report that a port is closed; bounded by the time
            self._count(packet, came, time.perf_counter_ns(), by_kernel=by_kernel)

    def _count(self, packet: bytes, came: int, now: int, *, by_kernel: bool) -> None:
        fields = self._session.opened(packet)
        if fields is None:
            self.ignored += 1
            return
        kind, flags, number, sequence, origin, target, hold = fields
        if (kind, number, origin, target) != (REPLY, self._round, self._peer, self._session.own):
            self.ignored += 1
            return
        if sequence >= FIRST_CONTACT:
            return
        if sequence not in self._sent:
            if sequence in self._back:
                self.duplicates += 1
            else:
                self.ignored += 1
            return
        real, steady = self._sent.pop(sequence)
        self._back.add(sequence)
        if sequence < self._newest:
            self.reordered += 1
        self._newest = max(self._newest, sequence)
        most = now - steady
        whole = came - real
        if not by_kernel or not 0 <= whole <= most + 1_000_000:
            # There is no time of receipt, or the clock was set between the two times.
            whole, by_kernel = most, False
        if hold > whole:
            return  # the other host's clock was set while it held the packet
        self.kernel = self.kernel and by_kernel and bool(flags & KERNEL_CLOCK)
        self.round_trips.append(max(whole - hold, 1))


def contact(
    session: Session, number: int, peer: int, candidates: Candidates, own: str | None
) -> tuple[socket.socket, int] | None:
    """Finds the first of the addresses at which ``peer`` answers.

    Returns a socket connected to it and its index, or ``None`` if no address answers in time.
    """
    socks: dict[socket.socket, int] = {}
    try:
        for at, (address, port, _) in enumerate(candidates):
            try:
                sock = socket.socket(family_of(address), socket.SOCK_DGRAM)
            except OSError:
                continue
            try:
                if own and family_of(own) == family_of(address):
                    sock.bind((own, 0))
                sock.connect((address, port))
            except OSError:
                sock.close()
                continue
            stamp_arrivals(sock)
            socks[sock] = at
        answered: list[socket.socket] = []
        for attempt in range(CONTACT_TRIES):
            header = HEADER.pack(MAGIC, REQUEST, 0, number, FIRST_CONTACT + attempt, session.own, peer, 0)
            for sock in socks:
                with contextlib.suppress(OSError):
                    sock.send(session.sealed(header))
            until = time.monotonic() + CONTACT_S / CONTACT_TRIES
            while socks and time.monotonic() < until:
                ready = select.select(list(socks), [], [], max(until - time.monotonic(), 0))[0]
                for sock in ready:
                    try:
                        fields = session.opened(sock.recv(2 * PACKET_BYTES))
                    except OSError:
                        continue
                    if fields and (fields[0], fields[2], fields[4]) == (REPLY, number, peer) and sock not in answered:
                        answered.append(sock)
                        # Others that answer at all do so at about the same time.
                        until = min(until, time.monotonic() + 0.02)
                if len(answered) == len(socks):
                    break
            if answered:
                break
        if not answered:
            return None
        best = min(answered, key=lambda sock: socks[sock])
        return best, socks.pop(best)
    finally:
        for sock in socks:
            sock.close()


def tcp_reaches(candidates: Candidates, own: str | None) -> bool:
    """Returns whether a TCP connection to any of the addresses succeeds."""
    for address, _, port in candidates:
        with contextlib.suppress(OSError), connected(address, port, own, CONTACT_S / max(len(candidates), 1)):
            return True
    return False


def connected(address: str, port: int, own: str | None, timeout_s: float) -> socket.socket:
    """Returns a TCP connection."""
    source = (own, 0) if own and family_of(own) == family_of(address) else None
    return socket.create_connection((address, port), timeout=timeout_s, source_address=source)


def measure_rate(
    session: Session, order: dict[str, Any], stopped: threading.Event, known: dict[int, int]
) -> dict[str, Any]:
    """Sends bytes to a host over one connection, in transfers of growing size.

    The bytes are divided into transfers, which follow each other without a pause. The other host notes when each has
    arrived, so bytes that are still in this host's buffers do not count as sent. Sizes grow as long as several
    transfers of the next size fit into the time. The answer has the last size, and the times of its transfers.
    """
    candidates = order["to"]
    at = known.get(order["peer"])
    problem = "no address"
    tried = candidates if at is None else [candidates[at]]
    for address, _, port in tried:
        try:
            # All addresses together take no longer than the coordinator waits.
            sock = connected(address, port, order.get("own"), min(order["limit_s"], 3.0) / max(len(tried), 1))
        except OSError as error:
            problem = reason(error)
            continue
        with sock:
            try:
                return _transfers(session, order, stopped, sock)
            except OSError as error:
                problem = reason(error)
    return {"problem": "tcp", "why": problem}


def _transfers(
    session: Session, order: dict[str, Any], stopped: threading.Event, sock: socket.socket
) -> dict[str, Any]:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    hello = HELLO.pack(MAGIC, session.own, order["peer"], os.urandom(NONCE_BYTES))
    sock.sendall(hello)
    answer = exactly(sock, NONCE_BYTES + DIGEST_BYTES)
    nonce = answer[:NONCE_BYTES]
    if not hmac.compare_digest(answer[NONCE_BYTES:], session.digest(b"server" + hello + nonce)):
        raise OSError("something else answers at the port")
    sock.sendall(session.digest(b"client" + hello + nonce))
    block = memoryview(os.urandom(BLOCK))
    began = time.monotonic()
    moved = 0

    def send(size: int, count: int) -> list[int]:
        """Sends a batch; returns the nanoseconds that each transfer but the first took to arrive."""
        nonlocal moved
        sock.settimeout(max(order["limit_s"] - (time.monotonic() - began), 0.1))
        sock.sendall(BATCH.pack(size, count))
        left = size * count
        while left:
            left -= sock.send(block[: min(left, BLOCK)])
        moved += size * count
        ends = struct.unpack(f"!{count}Q", exactly(sock, 8 * count))
        return [ends[at] - ends[at - 1] for at in range(1, count)]

    def fits(size: int, took_ns: int) -> bool:
        """Returns whether a try and a batch of this size fit into the time and the bytes that are left."""
        transfers = TRIED + 1 + REPEATS
        left_s = order["time_s"] - (time.monotonic() - began)
        return moved + size * transfers <= MAX_BYTES and took_ns * transfers / 1e9 <= left_s

    size = FIRST_SIZE
    took_ns = send(size, TRIED)[-1]
    while not stopped.is_set() and size * GROWTH <= LARGEST_SIZE and fits(size * GROWTH, took_ns * GROWTH):
        size *= GROWTH
        took_ns = send(size, TRIED)[-1]
    found = [took_ns] if stopped.is_set() else send(size, 1 + REPEATS)
    sock.sendall(BATCH.pack(0, 0))
    return {"size": size, "times_ns": found, "took_s": time.monotonic() - began}


# --- Orders -----------------------------------------------------------------------------------------------------


class Agent:
    """Carries out orders, one at a time."""

    def __init__(self, orders: BinaryIO, token: str) -> None:
        self._stdin = orders
        self._token = token
        self._writing = threading.Lock()
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue()
        self._stopped = threading.Event()
        """Set to end the measurement that is under way."""
        self._heard = time.monotonic()
        self._silence_s = FIRST_ORDER_S
        self._session: Session | None = None
        self._answers: Answers | None = None
        self._known: dict[int, int] = {}
        """By host: the index of the address at which it answers."""

    def run(self) -> None:
        """Runs until the order `stop`, or until stdin closes."""
        for target in (self._read, self._watch):
            threading.Thread(target=target, daemon=True).start()
        self._tell({"hello": PROTOCOL, "python": sys.version.split()[0], "addresses": own_addresses()})
        while True:
            order = self._waiting.get()
            self._stopped.clear()
            try:
                result = self._carry_out(order)
            except RefusedError as problem:
                result = {"refused": str(problem)}
            except (KeyError, TypeError, ValueError) as problem:
                result = {"refused": f"malformed order: {type(problem).__name__}: {problem}"}
            except OSError as problem:
                result = {"refused": reason(problem)}
            self._tell({"id": order.get("id"), **result})

    def _carry_out(self, order: dict[str, Any]) -> dict[str, Any]:
        what = order.get("order")
        if what == "begin":
            self._silence_s = float(order["silence_s"])
            self._session = Session(bytes.fromhex(order["secret"]), order["own"])
            self._answers = Answers(self._session, order["addresses"], order["port"])
            return {"bound": self._answers.bound}
        if self._session is None or self._answers is None:
            raise RefusedError("the first order must be `begin`")
        if what == "echo":
            return Echoes(self._session, order, self._stopped, self._known).measure()
        if what == "rate":
            return measure_rate(self._session, order, self._stopped, self._known)
        if what == "count":
            return {"ignored": self._answers.ignored}
        raise RefusedError(f"unknown order: {what}")

    def _read(self) -> None:
        """Reads orders; ends the process when there are no more."""
        while True:
            line = self._stdin.readline()
            self._heard = time.monotonic()
            if not line:
                os._exit(0)
            try:
                order = json.loads(line)
                what = order.get("order")
            except (ValueError, AttributeError):
                continue
            if what == "stop":
                os._exit(0)
            elif what == "cancel":
                self._stopped.set()
            elif what != "alive":
                self._waiting.put(order)

    def _watch(self) -> None:
        """Ends the process after a long silence: a coordinator that is cut off cannot close stdin."""
        while time.monotonic() - self._heard < self._silence_s:
            time.sleep(1)
        os._exit(3)

    def _tell(self, what: dict[str, Any]) -> None:
        line = f"{self._token} {json.dumps(what)}\n"
        with self._writing:
            try:
                sys.stdout.write(line)
                sys.stdout.flush()
            except OSError:
                os._exit(1)


def main(orders: BinaryIO, token: str) -> None:
    """Runs an agent until its coordinator is done with it."""
    try:
        Agent(orders, token).run()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(globals().get("ORDERS") or sys.stdin.buffer, globals().get("TOKEN", ""))
