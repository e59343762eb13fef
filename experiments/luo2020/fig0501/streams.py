"""Program of one rank in Figure 5.2: streams of TCP to the first rank, which prints what arrived.

``streams.py buffers SECONDS SIZES STREAMS``: the second rank sends buffers of each size on each number of connections.
On each connection one buffer is on its way at a time; the first rank answers it with a byte. Rank 0 prints the bytes
per second of each case, as a list of ``[size, streams, rate]``.

``streams.py fair SECONDS``: all other ranks send on one connection each, as fast as they can. Rank 0 prints what
arrived from each of them in each second.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time

PORT = 29_430
WARM_UP_S = 0.2
"""Time before rates count, in which connections open their windows."""
PIECE = 256 << 10


def listener() -> socket.socket:
    """A socket at which rank 0 listens."""
    return socket.create_server((os.environ["SYNCLINE_PEERS"].split(",")[0], PORT), backlog=64)


def connected() -> socket.socket:
    """A connection to rank 0, which may not listen yet."""
    until = time.monotonic() + 60
    while True:
        try:
            made = socket.create_connection((os.environ["SYNCLINE_PEERS"].split(",")[0], PORT))
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
            continue
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def receive_buffers(cases: list[tuple[int, int]], seconds: float) -> list[tuple[int, int, float]]:
    """Receives buffers, answers each with a byte, and returns the rate of each case."""
    found = []
    with listener() as door:
        for size, streams in cases:
            with selectors.DefaultSelector() as waiting:
                left: dict[socket.socket, int] = {}
                for _ in range(streams):
                    each, _ = door.accept()
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    left[each] = size
                    waiting.register(each, selectors.EVENT_READ, each)
                began, total, memory = time.perf_counter(), 0, bytearray(PIECE)
                while (now := time.perf_counter()) < began + WARM_UP_S + seconds:
                    for key, _ in waiting.select(1.0):
                        stream: socket.socket = key.data
                        count = stream.recv_into(memory, min(PIECE, left[stream]))
                        left[stream] -= count
                        total += count if now > began + WARM_UP_S else 0
                        if left[stream] == 0:
                            stream.send(b"0")
                            left[stream] = size
                found.append((size, streams, total / (time.perf_counter() - began - WARM_UP_S)))
                for each in left:
                    each.close()
    return found


def send_buffers(cases: list[tuple[int, int]]) -> None:
    """Sends buffers, one after the other on each connection, until the receiver closes the connections."""
    for size, streams in cases:
        buffer = bytes(size)
        opened = [connected() for _ in range(streams)]
        with selectors.DefaultSelector() as waiting:
            try:
                for each in opened:
                    waiting.register(each, selectors.EVENT_READ, each)
                    each.sendall(buffer)
                while True:
                    for key, _ in waiting.select():
                        stream: socket.socket = key.data
                        if not stream.recv(1):
                            raise ConnectionResetError
                        stream.sendall(buffer)
            except ConnectionError:
                pass
        for each in opened:
            each.close()


def receive_fairly(senders: int, seconds: int) -> list[list[int]]:
    """The bytes that arrive from each sender in each second."""
    with listener() as door, selectors.DefaultSelector() as waiting:
        numbers: dict[socket.socket, int] = {}
        for _ in range(senders):
            stream, _ = door.accept()
            # A sender says its number first.
            numbers[stream] = stream.recv(1)[0] - 1
            waiting.register(stream, selectors.EVENT_READ, stream)
        found = [[0] * senders for _ in range(seconds)]
        memory = bytearray(PIECE)
        began = time.perf_counter()
        for stream in numbers:
            stream.send(b"0")
        while (second := int(time.perf_counter() - began)) < seconds:
            for key, _ in waiting.select(1.0):
                sender: socket.socket = key.data
                found[second][numbers[sender]] += sender.recv_into(memory)
        for stream in numbers:
            stream.close()
    return found


def send_fairly(rank: int) -> None:
    """Sends until the receiver closes the connection."""
    with connected() as stream:
        stream.send(bytes([rank]))
        stream.recv(1)
        try:
            while True:
                stream.sendall(bytes(PIECE))
        except ConnectionError:
            pass


def main(arm: str, seconds: float, *more: str) -> None:
    """Runs a rank."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    found: object = None
    if arm == "fair":
        if rank == 0:
            found = receive_fairly(world - 1, int(seconds))
        else:
            send_fairly(rank)
    else:
        sizes, streams = ([int(each) for each in listed.split(",")] for listed in more)
        cases = [(size, count) for size in sizes for count in streams]
        if rank == 0:
            found = receive_buffers(cases, seconds)
        else:
            send_buffers(cases)
    if rank == 0:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
