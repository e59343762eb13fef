"""Collectives of your own, written as Python generators.

A generator yields the instructions of one rank, in order. :func:`plan` calls it for every rank, and proves by symbolic
execution that every rank ends with the result that the collective promises.

>>> from syncline.plans import plan, receive, send, wait
>>> def ring(rank, ranks):
...     for step in range(ranks - 1):
...         yield send((rank + 1) % ranks, block=(rank - step) % ranks)
...         yield receive((rank - 1) % ranks, block=(rank - step - 1) % ranks)
...         yield wait()
>>> mine = plan("my_ring", "all_gather", 4, ring)  # doctest: +SKIP
>>> mine.save("my_ring.json")  # doctest: +SKIP

A scenario uses it with ``collectives: { plans: { all_gather: my_ring.json } }``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syncline.files import write_whole

__all__ = [
    "Count",
    "Instruction",
    "Plan",
    "after",
    "copy",
    "count",
    "plan",
    "receive",
    "send",
    "wait",
]

Instruction = dict[str, Any]
"""One instruction, in the form of a plan file."""

Program = Callable[[int, int], Iterable[Instruction] | Iterable[Iterable[Instruction]]]
"""``program(rank, ranks)`` yields the rank's instructions, or one iterable of instructions for each of its streams."""


def send(to: int, block: int, count: int = 1, *, of: int | None = None, buffer: str = "data") -> Instruction:
    """Starts to send ``count`` blocks, beginning with ``block``, to rank ``to``; does not wait."""
    return _instruction("send", to=to, block=block, count=count, of=of, buffer=buffer)


def receive(
    source: int, block: int, count: int = 1, *, reduce: bool = False, of: int | None = None, buffer: str = "data"
) -> Instruction:
    """Starts to receive blocks from rank ``source``; does not wait. With ``reduce``, combines them with local ones."""
    # `from` is a Python keyword, so the argument has a different name than the key.
    return _instruction("receive", **{"from": source}, block=block, count=count, of=of, buffer=buffer, reduce=reduce)


def wait() -> Instruction:
    """Waits until every receive so far in this stream is complete."""
    return {"op": "wait"}


def after(stream: int, ops: int) -> Instruction:
    """Waits until another stream of the same rank has completed its first ``ops`` instructions."""
    return {"op": "after", "stream": stream, "ops": ops}


def copy(source: tuple[str, int], target: tuple[str, int], count: int = 1, *, reduce: bool = False) -> Instruction:
    """Copies ``count`` blocks in the rank, from one ``(buffer, block)`` to another; with ``reduce``, combines them."""
    return _instruction(
        "copy",
        **{"from": _instruction(None, buffer=source[0], block=source[1], count=count)},
        to=_instruction(None, buffer=target[0], block=target[1], count=count),
        reduce=reduce,
    )


def _instruction(op: str | None, **arguments: Any) -> Instruction:
    """Makes an instruction, without the keys that have the plan file's default values."""
    defaults = {"count": 1, "of": None, "buffer": "data", "reduce": False}
    kept = {key: value for key, value in arguments.items() if key not in defaults or value != defaults[key]}
    return kept if op is None else {"op": op, **kept}


@dataclass(frozen=True)
class Plan:
    """A plan that was proved to compute its collective."""

    content: dict[str, Any]
    """The content of the plan file."""

    @property
    def name(self) -> str:
        """Name of the plan in tables."""
        return str(self.content["name"])

    def save(self, path: str | Path) -> Path:
        """Writes the plan file; returns its path."""
        path = Path(path)
        write_whole(path, json.dumps(self.content, indent=1) + "\n")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Reads a plan file and proves it.

        Raises :class:`syncline.SynclineError` if it cannot be read or does not compute its collective.
        """
        from syncline import _core

        return cls(json.loads(_core.prove_plan_file(path)))


@dataclass(frozen=True)
class Count:
    """The messages and bytes that an algorithm of the library sends."""

    rounds: int
    """Length of the longest chain of messages, each of which waits for the one before."""
    messages: int
    """Number of messages."""
    wire_bytes: int
    """Bytes of all messages."""
    across_bytes: int
    """Bytes of messages between seats of different groups."""
    sent_bytes: list[int]
    """Bytes that each seat sends: ranks first, then hubs with seats of their own."""
    received_bytes: list[int]
    """Bytes that each seat receives, in the same order."""


def count(algorithm: str, kind: str, ranks: int, nbytes: int, groups: Iterable[int]) -> Count:
    """Counts the messages that an algorithm sends for a vector of ``nbytes``.

    ``groups`` holds the group of each seat, such as its rack: those of ranks, then those of hubs with seats of their
    own. Raises :class:`syncline.SynclineError` if the library does not have the algorithm, or the algorithm does not
    offer the collective; and ``ValueError`` if ``groups`` does not have one entry for each seat.
    """
    from syncline import _core

    return Count(*_core.count_plan(algorithm, kind, ranks, nbytes, list(groups)))


def plan(
    name: str,
    kind: str,
    ranks: int,
    program: Program,
    *,
    blocks: int | None = None,
    result: str | None = None,
) -> Plan:
    """Makes a plan from a generator, and proves it.

    ``kind`` is a collective such as ``all_reduce``. ``blocks`` is the number of blocks in a buffer; by default, the
    number of ranks. ``result`` is the buffer that holds the result; by default ``data``, but ``output`` for all-to-all.

    Raises :class:`syncline.SynclineError` if the proof fails; the error names the wrong rank and block.
    """
    from syncline import _core

    content: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "ranks": ranks,
        "blocks": ranks if blocks is None else blocks,
    }
    if result is not None:
        content["result"] = result
    content["seats"] = [{"streams": _streams(program(rank, ranks))} for rank in range(ranks)]
    _core.prove_plan(json.dumps(content))
    return Plan(content)


def _streams(program: Iterable[Instruction] | Iterable[Iterable[Instruction]]) -> list[dict[str, Any]]:
    """The streams of a rank: one for a program of instructions, else one for each iterable that it yields."""
    items: list[Any] = list(program)
    if all(isinstance(item, dict) for item in items):
        return [{"ops": items}]
    if any(isinstance(item, dict) for item in items):
        raise TypeError("a program must yield either instructions or iterables of instructions, not both")
    return [{"ops": list(stream)} for stream in items]
