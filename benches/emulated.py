"""Helpers for benches that run programs on the hosts of an emulated cluster, one process per host."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from peers import MPI, Times, mpi_arguments, output_of, times_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TESTBED = [sys.executable, "-m", "syncline", "testbed"]


def can_emulate() -> bool:
    """Returns whether this machine can emulate clusters; prints a message if it cannot."""
    if os.geteuid() == 0:
        return True
    sys.stdout.write("not root, so nothing is measured on an emulated cluster\n")
    return False


def name(bench: str) -> str:
    """Returns a name for this run's testbed that differs from those of testbeds that are up already."""
    return f"{bench}-{os.getpid()}"


def measure(bed: str, program: list[str], hosts: str) -> Times:
    """Runs a program on these hosts, one rank each in this order, and returns its times. Exits if it fails."""
    return times_of(output_of([*TESTBED, "run", bed, "--hosts", hosts, "--", *program]))


def measure_mpi(bed: str, called: str, program: str, nbytes: int, hosts: str, options: Sequence[str] = ()) -> Times:
    """Runs the MPI program on these hosts of the testbed ``called`` and returns its times.

    ``options`` are further ones of mpirun.
    """
    order = [f"h{host}" for host in hosts.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        # mpirun runs this script in place of ssh; it gives each host its own name and temporary folder.
        agent = Path(folder) / "agent"
        enter = f'ip netns exec syncline.{called}."$host" unshare --uts sh -c'
        own = f"hostname $host; mkdir -p {folder}/$host; export TMPDIR={folder}/$host; exec $*"
        agent.write_text(f'#!/bin/sh\nhost=$1; shift\nexec {enter} "{own}"\n')
        agent.chmod(0o700)
        network = ["--mca", "plm_rsh_agent", str(agent), "--mca", "btl", "tcp,self"]
        network += [word for part in ("btl", "oob") for word in ("--mca", f"{part}_tcp_if_include", "eth0")]
        where = ["--host", ",".join(f"{host}:1" for host in order), "-np", str(len(order))]
        mpirun = ["mpirun", *MPI, *network, *options, *where, program, *mpi_arguments(nbytes)]
        # `syncline testbed run` starts mpirun, so that no process is left if the bench is interrupted.
        return measure(bed, [str(agent), order[0], *mpirun], hosts.split(",")[0])
