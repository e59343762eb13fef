"""What a fabric becomes: hosts, bridges, addresses, and what the kernel is told."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.testbed import commands
from syncline.testbed.check import _Flow, _patterns, expected
from syncline.testbed.layout import PAYLOAD, from_plain, layout
from syncline.testbed.processes import environment
from syncline.testbed.spec import read
from tests.testbed.specs import NICS, RACKS

ONE_SWITCH = "fabric: { switch: { hosts: 3, rate: 1Gb/s } }\n"


@pytest.fixture
def made(cli):
    """Makes the layout of a file."""
    return lambda text, name="bed.yaml": layout(read(str(cli.folder / cli.write(name, text))))


def test_racks_are_hosts_of_one_switch(made):
    found = made(RACKS.format(name="racks"))
    assert found.name == "racks"
    assert [(host.rack, host.nics[0].bridge) for host in found.hosts] == [(0, "leaf0")] * 2 + [(1, "leaf1")] * 2
    assert found.bridges == ("leaf0", "leaf1", "spine0")
    assert [(trunk.a, trunk.b, trunk.ab_bits) for trunk in found.trunks] == [
        ("leaf0", "spine0", 100_000_000),
        ("leaf1", "spine0", 100_000_000),
    ]
    assert {nic.up_bits for host in found.hosts for nic in host.nics} == {200_000_000}
    assert [host.nics[0].address for host in found.hosts] == [f"10.77.0.{number}" for number in (1, 2, 3, 4)]
    assert found.namespaces() == [f"syncline.racks.{part}" for part in ("h0", "h1", "h2", "h3", "fabric")]
    assert from_plain(found.plain()) == found


def test_hosts_may_have_several_interfaces(made):
    found = made(NICS)
    for number, host in enumerate(found.hosts):
        assert [(nic.interface, nic.bridge) for nic in host.nics] == [("eth0", "leaf0"), ("eth1", "leaf1")]
        assert [nic.address for nic in host.nics] == [f"10.77.0.{number + 1}", f"10.77.1.{number + 1}"]
    told = environment(found, [2, 0], 0)
    assert (told["SYNCLINE_ADDRESSES"], told["SYNCLINE_INTERFACES"]) == ("10.77.0.3,10.77.1.3", "eth0,eth1")


def test_a_scenario_is_a_testbed_too(made, ring):
    text = "schema: syncline/1\nname: My Job\nworkload: { collective: all_reduce, bytes: 1MB }\n" + ONE_SWITCH
    assert made(text, "Three hosts.yaml").name == "three-hosts"
    assert len(made(text).hosts) == 3


def test_ranks_are_told_what_launchers_tell(made):
    found = made(RACKS.format(name="racks"))
    told = [environment(found, [0, 2, 1, 3], rank) for rank in range(4)]
    assert [each["RANK"] for each in told] == ["0", "1", "2", "3"]
    assert [each["SYNCLINE_HOST"] for each in told] == ["0", "2", "1", "3"]
    assert {each["SYNCLINE_RACKS"] for each in told} == {"0,1,0,1"}
    assert {each["SYNCLINE_PEERS"] for each in told} == {"10.77.0.1,10.77.0.3,10.77.0.2,10.77.0.4"}
    assert {(each["MASTER_ADDR"], each["WORLD_SIZE"], each["PET_NNODES"]) for each in told} == {("10.77.0.1", "4", "4")}
    assert [each["PET_NODE_RANK"] for each in told] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("shaper", ["htb", "tbf"])
def test_both_ends_of_every_cable_are_shaped(made, shaper):
    found = made(RACKS.format(name="racks") + f"shaper: {shaper}\nqueue: 64KiB\n")
    made_links, shaped = set(), {}
    for program, namespace, lines in commands.batches(found):
        for line in lines:
            words = line.split()
            if line.startswith("link add") and "veth" in words:
                peer = (words[words.index("netns") + 1] if "netns" in words else namespace, words[8])
                made_links |= {(namespace, words[3]), peer}
            if program == "tc" and "rate" in words:
                shaped[namespace, words[3]] = words[words.index("rate") + 1]
            if program == "tc" and "limit" in words:
                # Ports of switches drop what is too much, and hosts do not drop what is their own.
                limit = int(words[words.index("limit") + 1])
                assert limit == 65536 if namespace == found.fabric_namespace else limit > 1 << 24
    assert set(shaped) == made_links
    assert len(made_links) == 2 * (4 + 2)
    assert sorted(shaped.values()) == ["100000000bit"] * 4 + ["200000000bit"] * 8


def test_flows_share_links_fairly(made):
    found = made(RACKS.format(name="racks"))
    patterns = dict(_patterns(found))
    assert {what: len(flows) for what, flows in patterns.items()} == {
        "one flow in a rack": 1,
        "one flow across racks": 1,
        "all hosts, in a rack": 4,
        "all hosts, across racks": 4,
    }
    rates = {what: expected(found, flows) / PAYLOAD / 1e6 for what, flows in patterns.items()}
    assert rates == pytest.approx(
        {
            "one flow in a rack": 200,
            "one flow across racks": 100,
            "all hosts, in a rack": 800,
            # Two hosts of each rack share 100 Mb/s each way.
            "all hosts, across racks": 200,
        }
    )
    a, b, c, _ = found.hosts
    # One of two flows from a host is held back between racks, and leaves the rest to the other.
    assert expected(found, [_Flow(a, b), _Flow(a, c)]) / PAYLOAD == pytest.approx(200e6)


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        ("{ leaf_spine: { leaves: 2, hosts_per_leaf: 2, spines: 2, rate: 1Gb/s } }", "bridges send everything one way"),
        ("{ fat_tree: { k: 4, rate: 1Gb/s } }", "one spine, cables: 1"),
        ("{ torus: { sizes: 4x4, rate: 1Gb/s } }", "hosts are joined to each other"),
        ("{ shape: Ring(4), rate: 1Gb/s }", "hosts"),
        ("{ switch: { hosts: 251, rate: 1Gb/s } }", "too many hosts for one machine"),
        (
            "{ switch: { hosts: 4, rate: 1Gb/s }, nodes: { npus: 2, rate: 10Gb/s } }",
            "interfaces number 1 of the hosts are not joined",
        ),
    ],
)
def test_what_bridges_cannot_be_is_refused(made, fabric, words):
    with pytest.raises(SynclineError) as refused:
        made(f"fabric: {fabric}\n")
    assert words in str(refused.value)
    assert refused.value.exit_status == 2


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", "SL0106", "empty"),
        ("[1, 2]\n", "SL0102", "not a testbed"),
        ("name: a\n", "SL0103", "missing key `fabric`"),
        ("fabrik: 3\n" + ONE_SWITCH, "SL0101", "fabric"),
        ("name: Not A Name\n" + ONE_SWITCH, "SL0102", "lower-case"),
        ("network: 10.77.0.0/33\n" + ONE_SWITCH, "SL0102", "10.77.0.0/16"),
        ("network: 8.8.0.0/16\n" + ONE_SWITCH, "SL0102", "private"),
        ("queue: 3\n" + ONE_SWITCH, "SL0104", "without a unit"),
        ("shaper: netem\n" + ONE_SWITCH, "SL0102", "htb"),
        ("fabric: { switch: { hosts: 3, rate: fast } }\n", "SL0104", "rate"),
        ("fabric: 7\n", "SL0102", "fabric"),
        ("schema: syncline-testbed/2\n" + ONE_SWITCH, "SL0102", "syncline-testbed/1"),
        ("network: 10.77.3.0/24\n" + NICS, "SL1102", "more interfaces than the network has subnets"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(made, text, code, words):
    with pytest.raises(SynclineError) as refused:
        made(text)
    problem = refused.value.diagnostics[0]
    assert problem["code"] == code
    assert words in str(refused.value)
    assert problem["place"]["file"].endswith("bed.yaml")
