"""Slurm's ``topology.yaml`` describes the same networks as ``topology.conf``; errors name line and column."""

from __future__ import annotations

import pytest

from syncline.clusters.conversion import KINDS
from syncline.clusters.printed import Printed
from tests.clusters.test_slurm import BLOCKS, TREE
from tests.conftest import Cli

TREE_YAML = """\
---
- topology: pods
  cluster_default: true
  tree:
    switches:
      - switch: leaf1
        nodes: gpu[001-004]
      - switch: leaf2
        nodes: gpu[005-008]
      - switch: leaf3
        nodes: gpu[009-012]
      - switch: leaf4
        nodes: gpu013,gpu[014-016]
      - switch: pod1
        children: leaf[1-2]
      - switch: pod2
        children: leaf3,leaf4
      - switch: core
        children: pod[1-2]
- topology: racks
  cluster_default: false
  block:
    block_sizes: [18, 36]
    blocks:
      - block: rack1
        nodes: tray[01-18]
      - block: rack2
        nodes: tray[19-36]
"""
BLOCKS_YAML = "- topology: racks\n" + TREE_YAML.split("cluster_default: false\n")[1]


@pytest.mark.parametrize(
    ("lines", "yaml", "given"),
    [
        (TREE, TREE_YAML, {"nic": "200Gb/s", "uplink": "400Gb/s,200Gb/s"}),
        (BLOCKS, BLOCKS_YAML, {"nic": "400Gb/s", "nics": "4", "gpus": "4", "scale_up": "900GB/s", "pcie": "64GB/s"}),
    ],
)
def test_the_fabric_is_that_of_topology_conf(fabric, notes, lines, yaml, given):
    assert fabric(yaml, **given) == fabric(lines, **given)
    assert notes(yaml, **given) == notes(lines, **given)


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("    switches:", "    switchs:", "a key that does not belong here", "5:5"),
        ("switch: leaf1", "name: leaf1", "a key that does not belong here", "6:9"),
        ("leaf[1-2]", "leaf[1-9]", "a switch that has no line", "15:19"),
        ("switch: leaf2", "switch: leaf1", "a second line of leaf1", "8:17"),
        ("cluster_default: true", "cluster_default: yes", "says whether this topology counts", "3:20"),
        ("cluster_default: false", "cluster_default: true", "several topologies are the default", "2:1"),
        ("cluster_default: true", "cluster_default: false", "no topology is the default", "2:1"),
        ("  tree:", "  flat: true\n  tree2:", "a key that does not belong here", "5:3"),
        ("        nodes: gpu[001-004]\n", "", "leaf1 has nothing below it", "6:17"),
        ("gpu[001-004]", "gpu[001-", "not a list of names", "7:"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(cli: Cli, old, new, message, place):
    cli.write("topology.yaml", TREE_YAML.replace(old, new, 1))
    done = cli("convert", "topology.yaml", "out.yaml", "--nic", "200Gb/s", "--uplink", "400Gb/s")
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert f"topology.yaml:{place}" in done.stderr


def test_a_flat_topology_says_nothing_of_a_network(cli: Cli):
    cli.write("topology.yaml", "- topology: all\n  cluster_default: true\n  flat: true\n")
    done = cli("convert", "topology.yaml", "out.yaml", "--nic", "200Gb/s")
    assert "says nothing of a network" in done.stderr


@pytest.mark.parametrize("text", ["fabric: { shape: Ring(4) }\n", "- topology: 1\n", "- a: 1\n  tree: 2\n"])
def test_other_yaml_is_none_of_slurm(text):
    assert not KINDS["slurm_yaml"].begins(Printed("x.yaml", text))


@pytest.mark.parametrize(
    ("text", "message"), [("", "the file is empty"), ("No devices were found\n", "not what a tool")]
)
def test_a_text_that_no_tool_prints_is_named(cli: Cli, text, message):
    cli.write("topo.txt", text)
    done = cli("convert", "topo.txt", "out.yaml", "--nvlink", "25GB/s")
    assert done.returncode == 3
    assert message in done.stderr and "applies only" not in done.stderr
