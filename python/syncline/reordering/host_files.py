"""Reads lists of hosts, and writes an order of hosts as the files that launchers take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.files import write_whole
from syncline.input import limits
from syncline.input.node import Mark, Text
from syncline.input.problem import bad_value, cannot_write, error, raise_errors, shown
from syncline.input.source import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence


class Format(StrEnum):
    """A format of files with an order of hosts."""

    HOSTS = "hosts"
    """The hosts by name, one a line."""
    OPENMPI = "openmpi"
    """A hostfile of Open MPI: ``mpirun --hostfile FILE --map-by slot``."""
    RANKFILE = "rankfile"
    """A rankfile of Open MPI, with a slot for each rank: ``mpirun --map-by rankfile:file=FILE``."""
    MPICH = "mpich"
    """A host file of MPICH and Intel MPI: ``mpiexec -f FILE``."""
    SLURM = "slurm"
    """A host for each task: ``SLURM_HOSTFILE=FILE srun --distribution=arbitrary``."""
    TORCHRUN = "torchrun"
    """Each host with its node rank, for ``torchrun --node-rank``. The first one is the master."""

    def use(self, path: str) -> str:
        """How a launcher takes the file."""
        return {
            Format.HOSTS: "one host a line, by rank",
            Format.OPENMPI: f"start with: mpirun --hostfile {path} --map-by slot",
            Format.RANKFILE: f"start with: mpirun --map-by rankfile:file={path}",
            Format.MPICH: f"start with: mpiexec -f {path}",
            Format.SLURM: f"start with: SLURM_HOSTFILE={path} srun --distribution=arbitrary",
            Format.TORCHRUN: "each line is a host and its --node-rank; the first host is the --master-addr",
        }[self]


@dataclass(frozen=True)
class Hosts:
    """A list of hosts in a file."""

    names: tuple[str, ...]
    slots: tuple[int, ...]
    """Ranks on each host."""


_SLOTS = re.compile(r"(?:slots|max[-_]slots)\s*=\s*(\S+)")


def read_hosts(path: str) -> Hosts:
    """Reads a list of hosts: one a line, as ``name``, ``name slots=8`` (Open MPI) or ``name:8`` (MPICH).

    Lines may hold comments after ``#``. A name on consecutive lines, as in Slurm's lists of tasks, adds a slot each.

    :raises SynclineError: the file cannot be read, holds no hosts, or names a host in two places.
    """
    text = Text(path, (content := read_file(path, limits.MAX_BYTES)).splitlines())
    found: dict[str, int] = {}
    last = ""
    for number, line in enumerate(content.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        mark = Mark(text, number, 1, 0)
        name, _, rest = line.partition(" ")
        slots = 1
        if given := _SLOTS.search(rest):
            slots = _slots(given[1], mark)
        elif rest.strip():
            raise_errors(
                error(
                    Code.BAD_SYNTAX,
                    "not a line of a host list",
                    mark=mark,
                    found=shown(line),
                    help="write it as `name`, `name slots=8` or `name:8`",
                )
            )
        elif (parts := name.rsplit(":", 1))[1:] and parts[1].isdigit() and ":" not in parts[0]:
            name, slots = parts[0], _slots(parts[1], mark)
        if name in found and name != last:
            raise_errors(error(Code.BAD_VALUE, "the host is listed twice", mark=mark, found=shown(name)))
        found[name] = found.get(name, 0) + slots
        last = name
    if not found:
        raise_errors(error(Code.BAD_SYNTAX, "the file lists no hosts", mark=Mark(text, 0, 0, 0)))
    return Hosts(tuple(found), tuple(found.values()))


def _slots(text: str, mark: Mark) -> int:
    if not text.isdigit() or not 0 < int(text) <= limits.MAX_SLOTS:
        allowed = f"a whole number from 1 to {limits.MAX_SLOTS}"
        raise_errors(error(Code.BAD_VALUE, "no number of slots", mark=mark, found=shown(text), allowed=allowed))
    return int(text)


def text(form: Format, hosts: Sequence[str], slots: Sequence[int]) -> str:
    """The content of a file for hosts in the order of their ranks, each with its number of ranks."""
    each = list(zip(hosts, slots, strict=True))
    match form:
        case Format.HOSTS:
            lines = list(hosts)
        case Format.OPENMPI:
            lines = [f"{host} slots={count}" for host, count in each]
        case Format.MPICH:
            lines = [f"{host}:{count}" for host, count in each]
        case Format.RANKFILE:
            ranks = [(host, slot) for host, count in each for slot in range(count)]
            lines = [f"rank {rank}={host} slot={slot}" for rank, (host, slot) in enumerate(ranks)]
        case Format.SLURM:
            lines = [host for host, count in each for _ in range(count)]
        case Format.TORCHRUN:
            lines = [f"{host} {rank}" for rank, host in enumerate(hosts)]
    return "".join(f"{line}\n" for line in lines)


def write(form: Format, path: str, hosts: Sequence[str], slots: Sequence[int]) -> None:
    """Writes a file for hosts in the order of their ranks, each with its number of ranks.

    :raises SynclineError: the file cannot be written, or the format cannot express different numbers of ranks.
    """
    if form is Format.TORCHRUN and len(set(slots)) > 1:
        raise bad_value(
            "torchrun gives all hosts one number of ranks", f"{min(slots)} to {max(slots)}", help="take another format"
        )
    try:
        write_whole(path, text(form, hosts, slots))
    except OSError as problem:
        raise_errors(cannot_write(path, problem))
