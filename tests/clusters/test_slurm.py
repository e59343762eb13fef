"""Slurm's ``topology.conf``: trees and blocks that it describes, and errors that name line and column."""

from __future__ import annotations

import pytest

from tests.clusters.test_infiniband import total_s
from tests.clusters.test_smi import bisection

TREE = """\
# two pods of two leaves
SwitchName=leaf1 Nodes=gpu[001-004]
SwitchName=leaf2 Nodes=gpu[005-008] LinkSpeed=100
switchname=leaf3 nodes=gpu[009-012]
SwitchName=leaf4 Nodes=gpu013,gpu[014-016]   # the last one

SwitchName=pod1 Switches=leaf[1-2]
SwitchName=pod2 Switches=leaf3,leaf4
SwitchName=core Switches=pod[1-2]
"""
BLOCKS = "BlockName=rack1 Nodes=tray[01-18]\nBlockName=rack2 Nodes=tray[19-36]\nBlockSizes=18,36\n"


def test_a_tree_has_the_rates_that_are_given_by_level(fabric, notes):
    made = fabric(TREE, nic="200Gb/s", uplink="400Gb/s,200Gb/s")
    links = {(link["from"], link["to"]): link["rate"] for link in made["links"]}
    assert made["npus"] == [f"gpu{at:03d}" for at in range(1, 17)]
    assert links[("gpu005", "leaf2")] == "25GB/s"
    assert links[("leaf3", "pod2")] == "50GB/s"
    assert links[("pod1", "core")] == "25GB/s"
    # Four hosts of 200 Gb/s under 400; two leaves of 400 Gb/s under 200.
    assert notes(TREE, nic="200Gb/s", uplink="400Gb/s,200Gb/s") == [
        "16 hosts, 7 switches in 3 levels: 4, 2 and 1.",
        "Oversubscription above level 1: 2:1.",
        "Oversubscription above level 2: 4:1.",
    ]


def test_the_last_rate_is_that_of_all_higher_levels(fabric):
    made = fabric(TREE, nic="200Gb/s", uplink="400Gb/s")
    assert {link["rate"] for link in made["links"]} == {"25GB/s", "50GB/s"}
    # A pod's uplink is the cut between two halves of 8 hosts.
    assert bisection(made) == 50e9


def test_an_all_to_all_takes_as_long_as_the_top_of_the_tree(fabric):
    # Eight hosts each send a block to each of eight hosts of the other pod, over 25 GB/s.
    made = fabric(TREE, nic="200Gb/s", uplink="800Gb/s,200Gb/s")
    got = total_s(made, "all_to_all", 1.6e9, all_to_all="direct")
    assert got == pytest.approx(8 * 8 * 1e8 / 25e9, rel=0.02)


def test_hosts_have_as_many_gpus_and_interfaces_as_are_given(fabric, notes):
    options = {
        "nic": "400Gb/s",
        "uplink": "12.8Tb/s",
        "gpus": "8",
        "nics": "8",
        "scale_up": "450GB/s",
        "pcie": "64GB/s",
    }
    made = fabric(TREE, **options)
    assert len(made["npus"]) == 128
    links = [(link["from"], link["to"], link["rate"]) for link in made["links"]]
    assert ("gpu003.GPU7", "gpu003.NIC7", "64GB/s") in links
    assert ("gpu003.NIC7", "leaf1", "50GB/s") in links
    assert "Oversubscription above level 1: 1:1." in notes(TREE, **options)
    assert notes(TREE, **options)[-1] == "For collectives by levels: `collectives: { logical: [8, 16] }`."


def test_a_block_is_one_scale_up_network(fabric, notes):
    options = {"nic": "400Gb/s", "gpus": "4", "nics": "4", "scale_up": "900GB/s", "pcie": "64GB/s"}
    made = fabric(BLOCKS, **options)
    links = [(link["from"], link["to"], link["rate"]) for link in made["links"]]
    assert len(made["npus"]) == 144
    assert ("tray01.GPU0", "rack1.scale-up", "900GB/s") in links
    assert ("tray18.GPU3", "rack1.scale-up", "900GB/s") in links
    assert ("tray19.GPU0", "rack2.scale-up", "900GB/s") in links
    assert ("tray19.NIC0", "network", "50GB/s") in links
    assert notes(BLOCKS, **options)[-1] == "For collectives by levels: `collectives: { logical: [72, 2] }`."
    # 72 interfaces of 50 GB/s join a rack with the other; its GPUs reach each other at 900 GB/s.
    rack = fabric(BLOCKS.split("\n")[0] + "\n\n", **options)
    assert total_s(rack, "all_reduce", 7.2e9, all_reduce="ring") == pytest.approx(2 * 71 / 72 * 7.2e9 / 900e9, rel=1e-6)


