"""What benches on an emulated cluster share: programs that run on its hosts, one process each."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from peers import MPI, Times, done, mpi_arguments, told

TESTBED = [sys.executable, "-m", "syncline", "testbed"]


def may() -> bool:
    """Whether clusters can be emulated here; says so where they cannot."""
    if os.geteuid() == 0:
        return True
    sys.stdout.write("not root, so nothing is measured on an emulated cluster\n")
    return False


def name(bench: str) -> str:
    """Of this run's testbed: none that is up already is taken for it."""
    return f"{bench}-{os.getpid()}"


def measure(bed: str, program: list[str], hosts: str) -> Times:
    """What a program tells that runs on these hosts, in the order of its ranks. Ends the bench where it fails."""
    return told(done([*TESTBED, "run", bed, "--hosts", hosts, "--", *program]))


def measure_mpi(bed: str, called: str, program: str, nbytes: int, hosts: str) -> Times:
    """What Open MPI's ranks tell on these hosts of a testbed that is called so."""
    order = [f"h{host}" for host in hosts.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        # What mpirun takes for ssh: each host has a name and a folder of its own.
        agent = Path(folder) / "agent"
        enter = f'ip netns exec syncline.{called}."$host" unshare --uts sh -c'
        own = f"hostname $host; mkdir -p {folder}/$host; export TMPDIR={folder}/$host; exec $*"
        agent.write_text(f'#!/bin/sh\nhost=$1; shift\nexec {enter} "{own}"\n')
        agent.chmod(0o700)
        network = ["--mca", "plm_rsh_agent", str(agent), "--mca", "btl", "tcp,self"]
        network += [word for part in ("btl", "oob") for word in ("--mca", f"{part}_tcp_if_include", "eth0")]
        where = ["--host", ",".join(f"{host}:1" for host in order), "-np", str(len(order))]
        mpirun = ["mpirun", *MPI, *network, *where, program, *mpi_arguments(nbytes)]
        # The testbed's own command starts it, so that nothing is left where the bench is ended.
        return measure(bed, [str(agent), order[0], *mpirun], hosts.split(",")[0])
