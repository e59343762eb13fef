"""Testbeds for tests, and a check whether this machine can run them."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

RACKS = """\
schema: syncline-testbed/1
name: {name}
fabric:
  leaf_spine: {{ leaves: 2, hosts_per_leaf: 2, spines: 1, rate: 200Mb/s, uplink_rate: 100Mb/s }}
"""
"""Two racks of two hosts, with half the rate between them."""

NICS = """\
name: nics
fabric:
  leaf_spine: { leaves: 2, hosts_per_leaf: 3, spines: 1, rate: 100Mb/s }
  nodes: { npus: 1, nics: 2, rate: 100Gb/s, pcie_rate: 100Gb/s, rails: true }
"""
"""Three hosts with two interfaces each, on two leaves."""

BOX = """\
name: {name}
fabric:
  npus: [hub, worker0, worker1]
  switches: [tor]
  links:
    - {{ from: hub, to: tor, rate: 100Mb/s, count: 2 }}
    - {{ from: worker0, to: tor, rate: 200Mb/s }}
    - {{ from: worker1, to: tor, rate: 200Mb/s }}
"""
"""A hub with two interfaces, and workers with one each."""

ALONE = """\
name: {name}
fabric:
  npus: [a, b]
  switches: [p, q]
  links:
    - {{ from: a, to: p, rate: 100Mb/s }}
    - {{ from: b, to: p, rate: 100Mb/s }}
    - {{ from: b, to: q, rate: 100Mb/s }}
"""
"""Two hosts, one of them with an interface on a switch without other hosts."""

ONE = """\
name: {name}
fabric: {{ npus: [a], switches: [s], links: [{{ from: a, to: s, rate: 1Gb/s }}] }}
"""
"""One host on a switch."""


def _missing() -> str | None:
    """Returns what this machine lacks for a testbed, or ``None``."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not all(shutil.which(tool) for tool in ("ip", "bridge", "tc")):
        return "ip, bridge and tc are not installed (iproute2)"
    name = f"syncline-can-{os.getpid()}"
    for command in (
        ["ip", "netns", "add", name],
        ["ip", "-n", name, "link", "add", "name", "one", "type", "bridge"],
        ["ip", "-n", name, "link", "add", "name", "two", "type", "veth", "peer", "name", "three"],
        ["tc", "-n", name, "qdisc", "add", "dev", "two", "root", "handle", "1:", "htb", "default", "1"],
        [
            "tc",
            "-n",
            name,
            "qdisc",
            "add",
            "dev",
            "three",
            "root",
            "tbf",
            "rate",
            "1mbit",
            "burst",
            "9000",
            "limit",
            "9000",
        ],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            break
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return f"{' '.join(command)}: {done.stderr.strip()}" if done.returncode else None


MISSING = _missing()
needs_namespaces = pytest.mark.skipif(MISSING is not None, reason=f"no testbed on this machine: {MISSING}")