def test_blocks_in_a_tree_join_the_hosts_of_both(fabric):
    text = TREE + "BlockName=a Nodes=gpu[001-008]\nBlockName=b Nodes=gpu[009-016]\n"
    made = fabric(text, nic="200Gb/s", uplink="400Gb/s", scale_up="900GB/s", pcie="64GB/s")
    links = [(link["from"], link["to"]) for link in made["links"]]
    assert ("gpu008", "a.scale-up") in links
    assert ("gpu009", "b.scale-up") in links
    assert ("gpu009.NIC0", "leaf3") in links


def test_a_conf_file_is_converted_by_the_command(cli):
    done = cli("convert", cli.write("topology.conf", TREE), "net.yaml", "--nic", "200Gb/s", "--uplink", "400Gb/s")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Wrote net.yaml" in done.stderr


@pytest.mark.parametrize(
    ("text", "message", "place", "more"),
    [
        (TREE.replace("leaf[1-2]", "leaf[1-5]"), "a switch that has no line", (7, 26), {"found": "leaf5"}),
        (TREE.replace("leaf3,leaf4", "leaf3,laef4"), "a switch that has no line", (8, 26), {"nearest": "leaf4"}),
        (TREE.replace("gpu[001-004]", "gpu[001-004"), "a bracket is not closed", (2, 27), {}),
        (TREE.replace("gpu[001-004]", "gpu[004-001]"), "a range that ends before it begins", (2, 28), {}),
        (
            TREE.replace("Nodes=gpu[001", "Node=gpu[001"),
            "a key that does not belong here",
            (2, 18),
            {"nearest": "Nodes"},
        ),
        (TREE.replace("leaf2 Nodes=gpu[005-008]", "leaf2"), "leaf2 has nothing below it", (3, 12), {}),
        (TREE.replace("SwitchName=leaf2", "SwitchName=leaf1"), "a second line of leaf1", (3, 12), {}),
        (TREE.replace("LinkSpeed=100", "fast"), "not of the form KEY=VALUE", (3, 37), {"found": "fast"}),
        (TREE.replace("LinkSpeed=100", "Nodes=x"), "Nodes is given twice", (3, 37), {}),
        (TREE.replace("Switches=pod[1-2]", "Switches=core"), "core is below itself", (9, 26), {}),
        (
            BLOCKS.replace("tray[19-36]", "tray[18-36]"),
            "tray18 is in two blocks",
            (2, 11),
            {"found": "rack1 and rack2"},
        ),
    ],
)
def test_a_malformed_file_is_refused_with_line_and_column(text, message, place, more, wrong):
    problem = wrong(text, nic="200Gb/s", uplink="400Gb/s")[0]
    assert message in problem["message"]
    assert (problem["place"]["line"], problem["place"]["column"]) == place
    assert {key: problem[key] for key in more} == more


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TREE, {}, "missing option --nic: Slurm does not know"),
        (TREE, {"nic": "200Gb/s"}, "missing option --uplink: Slurm does not know"),
        (TREE, {"nic": "200Gb/s", "uplink": "400Gb/s,0Gb/s"}, "a link needs a rate above zero"),
        (BLOCKS, {"nic": "200Gb/s"}, "missing option --scale-up: the text does not say how the hosts of a block"),
        (BLOCKS, {"nic": "1Gb/s", "scale_up": "1GB/s", "pcie": "1GB/s", "uplink": "1Gb/s"}, "--uplink changes nothing"),
    ],
)
def test_a_missing_or_needless_rate_is_named(text, options, message, wrong):
    (problem,) = wrong(text, **options)
    assert message in problem["message"]
