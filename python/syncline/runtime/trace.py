"""What ranks did when, as a Perfetto trace.

The trace has a process for each rank, named ``rank 3, measured``, with a track for the job's collectives and one for
those of each group. A simulated run's trace can be in the same file, to see both below each other.
"""

from __future__ import annotations

import json
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from syncline import _core
from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.files import write_whole
from syncline.input.problem import bad_value, cannot_write, error, raise_errors, require_writable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.runtime.communicator import Communicator

__all__ = ["Operation", "Recording", "Trace"]

SPACE = 0x74_72_61_63_65
"""The space of tags of the messages that bring traces together."""


@dataclass(frozen=True)
class Operation:
    """A collective that has succeeded on this rank. Times are those of ``time.monotonic``."""

    group: str
    """The name of the group; empty for the whole job."""
    kind: str
    bytes: int
    began_s: float
    ended_s: float


@dataclass(frozen=True)
class Recording:
    """Collectives that a rank has recorded."""

    operations: Sequence[Operation]
    left_out: int
    """Collectives that were not recorded, because there were too many."""


def recording(rows: Sequence[Any], left_out: int, groups: Mapping[int, str], now: float) -> Recording:
    """Returns what was recorded from the rows of the core, with the names of groups by their numbers.

    ``now`` is when the core was asked, by ``time.monotonic``.
    """
    operations = [
        Operation(groups.get(group, str(group)) if group else "", kind, size, now - began, now - ended)
        for group, kind, size, began, ended in rows
    ]
    return Recording(operations, left_out)


class Trace:
    """Records the collectives of a job, and writes them as a Perfetto trace.

    All ranks make one, and use it alike::

        with Trace(ranks, "job.pftrace"):
            train(ranks)

    Rank 0 writes the file at the end, unless an exception ends the block. The trace is of one epoch, and no other
    collective may be under way where it begins and ends. Open it at <https://ui.perfetto.dev>. Times count from a
    barrier at the beginning, so that ranks agree on them to about a round trip.

    ``beside`` is the ``trace.pftrace`` of a simulated run; the file then shows both. Ranks that are simulated have the
    names ``rank 3``.
    """

    def __init__(self, ranks: Communicator, file: str | Path, *, beside: str | Path | None = None) -> None:
        """Checks the files on rank 0, and tells the other ranks.

        Raises ``SynclineError`` on all ranks if ``file`` cannot be written (SL0801), or ``beside`` not read (SL0105),
        and if ``ranks`` is a group (SL0102).
        """
        self.left_out = 0
        """Collectives that are not in the file, because there were too many; known on rank 0 at the end."""
        self._ranks = ranks
        self._file = Path(file)
        self._beside = b""
        self._began_s = 0.0
        ranks.require_job("record collectives")
        usable = array("i", [1])
        problem = None
        if ranks.rank == 0:
            try:
                require_writable(self._file)
                self._beside = b"" if beside is None else _read(beside)
            except SynclineError as found:
                usable[0], problem = 0, found
        ranks.broadcast(usable).wait()
        if problem is not None:
            raise problem
        if not usable[0]:
            raise_errors(cannot_write(str(file), "rank 0 cannot use the files of the trace, and says why"))

    def __enter__(self) -> Self:
        self._ranks.barrier().wait()
        self._began_s = time.monotonic()
        self._ranks.record(on=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        recorded = self._ranks.record(on=False)
        if kind is None:
            self._save(recorded)

    def _save(self, recorded: Recording) -> None:
        """Brings what all ranks recorded together on rank 0, and writes it there."""
        rows = [
            (each.group, each.kind, each.bytes, each.began_s - self._began_s, each.ended_s - self._began_s)
            for each in recorded.operations
            if each.began_s >= self._began_s
        ]
        own = json.dumps([recorded.left_out, rows]).encode()
        sizes = array("q", [0] * self._ranks.world)
        self._ranks.all_gather(array("q", [len(own)]), sizes).wait()
        if self._ranks.rank > 0:
            self._ranks.send(bytearray(own), 0, space=SPACE).wait()
            return
        everyone = [own]
        for rank in range(1, self._ranks.world):
            text = bytearray(sizes[rank])
            self._ranks.receive(text, rank, space=SPACE).wait()
            everyone.append(bytes(text))
        self._write([json.loads(text) for text in everyone])

    def _write(self, everyone: Sequence[Any]) -> None:
        """Writes the trace of all ranks."""
        groups: dict[str, int] = {}
        spans = []
        for place, (_, rows) in enumerate(everyone):
            for group, kind, size, began, ended in rows:
                number = groups.setdefault(group, len(groups) + 1) if group else 0
                spans.append((self._ranks.ranks[place], number, kind, size, began, ended))
        trace, self.left_out = _core.measured_trace(spans, list(groups), sum(left_out for left_out, _ in everyone))
        try:
            write_whole(self._file, self._beside + trace)
        except OSError as problem:
            raise_errors(cannot_write(str(self._file), problem))


def _read(file: str | Path) -> bytes:
    help = "give the `trace.pftrace` of a run's folder"
    try:
        content = Path(file).read_bytes()
    except OSError as problem:
        message = f"cannot read: {problem.strerror}"
        raise_errors(error(Code.UNREADABLE, message, found=str(file), help=help))
    # A trace is a list of packets, which are field 1 of a protocol buffer.
    if not content.startswith(b"\n"):
        raise bad_value("this is not a Perfetto trace", str(file), help=help)
    return content
