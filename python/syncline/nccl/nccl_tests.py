"""Reads the output of nccl-tests, such as that of ``all_reduce_perf``.

A file may hold several runs, and lines of launchers around them. A run has a line for each GPU
(``#  Rank  0 Group  0 Pid 123 on  host device  0 ...``), a header with the names of columns, and a line for each size.
Versions differ in the columns between ``type`` and the first ``time``, and in the name of the column of errors.

Each line says a time and a rate, which must agree: so a column that is missing or elsewhere, and times in another unit,
are errors.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.nccl.cut_output import Extent
from syncline.nccl.rows import ELEMENT_BYTES, Row

if TYPE_CHECKING:
    from syncline.errors import Diagnostic

MAX_BYTES = 64 * 1024 * 1024
"""Largest file."""
PROGRAMS = {
    "all_reduce_perf": "all_reduce",
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "alltoall_perf": "all_to_all",
    "broadcast_perf": "broadcast",
    "sendrecv_perf": "send_recv",
}
"""Programs whose operation has a model."""
_OTHERS = ("reduce_perf", "gather_perf", "scatter_perf", "hypercube_perf")

_PREFIX = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\[?\d+\]?:(?=\s)|\d{4}-\d\d-\d\d[T ][0-9:.,+Z]+\s)\s?")
"""What mpirun, srun and loggers put before lines."""
_PROGRAM = re.compile(r"(?<![a-z_])([a-z]+(?:_[a-z]+)*_perf)\b")
_RANK = re.compile(r"#\s+Rank\s+(\d+)\b.*?\bon\s+(\S+)\s+device\s+\d+\s+(?:\[[^\]]*\]\s*)?(.*)$")
_VERSION = re.compile(r"NCCL version\s+([0-9][0-9.]*[0-9])|nccl-library=(\d+)")
_FAILED = re.compile(r"\bTest (?:NCCL |CUDA )?failure\b")
_SIZE = re.compile(r"\d+$")
_SIZES_OF_RUN = "minBytes"
"""In the line that says the sizes of a run, near its beginning."""
_CELLS = 6
"""Fewest cells of a line with times."""
_UNIT = re.compile(r"#\s+\(B\)\s+\(elements\)\s+\((\w+)\)")
UNIT = "us"
"""The unit of times."""
_ROUNDED, _DIGIT = 0.05, 0.01
"""By how much the rate may differ from size by time, as a part of it and in GB/s, since both are printed rounded."""


@dataclass
class _Run:
    """One run of a program."""

    operation: str | None = None
    ranks: dict[int, str] = field(default_factory=dict)
    gpu: str = ""
    columns: list[str] = field(default_factory=list)
    ended: bool = False
    extent: Extent = field(default_factory=Extent)


def read(
    path: str,
    *,
    operation: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    warnings: list[Diagnostic] | None = None,
) -> list[Row]:
    """The times that a file holds: those of out-of-place calls.

    ``operation``, ``gpus`` and ``nodes`` replace what the file says, and are needed where it says nothing. ``warnings``
    receives one for each run that seems to have been cut.

    :raises SynclineError: the file cannot be read, holds no times, or does not say what was measured.
    """
    lines = read_file(path, MAX_BYTES).splitlines()
    text = Text(path, lines)
    run = _Run()
    runs = [run]
    version = ""
    rows: list[Row] = []
    for number, raw in enumerate(lines, 1):
        line = raw
        while (prefix := _PREFIX.match(line)) and prefix.end():
            line = line[prefix.end() :]
        if found := _VERSION.search(line):
            version = found[1] or _version(int(found[2]))
        mark = Mark(text, number, 1, 0)
        if (program := _PROGRAM.search(line)) and not _is_times(line):
            run = _begun(runs)
            run.extent.heading(line)
            run.operation = _operation(program[1], mark, given=operation is not None)
        elif rank := _RANK.match(line.strip()):
            run = _begun(runs)
            run.ranks[int(rank[1])] = rank[2]
            gpu = rank[3].strip()
            if run.gpu not in ("", gpu):
                raise_errors(_mixed(run.gpu, gpu, mark))
            run.gpu = gpu
        elif line.lstrip().startswith("#"):
            if _SIZES_OF_RUN in line:
                run = _begun(runs)
            run.extent.heading(line)
            names = line.strip().lstrip("#").split()
            if names[:3] == ["size", "count", "type"]:
                run.columns = names
            elif (unit := _UNIT.match(line.strip())) and unit[1] != UNIT:
                raise_errors(
                    error(
                        Code.BAD_VALUE,
                        "times have another unit than nccl-tests prints",
                        mark=mark,
                        found=unit[1],
                        allowed=UNIT,
                        help="convert the times of this run to us, or measure again",
                    )
                )
        elif _is_times(line):
            run.ended = True
            rows.append(_row(path, line.split(), run, mark, version, operation, gpus, nodes))
            run.extent.time(rows[-1].bytes, rows[-1].gpus, mark)
    last = lines[-1].split() if lines else []
    if rows and last and len(last) < _CELLS and all(map(_SIZE.fullmatch, last[:2])):
        raise_errors(
            error(
                Code.BAD_SYNTAX,
                "the file ends within a line",
                mark=Mark(text, len(lines), 1, 0),
                found=lines[-1].strip()[:80],
                help="copy the whole output, or remove this line",
            )
        )
    if not rows and (failed := next((number for number, line in enumerate(lines, 1) if _FAILED.search(line)), None)):
        raise_errors(
            error(
                Code.BAD_SYNTAX,
                "nccl-tests ended with an error before its first time",
                mark=Mark(text, failed, 1, 0),
                help="find the cause (NCCL_DEBUG=INFO prints more), and measure again",
            )
        )
    if not rows:
        raise_errors(
            error(
                Code.BAD_SYNTAX,
                "not the output of nccl-tests: no line with a size, a count, a type and times",
                mark=Mark(text, 0, 0, 0),
                help="save what all_reduce_perf and its siblings print, with the lines that begin with #",
            )
        )
    if warnings is not None:
        warnings.extend(cut for each in runs if (cut := each.extent.problem()) is not None)
    return rows


def _mixed(gpu: str, other: str, mark: Mark | None) -> Diagnostic:
    return error(
        Code.BAD_VALUE,
        "times of different GPUs make no machine",
        mark=mark,
        found=f"{gpu}, {other}",
        allowed="one kind of GPU",
        help="calibrate each kind by itself, from the output of its own runs",
    )


def _begun(runs: list[_Run]) -> _Run:
    """The run that a heading belongs to: a new one after lines with times."""
    if runs[-1].ended:
        runs.append(_Run())
    return runs[-1]


def _is_times(line: str) -> bool:
    cells = line.split()
    return len(cells) >= _CELLS and all(_SIZE.fullmatch(cell) for cell in cells[:2]) and cells[2].isidentifier()


def _version(code: int) -> str:
    """The version that a number such as 22304 or 2708 stands for."""
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"


def _operation(program: str, mark: Mark, *, given: bool) -> str | None:
    if program in _OTHERS and not given:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "the operation of this program has no model",
                mark=mark,
                found=program,
                allowed=", ".join(PROGRAMS),
                help="remove this run from the file",
            )
        )
    return PROGRAMS.get(program)


def _row(
    path: str,
    cells: list[str],
    run: _Run,
    mark: Mark,
    version: str,
    operation: str | None,
    gpus: int | None,
    nodes: int | None,
) -> Row:
    operation = operation or run.operation
    if operation is None:
        raise_errors(
            error(
                Code.MISSING_KEY,
                "the file does not say which operation was measured",
                mark=mark,
                allowed=", ".join(_core.nccl_operations()),
                help="add --operation all_reduce, or another of these",
            )
        )
    ranks = gpus or len(run.ranks)
    hosts = nodes or len(set(run.ranks.values())) or 1
    if ranks < 2:
        raise_errors(
            error(
                Code.MISSING_KEY if not ranks else Code.BAD_VALUE,
                "the file does not say how many GPUs took part" if not ranks else "times of one GPU tell nothing",
                mark=mark,
                found=str(ranks) if ranks else None,
                allowed="2 GPUs or more",
                help="add --gpus N, or keep the lines that begin with `#  Rank`"
                if not ranks
                else "measure several GPUs",
            )
        )
    if ranks % hosts:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "nodes have different numbers of GPUs",
                mark=mark,
                found=f"{ranks} GPUs in {hosts} nodes",
                allowed="the same number in each node",
                help="if that is wrong, add --gpus N and --nodes M",
            )
        )
    data_type = cells[2]
    if data_type not in ELEMENT_BYTES:
        raise_errors(
            error(Code.BAD_VALUE, "unknown data type", mark=mark, found=data_type, allowed=", ".join(ELEMENT_BYTES))
        )
    seconds = _time(cells, run.columns)
    if seconds is None:
        raise_errors(
            error(
                Code.BAD_SYNTAX,
                "a line has no time",
                mark=mark,
                found=" ".join(cells)[:80],
                allowed="size, count, type, (redop, root,) time, algbw, busbw and errors",
                help="keep the line that begins with `#  size  count  type`, and whole lines below it",
            )
        )
    size = int(cells[0])
    _check(cells, run.columns, seconds, size, mark)
    return Row("", run.gpu, f"NCCL {version}".strip(), operation, data_type, ranks, hosts, size, seconds, path)


def _time_at(cells: list[str], columns: list[str]) -> int:
    """The column of the out-of-place time; one that no line has if there is none."""
    if "time" in columns:
        return columns.index("time")
    # Without a header: redop and root, which are no decimal fractions, may stand before the time.
    return next((i for i in range(3, len(cells)) if "." in cells[i]), 99)


def _time(cells: list[str], columns: list[str]) -> float | None:
    """The out-of-place time of a line, seconds."""
    try:
        found = float(cells[_time_at(cells, columns)]) * 1e-6
    except (IndexError, ValueError):
        return None
    return found if math.isfinite(found) and found > 0 else None


def _check(cells: list[str], columns: list[str], seconds: float, size: int, mark: Mark) -> None:
    """Checks the time of a line by the rate beside it, and that its results were right.

    :raises SynclineError: time and rate contradict each other, or results were wrong.
    """
    at = _time_at(cells, columns)
    try:
        printed = float(cells[at + 1])
    except (IndexError, ValueError):
        printed = math.nan
    rate = size / seconds * 1e-9
    # All programs print the column `size` by the time as `algbw`.
    if not abs(printed - rate) <= rate * _ROUNDED + _DIGIT:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "time and bandwidth of a line contradict each other",
                mark=mark,
                found=f"{seconds * 1e6:g} us and {'nothing' if math.isnan(printed) else f'{printed:g} GB/s'}",
                allowed=f"{rate:.4g} GB/s for {size:,} bytes in that time",
                help="keep all columns as nccl-tests prints them, with times in us",
            )
        )
    wrong = cells[at + 3] if at + 3 < len(cells) and "#wrong" in columns else "0"
    if _SIZE.fullmatch(wrong) and int(wrong) > 0:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "the results of a call were wrong, so that its time tells nothing",
                mark=mark,
                found=f"{int(wrong):,} wrong elements",
                allowed="0 in column `#wrong`",
                help="find out why results are wrong; remove the line to leave out this size",
            )
        )


def read_all(
    paths: list[str],
    *,
    operation: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    warnings: list[Diagnostic] | None = None,
) -> list[Row]:
    """The rows of several files, without calls of 0 bytes; arguments are those of :func:`read`.

    :raises SynclineError: as :func:`read`, or the files are of different GPUs.
    """
    rows = [row for path in paths for row in read(path, operation=operation, gpus=gpus, nodes=nodes, warnings=warnings)]
    kinds = list(dict.fromkeys(row.gpu for row in rows if row.gpu))
    if len(kinds) > 1:
        raise_errors(_mixed(kinds[0], kinds[1], None))
    return [row for row in rows if row.bytes > 0]


def stem(paths: list[str]) -> str:
    """A name for a machine that was measured in these files."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(paths[0]).stem) or "machine"
