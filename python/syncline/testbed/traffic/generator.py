"""Sends and receives the traffic of all tenants of a testbed: one process, one thread, one event loop.

It lives in the network namespace of the bridges, and opens each socket in the namespace of the host that the socket
belongs to (``setns``). ``down`` therefore ends it like every other process of the testbed. TCP flows are paced by the
kernel (``SO_MAX_PACING_RATE``); receivers discard data without a copy (``MSG_TRUNC``).

``generator.py`` reads a line of JSON from stdin (:class:`Plan`), and exits with status 0 once a background process of
it sends. That process answers requests at a Unix socket: lines of JSON, see :meth:`Generator.answer`.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from syncline.testbed.traffic.schedule import FOREVER, Tenant, bursts, tenant_from_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syncline.testbed.traffic.schedule import Burst

PORT = 29_497
"""The port at which all hosts and machines receive the traffic of tenants."""
LOOK_S = 1.0
"""How often the process looks whether its testbed still exists."""

DRAIN_S = 5.0
"""How long packets of a flow that has ended may be on their way."""

BLOCK = 1 << 20
"""Most bytes of one call that sends or receives."""
PACED_S = 0.01
"""A paced flow hands the kernel what it sends in this time."""
MIN_BACKLOG, MAX_BACKLOG = 16 << 10, 512 << 10
"""Bytes that a TCP flow keeps in the kernel unsent: enough that the process wakes up rarely."""

DATAGRAM = 1472
"""Payload of a datagram, with which a packet has 1,500 bytes."""
MAX_DATAGRAMS = 44
"""Most datagrams of one call: together they must be shorter than 64 KiB."""
DATAGRAMS_S = 0.004
"""Datagrams of this time are sent together."""
RECEIVE_BUFFER = 4 << 20
"""Bytes of datagrams that wait in a receiver's kernel while the process does something else."""
LATE_S = 0.1
"""If the process is later than this, it does not send what it missed."""

# Of linux/sched.h, asm-generic/socket.h, linux/tcp.h and linux/udp.h; Python's modules lack these names.
_CLONE_NEWNET = 0x40000000
_SO_MAX_PACING_RATE = 47
_TCP_NOTSENT_LOWAT = 25
_SO_RCVBUFFORCE = 33
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104
_BYTES_SENT = struct.Struct("=200xQQ")
"""``tcpi_bytes_sent`` and ``tcpi_bytes_retrans`` of ``struct tcp_info`` (Linux 4.19)."""


@dataclass(frozen=True)
class End:
    """A host or machine."""

    namespace: str
    """The path of its network namespace."""
    address: str
    """The address at which it receives."""


@dataclass(frozen=True)
class Plan:
    """What a generator needs to know."""

    home: str
    """The path of the network namespace in which the process lives."""
    socket: str
    """The path of the Unix socket for requests."""
    ends: dict[int, End]
    """The hosts and machines that send or receive, by number."""
    tenants: list[Tenant]
    on: list[str]
    """Names of the tenants whose traffic is on from the beginning."""

    def as_json(self) -> str:
        """Returns the line of JSON for the process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Plan:
        """Restores a plan from its line of JSON."""
        plain = json.loads(text)
        ends = {int(number): End(**end) for number, end in plain["ends"].items()}
        return Plan(**{**plain, "ends": ends, "tenants": list(map(tenant_from_dict, plain["tenants"]))})


@dataclass
class Counters:
    """What a tenant has sent since its traffic was last switched on."""

    begun: int = 0
    """Flows that have begun."""
    complete: int = 0
    """Flows that have sent their whole size, and whose receiver has received it."""
    blocked: int = 0
    """Arrivals that found the maximum number of flows open."""
    failed: int = 0
    """Flows that an error ended."""
    error: str = ""
    """The last such error."""
    sent_bytes: int = 0
    """Payload that was sent, retransmissions included."""
    retransmitted_bytes: int = 0
    """Payload that TCP sent again."""
    received_bytes: int = 0
    """Payload that receivers received."""


class _Namespaces:
    """Makes sockets in network namespaces."""

    def __init__(self, plan: Plan) -> None:
        self._setns = ctypes.CDLL(None, use_errno=True).setns
        self._home = os.open(plan.home, os.O_RDONLY | os.O_CLOEXEC)
        self._ends = {number: os.open(end.namespace, os.O_RDONLY | os.O_CLOEXEC) for number, end in plan.ends.items()}

    def socket(self, number: int, kind: socket.SocketKind) -> socket.socket:
        """Makes a socket of a host or machine, which does not block."""
        self._enter(self._ends[number])
        try:
            made = socket.socket(socket.AF_INET, kind)
        finally:
            self._enter(self._home)
        made.settimeout(0)
        return made

    def _enter(self, namespace: int) -> None:
        if self._setns(namespace, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


class _Flow:
    """A flow that runs: its sending end."""

    def __init__(self, tenant: _Running, burst: Burst, sock: socket.socket) -> None:
        self.tenant, self.burst, self.sock = tenant, burst, sock
        self.left = burst.size_bytes or self._most()
        """Bytes that are still to be sent; ``None`` if there is no limit."""
        self.own = sock.getsockname()[:2]
        """Its address and port, by which the receiving end knows it."""
        self.receiver: socket.socket | None = None
        """Its receiving end, once TCP has connected the two."""
        self.closed = False

    def _most(self) -> int | None:
        """Returns the bytes that a burst may send: the kernel does not pace the first ten packets of a connection."""
        tenant, seconds = self.tenant.tenant, self.burst.end_s - self.burst.begin_s
        if tenant.protocol == "udp" or not tenant.rate_bits or seconds == FOREVER:
            return None
        return max(1, round(tenant.rate_bits / 8 * seconds))

    def sent(self) -> tuple[int, int]:
        """Returns the bytes of payload that TCP has sent and sent again."""
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_SENT.size)
        sent, again = _BYTES_SENT.unpack(info) if len(info) == _BYTES_SENT.size else (0, 0)
        return sent, again


class _Running:
    """A tenant, and its traffic while it is on."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.counters = Counters()
        self.on = False
        self.time = 0
        """How often it has been switched. Timers of earlier times are ignored."""
        self.began_s = 0.0
        """When it was switched on, by the monotonic clock."""
        self.flows: set[_Flow] = set()
        self.schedule: Iterator[Burst] = iter(())


