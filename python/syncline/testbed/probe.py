"""Measures a path between hosts, from within their namespaces. This program imports nothing from this package.

``probe.py serve CONTROL ADDRESS PORT`` answers on a host. ``probe.py rate CONTROL ADDRESS PORT OWN`` connects to it
from the address ``OWN`` and prints ``ready``. It then reads two times of this machine's monotonic clock from stdin,
sends as fast as it can, and prints the bytes per second of payload that arrived between these times. ``probe.py latency
CONTROL ADDRESS PORT OWN COUNT`` prints the times of ``COUNT`` round trips of 4 bytes, in seconds. ``CONTROL`` is the
congestion control.
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
RATE, LATENCY = b"R", b"L"


def _configure(sock: socket.socket, control: str) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())


def _exactly(sock: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        more = sock.recv(count - len(got))
        if not more:
            raise ConnectionError("the other end has closed the connection")
        got += more
    return got


def _answer(sock: socket.socket, control: str) -> None:
    """Serves one connection: counts the bytes that it receives, or sends them back."""
    _configure(sock, control)
    with sock:
        if _exactly(sock, 1) == LATENCY:
            while message := sock.recv(4):
                sock.sendall(message)
            return
        begin, end = struct.unpack("!dd", _exactly(sock, 16))
        block = memoryview(bytearray(BLOCK))
        while time.monotonic() < begin:
            if not sock.recv_into(block):
                return
        began, count = time.monotonic(), 0
        while (now := time.monotonic()) < end:
            got = sock.recv_into(block)
            if not got:
                break
            count += got
        sock.sendall(struct.pack("!d", count / max(now - began, 1e-9)))
        # Closing a socket with unread bytes resets the connection, and may discard the answer on its way.
        sock.settimeout(5)
        with contextlib.suppress(OSError):
            while sock.recv(BLOCK):
                pass


def serve(control: str, address: str, port: int) -> None:
    """Answers until the process is ended."""
    with socket.create_server((address, port), backlog=64) as listener:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_answer, args=(sock, control), daemon=True).start()


def _connect(control: str, address: str, port: int, own: str, kind: bytes) -> socket.socket:
    sock = socket.create_connection((address, port), timeout=10, source_address=(own, 0))
    # The timeout is for connecting only.
    sock.settimeout(None)
    _configure(sock, control)
    sock.sendall(kind)
    return sock


def rate(control: str, address: str, port: int, own: str) -> None:
    """Prints the rate at which bytes of one connection arrive between two times, which it reads from stdin."""
    with _connect(control, address, port, own, RATE) as sock:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        begin, end = map(float, sys.stdin.readline().split())
        sock.sendall(struct.pack("!dd", begin, end))
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
            # The other end has finished counting, and closed the connection.
            waiting.join(5)
    sys.stdout.write(json.dumps(answer) + "\n")


def latency(control: str, address: str, port: int, own: str, count: int) -> None:
    """Prints the times of round trips of 4 bytes."""
    times = []
    with _connect(control, address, port, own, LATENCY) as sock:
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
        rate(by, where, int(at), rest[0])
    else:
        latency(by, where, int(at), rest[0], int(rest[1]))
