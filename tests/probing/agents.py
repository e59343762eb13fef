"""Agents on this machine that tests give orders to, and a relay between them that harms packets as told."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from syncline.probing import agent

PROGRAM = Path(agent.__file__)
SECRET = bytes(range(32))


class LocalAgent:
    """An agent that was begun at a loopback address."""

    def __init__(self, own, *, address=None, secret=SECRET, silence_s=30.0, port=0):
        self.own = own
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.hello = self._read()
        address = address or f"127.0.0.{own + 2}"
        self.began = self.ask(
            order="begin", secret=secret.hex(), own=own, addresses=[address], port=port, silence_s=silence_s
        )
        self.bound = self.began.get("bound")

    def _read(self):
        token, _, rest = self.process.stdout.readline().partition(" ")
        assert token == ""
        return json.loads(rest)

    def send(self, **order):
        """Sends an order."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def ask(self, **order):
        """Sends an order; returns the answer."""
        self.send(id=1, **order)
        return self._read()

    def echo(self, peer, to, number=1, count=100, **more):
        """Measures round trips to a host."""
        order = {"least": 36, "time_s": 10.0, "limit_s": 10.0, "own": None, **more}
        return self.ask(order="echo", round=number, peer=peer, to=to, count=count, **order)

    def rate(self, peer, to, number=1, time_s=0.2):
        """Measures the rate to a host."""
        return self.ask(order="rate", round=number, peer=peer, to=to, own=None, time_s=time_s, limit_s=5.0)

    def close(self):
        """Ends the agent."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


class Relay:
    """Passes packets between a host and an agent's UDP port.

    ``requests`` and ``replies`` get each packet and its number, and return what to pass on: pairs of a delay in seconds
    and a packet. Contact packets pass unharmed and are not counted.
    """

    def __init__(self, target, requests=None, replies=None):
        self.target = target[0][:2]
        self._requests = requests or (lambda packet, _: [(0.0, packet)])
        self._replies = replies or (lambda packet, _: [(0.0, packet)])
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.to = [["127.0.0.1", self.sock.getsockname()[1], target[0][2]]]
        self._client = None
        self._counts = {"request": 0, "reply": 0}
        self.seen = []
        """All packets that came, in order."""
        self.held_ns = {}
        """By sequence number: from the kernel's receipt of a request until its reply was passed on."""
        self._came_ns = {}
        agent.stamp_arrivals(self.sock)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                packet, came_ns, _, sender = agent.receive(self.sock)
            except OSError:
                return
            self.seen.append(packet)
            reply = sender == tuple(self.target)
            if not reply:
                self._client = sender
            goal = self._client if reply else tuple(self.target)
            sequence = agent.HEADER.unpack(packet[: agent.HEADER.size])[4]
            if sequence >= agent.FIRST_CONTACT:
                self.sock.sendto(packet, goal)
                continue
            if not reply:
                self._came_ns[sequence] = came_ns
            kind = "reply" if reply else "request"
            number = self._counts[kind]
            self._counts[kind] += 1
            for delay_s, each in (self._replies if reply else self._requests)(packet, number):
                start = self._came_ns.get(sequence) if reply else None
                if delay_s:
                    threading.Thread(
                        target=self._send, args=(delay_s, each, goal, sequence, start), daemon=True
                    ).start()
                else:
                    self._send(0.0, each, goal, sequence, start)

    def _send(self, delay_s, packet, goal, sequence, start_ns):
        if delay_s:
            time.sleep(delay_s)
        if start_ns is not None:
            self.held_ns[sequence] = time.time_ns() - start_ns
        with contextlib.suppress(OSError):
            self.sock.sendto(packet, goal)

    def close(self):
        """Ends the relay."""
        self.sock.close()
