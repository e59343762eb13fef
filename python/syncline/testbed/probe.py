"""Measures a path between hosts, from within their namespaces. A program by itself: it imports nothing of this package.

``probe.py serve CONTROL ADDRESS PORT`` answers on a host. ``probe.py rate CONTROL ADDRESS PORT SECONDS`` sends as fast
as it can and prints bytes per second of payload that arrived. ``probe.py latency CONTROL ADDRESS PORT COUNT`` prints
the times of ``COUNT`` round trips of 4 bytes, in seconds. ``CONTROL`` is the congestion control.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import threading
import time

BLOCK = 1 << 20
WARM_UP_S = 0.3
"""Left out of a rate: congestion control has to find it."""
RATE, LATENCY = b"R", b"L"


def _own(sock: socket.socket, control: str) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())


def _exactly(sock: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        more = sock.recv(count - len(got))
        if not more:
            raise ConnectionError("the other end has gone")
        got += more
    return got


def _answer(sock: socket.socket, control: str) -> None:
    """Serves one connection: counts bytes, or sends back what comes."""
    _own(sock, control)
    with sock:
        if _exactly(sock, 1) == LATENCY:
            while message := sock.recv(4):
                sock.sendall(message)
            return
        (wanted,) = struct.unpack("!d", _exactly(sock, 8))
        block = memoryview(bytearray(BLOCK))
        started = time.monotonic()
        while time.monotonic() - started < WARM_UP_S:
            if not sock.recv_into(block):
                return
        began, count = time.monotonic(), 0
        while (elapsed := time.monotonic() - began) < wanted:
            got = sock.recv_into(block)
            if not got:
                break
            count += got
        sock.sendall(struct.pack("!d", count / elapsed))
        # To close with bytes unread would take back the answer, which may still be on its way.
        sock.settimeout(5)
        with contextlib.suppress(OSError):
            while sock.recv(BLOCK):
                pass


def serve(control: str, address: str, port: int) -> None:
    """Answers until it is ended."""
    with socket.create_server((address, port), backlog=64) as listener:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_answer, args=(sock, control), daemon=True).start()


def _connect(control: str, address: str, port: int, kind: bytes) -> socket.socket:
    sock = socket.create_connection((address, port), timeout=10)
    _own(sock, control)
    sock.sendall(kind)
    return sock


def rate(control: str, address: str, port: int, seconds: float) -> None:
    """Prints what arrives when one connection sends for so long."""
    with _connect(control, address, port, RATE) as sock:
        sock.sendall(struct.pack("!d", seconds))
        block = bytes(BLOCK)
        answer: list[float] = []

        def listen() -> None:
            answer.append(struct.unpack("!d", _exactly(sock, 8))[0])

        waiting = threading.Thread(target=listen, daemon=True)
        waiting.start()
        try:
            while not answer:
                sock.send(block)
        except OSError:
            # The other end has counted enough and closed.
            waiting.join(5)
    sys.stdout.write(json.dumps(answer) + "\n")


def latency(control: str, address: str, port: int, count: int) -> None:
    """Prints the times of round trips of 4 bytes."""
    times = []
    with _connect(control, address, port, LATENCY) as sock:
        for _ in range(count):
            began = time.perf_counter()
            sock.sendall(b"ping")
            _exactly(sock, 4)
            times.append(time.perf_counter() - began)
    sys.stdout.write(json.dumps(times) + "\n")


if __name__ == "__main__":
    what, by, where, at, *rest = sys.argv[1:]
    if what == "serve":
        serve(by, where, int(at))
    elif what == "rate":
        rate(by, where, int(at), float(rest[0]))
    else:
        latency(by, where, int(at), int(rest[0]))
