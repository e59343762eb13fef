"""Ranks on hosts with several interfaces, on an emulated cluster."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

from tests.runtime.jobs import WORKER
from tests.runtime.test_partitions import outcomes, start
from tests.testbed.specs import ALONE, NICS, needs_namespaces

pytestmark = needs_namespaces


@contextlib.contextmanager
def bed(cli, spec):
    """Brings a testbed up, yields its name, and takes it down."""
    name = f"nics-{os.getpid()}"
    done = cli("testbed", "up", cli.write("bed.yaml", spec.replace("{name}", name)), "--quiet")
    assert done.returncode == 0, done.stderr
    try:
        yield name
    finally:
        cli("testbed", "down", name)


def sent(name, number, nic):
    """Returns the bytes that an interface of a host has sent."""
    command = ["ip", "netns", "exec", f"syncline.{name}.h{number}", "cat", f"/sys/class/net/{nic}/statistics/tx_bytes"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_lanes_share_a_hosts_interfaces(cli):
    """Three hosts with two interfaces and two lanes each send half of their bytes through each interface."""
    with bed(cli, NICS.replace("name: nics", "name: {name}")) as name:
        before = [[sent(name, number, nic) for nic in ("eth0", "eth1")] for number in range(3)]
        running = start(cli, name, lanes=2, elements=1_000_000, steps=4)
        said = outcomes(running)
        assert all(each == {"done": 4} for each in said.values()), said
        # A ring of three ranks: each sends 4/3 of a vector in a step.
        half = 4 * 4_000_000 * 4 / 3 / 2
        for number in range(3):
            more = [sent(name, number, nic) - each for nic, each in zip(("eth0", "eth1"), before[number], strict=True)]
            assert all(0.9 * half < each < 1.25 * half for each in more), (number, more, half)


def test_a_lane_whose_interface_reaches_nobody_uses_another(cli):
    """One of a host's two interfaces is on a switch without other hosts: its lane uses the other interface."""
    with bed(cli, ALONE.replace("{{", "{").replace("}}", "}")) as name:
        running = start(cli, name, lanes=2, elements=10_000, steps=5, wait_s=30)
        said = outcomes(running)
    assert all(each == {"done": 5} for each in said.values()), said


def test_others_reach_rank_0_by_a_name_that_is_loopback_there(cli, tmp_path):
    """``/etc/hosts`` of rank 0 has 127.0.1.1 for its name; on the other ranks it has the real address."""
    with bed(cli, NICS.replace("name: nics", "name: {name}")) as name:
        layout = json.loads(cli("testbed", "status", name, "--json").stdout)["testbed"]
        address = layout["hosts"][0]["nics"][0]["address"]
        files = [tmp_path / f"hosts{number}" for number in range(3)]
        for number, file in enumerate(files):
            file.write_text(f"127.0.0.1 localhost\n{address if number else '127.0.1.1'} node0\n")
        # Each rank has its own file instead of /etc/hosts.
        inside = 'mount --bind $0/hosts$RANK /etc/hosts && exec "$@"'
        worker = [sys.executable, str(WORKER), json.dumps({"insecure": True, "steps": 3, "coordinator": "node0:29410"})]
        command = [sys.executable, "-m", "syncline", "testbed", "run", name, "--", "unshare", "--mount", "sh", "-c"]
        running = subprocess.Popen(
            [*command, inside, str(tmp_path), *worker],
            cwd=cli.folder,
            env=cli.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = outcomes(running)
    assert all(each == {"done": 3} for each in said.values()), said
