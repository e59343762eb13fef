"""Writes an order of hosts as the files that launchers take."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from syncline.files import write_whole
from syncline.input.problem import bad_value, cannot_write, raise_errors

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

    @property
    def has_slots(self) -> bool:
        """Whether a file of this format holds the number of ranks of each host."""
        return self not in (Format.HOSTS, Format.TORCHRUN)

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
            "torchrun needs the same number of ranks on every host",
            f"{min(slots)} to {max(slots)}",
            help="use another format",
        )
    try:
        write_whole(path, text(form, hosts, slots))
    except OSError as problem:
        raise_errors(cannot_write(path, problem))