class Generator:
    """The process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._namespaces = _Namespaces(plan)
        self._poll = select.epoll()
        self._events: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._ended = False
        self._block = memoryview(bytearray(BLOCK))
        self._tenants = {tenant.name: _Running(tenant) for tenant in plan.tenants}
        self._senders: dict[tuple[str, int], _Flow] = {}
        """Flows by the sender's address and port; those of TCP only until their receiving ends are known."""
        for number in {number for tenant in plan.tenants for number in tenant.receivers}:
            self._listen(number, plan.ends[number].address)
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(plan.socket)  # noqa: PTH108 - pathlib would be imported for this alone
        self._control.bind(plan.socket)
        self._control.listen()
        self._watch(self._control, select.EPOLLIN, self._requested)
        self._own = os.stat(plan.socket)  # noqa: PTH116
        for name in plan.on:
            self.switch(name, on=True)

    def run(self) -> None:
        """Sends and receives until the testbed is gone."""
        self._look()
        while not self._ended:
            # Timers that these calls set wait until sockets have had their turn.
            due, now = [], time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                due.append(heapq.heappop(self._timers)[2])
            for call in due:
                call()
            wait = max(0.0, self._timers[0][0] - time.monotonic())
            for descriptor, event in self._poll.poll(wait):
                if (react := self._events.get(descriptor)) is not None:
                    react(event)

    def answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Answers a request: switches the tenants in ``on`` and ``off``, and returns the state of all tenants."""
        for name in request.get("off", []):
            self.switch(name, on=False)
        for name in request.get("on", []):
            self.switch(name, on=True)
        return list(map(self._state, self._tenants.values()))

    def switch(self, name: str, *, on: bool) -> None:
        """Switches a tenant off; or on, from the beginning of its schedule."""
        running = self._tenants[name]
        running.time += 1
        running.on = on
        for flow in list(running.flows):
            self._end(flow)
        if on:
            running.counters = Counters()
            running.began_s = time.monotonic()
            running.schedule = bursts(running.tenant)
            self._next(running)

    def _state(self, running: _Running) -> dict[str, Any]:
        """Returns the state of a tenant: its counters include flows that run."""
        counters = asdict(running.counters)
        for flow in running.flows:
            if running.tenant.protocol == "tcp":
                sent, again = flow.sent()
                counters["sent_bytes"] += sent
                counters["retransmitted_bytes"] += again
        for_s = time.monotonic() - running.began_s if running.on else None
        return {"name": running.tenant.name, "on_for_s": for_s, "open": len(running.flows), **counters}

    def _watch(self, sock: socket.socket, events: int, call: Callable[[int], None]) -> None:
        self._events[sock.fileno()] = call
        self._poll.register(sock, events)

    def _forget(self, sock: socket.socket) -> None:
        if self._events.pop(sock.fileno(), None) is not None:
            self._poll.unregister(sock)

    def _later(self, at: float, call: Callable[[], None]) -> None:
        """Calls ``call`` at a time of the monotonic clock."""
        heapq.heappush(self._timers, (at, next(self._numbers), call))

    def _look(self) -> None:
        """Ends this process if its testbed is gone, or another generator has taken its socket."""
        try:
            there = os.path.samestat(self._own, os.stat(self._plan.socket))  # noqa: PTH116
            there = there and os.path.samestat(os.stat("/proc/self/ns/net"), os.stat(self._plan.home))  # noqa: PTH116
        except OSError:
            there = False
        self._ended = not there
        self._later(time.monotonic() + LOOK_S, self._look)

    def _requested(self, _: int) -> None:
        """Accepts a connection, whose request comes at once."""
        try:
            sock, _ = self._control.accept()
        except OSError:
            return
        sock.settimeout(0)

        def reply(_: int) -> None:
            self._forget(sock)
            # If the other end is gone, or sends no JSON, nobody waits for the answer.
            with sock, contextlib.suppress(OSError, ValueError, KeyError, AttributeError):
                sock.send(json.dumps(self.answer(json.loads(sock.recv(BLOCK)))).encode())

        self._watch(sock, select.EPOLLIN, reply)

    def _next(self, running: _Running) -> None:
        """Sets a timer for the next flow of a tenant's schedule."""
        burst = next(running.schedule, None)
        if burst is None:
            return
        turn = running.time

        def begin() -> None:
            if running.time == turn:
                if running.began_s + burst.end_s > time.monotonic():
                    self._begin(running, burst)
                self._next(running)

        self._later(running.began_s + burst.begin_s, begin)

    def _begin(self, running: _Running, burst: Burst) -> None:
        """Begins a flow."""
        tenant, counters = running.tenant, running.counters
        if burst.size_bytes and len(running.flows) >= tenant.flows:
            counters.blocked += 1
            return
        counters.begun += 1
        udp = tenant.protocol == "udp"
        try:
            sock = self._namespaces.socket(burst.sender, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        except OSError as problem:
            counters.failed, counters.error = counters.failed + 1, str(problem)
            return
        try:
            if not udp:
                _configure(sock, tenant.rate_bits / 8)
            with contextlib.suppress(BlockingIOError):
                sock.connect((self._plan.ends[burst.receiver].address, PORT))
            flow = _Flow(running, burst, sock)
        except OSError as problem:
            sock.close()
            counters.failed, counters.error = counters.failed + 1, str(problem)
            return
        running.flows.add(flow)
        self._senders[flow.own] = flow
        if udp:
            self._send_datagrams(flow)
        else:
            self._watch(sock, select.EPOLLOUT, lambda event: self._send(flow, event))
        if burst.end_s < FOREVER:
            self._later(running.began_s + burst.end_s, lambda: self._end(flow))

    def _send(self, flow: _Flow, event: int) -> None:
        """Sends what the kernel takes of a TCP flow."""
        try:
            if flow.left == 0:
                # The receiver closes when it has received a whole flow. A burst that has sent all waits for its end.
                if event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                    flow.sock.recv(1)
                    self._end(flow, complete=bool(flow.burst.size_bytes))
                return
            most = BLOCK if flow.left is None else min(BLOCK, flow.left)
            sent = flow.sock.send(self._block[:most])
        except BlockingIOError:
            return
        except OSError as problem:
            flow.tenant.counters.failed += 1
            flow.tenant.counters.error = str(problem)
            self._end(flow)
            return
        if flow.left is not None:
            flow.left -= sent
            if flow.left == 0:
                if flow.burst.size_bytes:
                    flow.sock.shutdown(socket.SHUT_WR)
                self._poll.modify(flow.sock, select.EPOLLIN)

    def _send_datagrams(self, flow: _Flow) -> None:
        """Sends datagrams at a constant rate, some milliseconds of them at a time."""
        flow.sock.setsockopt(_SOL_UDP, _UDP_SEGMENT, DATAGRAM)
        bytes_per_s = flow.tenant.tenant.rate_bits / 8
        count = max(1, min(MAX_DATAGRAMS, round(bytes_per_s * DATAGRAMS_S / DATAGRAM)))
        gap = count * DATAGRAM / bytes_per_s
        due = time.monotonic()

        def send() -> None:
            nonlocal due
            if flow.closed:
                return
            size = count * DATAGRAM if flow.left is None else min(count * DATAGRAM, flow.left)
            try:
                flow.tenant.counters.sent_bytes += flow.sock.send(self._block[:size])
                if flow.left is not None:
                    flow.left -= size
            except (BlockingIOError, ConnectionRefusedError):
                # The sender's link is slower than the flow; or its receiver is gone, which UDP does not mind.
                pass
            except OSError as problem:
                flow.tenant.counters.failed += 1
                flow.tenant.counters.error = str(problem)
                self._end(flow)
                return
            if flow.left == 0:
                self._end(flow, complete=True)
                return
            due = max(due + gap, time.monotonic() - LATE_S)
            self._later(due, send)

        send()

    def _end(self, flow: _Flow, *, complete: bool = False) -> None:
        """Ends a flow, and discards what it has not sent."""
        if flow.closed:
            return
        flow.closed = True
        running = flow.tenant
        running.flows.discard(flow)
        if running.tenant.protocol == "tcp":
            self._senders.pop(flow.own, None)
            sent, again = flow.sent()
            running.counters.sent_bytes += sent
            running.counters.retransmitted_bytes += again
            if not complete:
                # Reset the connection, so that nothing is sent after the end.
                flow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._forget(flow.sock)
        # What is on its way still counts. The receiving end does not notice the end of a flow if the reset is lost.
        self._later(time.monotonic() + DRAIN_S, lambda: self._drained(flow))
        running.counters.complete += complete
        flow.sock.close()

    def _drained(self, flow: _Flow) -> None:
        """Forgets a flow that has ended."""
        if self._senders.get(flow.own) is flow:
            del self._senders[flow.own]
        if flow.receiver is not None:
            self._close(flow.receiver)

    def _close(self, receiver: socket.socket) -> None:
        """Closes the receiving end of a TCP flow, if it is open."""
        if receiver.fileno() >= 0:
            self._forget(receiver)
            receiver.close()

    def _listen(self, number: int, address: str) -> None:
        """Receives flows at a host or machine."""
        protocols = {tenant.protocol for tenant in self._plan.tenants if number in tenant.receivers}
        if "tcp" in protocols:
            listener = self._namespaces.socket(number, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, PORT))
            listener.listen(256)
            self._watch(listener, select.EPOLLIN, lambda _: self._accept(listener))
        if "udp" in protocols:
            sock = self._namespaces.socket(number, socket.SOCK_DGRAM)
            sock.bind((address, PORT))
            sock.setsockopt(_SOL_UDP, _UDP_GRO, 1)
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER)
            self._watch(sock, select.EPOLLIN, lambda _: self._receive_datagrams(sock))

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, peer = listener.accept()
        except OSError:
            return
        flow = self._senders.pop(peer[:2], None)
        if flow is None:
            # The flow has ended already, or this is no flow of a tenant.
            sock.close()
            return
        running, flow.receiver = flow.tenant, sock
        sock.settimeout(0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _backlog(running.tenant.rate_bits / 8) // 2)
        self._watch(sock, select.EPOLLIN, lambda _: self._receive(sock, running))

    def _receive(self, sock: socket.socket, running: _Running) -> None:
        """Discards what has arrived, and counts it."""
        try:
            count = sock.recv_into(self._block, BLOCK, socket.MSG_TRUNC)
        except BlockingIOError:
            return
        except OSError:
            # The sender has ended the flow.
            count = 0
        running.counters.received_bytes += count
        if not count:
            self._close(sock)

    def _receive_datagrams(self, sock: socket.socket) -> None:
        try:
            count, peer = sock.recvfrom_into(self._block, BLOCK, socket.MSG_TRUNC)
        except OSError:
            return
        if (flow := self._senders.get(peer[:2])) is not None:
            flow.tenant.counters.received_bytes += count


def _backlog(bytes_per_s: float) -> int:
    """Returns the bytes that a TCP flow of this rate keeps unsent; 0 is the rate of a greedy flow."""
    return max(MIN_BACKLOG, min(MAX_BACKLOG, round(bytes_per_s * PACED_S))) if bytes_per_s else MAX_BACKLOG


def _configure(sock: socket.socket, bytes_per_s: float) -> None:
    """Paces a TCP flow, and limits what it keeps unsent."""
    if bytes_per_s:
        sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("Q", round(bytes_per_s)))
    sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _backlog(bytes_per_s))


def main() -> None:
    """Reads a plan, and runs a generator in the background."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 1 << 16)), hard))
    try:
        generator = Generator(Plan.from_json(sys.stdin.readline()))
    except OSError as problem:
        raise SystemExit(str(problem)) from None
    if os.fork():
        # The caller need not wait for the background process, which another process adopts.
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    generator.run()


if __name__ == "__main__":
    main()
