"""Layouts of fabrics: hosts, bridges, addresses, and the commands for the kernel."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.testbed import commands
from syncline.testbed.difference import difference
from syncline.testbed.fidelity import warnings
from syncline.testbed.layout import from_dict, layout
from syncline.testbed.processes import environment
from syncline.testbed.spec import read
from tests.testbed.specs import BOX, NICS, RACKS

ONE_SWITCH = "fabric: { switch: { hosts: 3, rate: 1Gb/s } }\n"


@pytest.fixture
def made(cli):
    """Returns a function that makes the layout of a file with a given text."""
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
    assert from_dict(found.as_dict()) == found


@pytest.mark.parametrize("rate", ["7b/s", "35Tb/s"])
def test_rates_that_tc_cannot_hold_are_refused_with_their_link(made, rate):
    with pytest.raises(SynclineError) as refused:
        made(ONE_SWITCH.replace("1Gb/s", rate))
    (problem,) = refused.value.diagnostics
    assert problem["code"] == "SL1102"
    assert problem["message"] == "`tc` cannot shape the link from NPU 0 to switch 0 to its rate"
    assert problem["allowed"] == "8b/s to 34Tb/s"


@pytest.mark.parametrize("rate", ["8b/s", "34Tb/s"])
def test_values_for_tc_fit_into_its_fields(made, rate):
    found = made(ONE_SWITCH.replace("1Gb/s", rate))
    for line in (line for program, _, lines in commands.batches(found) if program == "tc" for line in lines):
        words = line.split()
        told = {
            word: int(words[at + 1].removesuffix("bit"))
            for at, word in enumerate(words[:-1])
            if word in ("rate", "burst", "cburst", "limit")
        }
        assert all(told[word] < 2**32 for word in told if word != "rate"), line
        assert told.get("rate", 8) >= 8, line


def test_hosts_may_have_several_interfaces(made):
    found = made(NICS)
    for number, host in enumerate(found.hosts):
        assert [(nic.interface, nic.bridge) for nic in host.nics] == [("eth0", "leaf0"), ("eth1", "leaf1")]
        assert [nic.address for nic in host.nics] == [f"10.77.0.{number + 1}", f"10.77.1.{number + 1}"]
    told = environment(found, [2, 0], 0)
    assert (told["SYNCLINE_ADDRESSES"], told["SYNCLINE_INTERFACES"]) == ("10.77.0.3,10.77.1.3", "eth0,eth1")


def test_a_scenario_may_be_used_as_a_testbed(made, ring):
    text = "schema: syncline/1\nname: My Job\nworkload: { collective: all_reduce, bytes: 1MB }\n" + ONE_SWITCH
    assert made(text, "Three hosts.yaml").name == "three-hosts"
    assert len(made(text).hosts) == 3


def test_ranks_get_the_variables_that_launchers_set(made):
    found = made(RACKS.format(name="racks"))
    told = [environment(found, [0, 2, 1, 3], rank) for rank in range(4)]
    assert [each["RANK"] for each in told] == ["0", "1", "2", "3"]
    assert [each["SYNCLINE_HOST"] for each in told] == ["0", "2", "1", "3"]
    assert {each["SYNCLINE_RACKS"] for each in told} == {"0,1,0,1"}
    assert {each["SYNCLINE_PEERS"] for each in told} == {"10.77.0.1,10.77.0.3,10.77.0.2,10.77.0.4"}
    assert {(each["MASTER_ADDR"], each["WORLD_SIZE"], each["PET_NNODES"]) for each in told} == {("10.77.0.1", "4", "4")}
    assert [each["PET_NODE_RANK"] for each in told] == ["0", "1", "2", "3"]


def test_ranks_of_a_host_have_local_numbers(made):
    found = made(RACKS.format(name="racks"))
    told = [environment(found, [2, 0, 2, 2], rank) for rank in range(4)]
    for prefix in ("", "SYNCLINE_"):
        assert [each[f"{prefix}LOCAL_RANK"] for each in told] == ["0", "0", "1", "2"]
        assert [each[f"{prefix}LOCAL_WORLD_SIZE"] for each in told] == ["3", "1", "3", "3"]
    assert [(each["GROUP_RANK"], each["GROUP_WORLD_SIZE"]) for each in told] == [
        ("0", "2"),
        ("1", "2"),
        ("0", "2"),
        ("0", "2"),
    ]
    # A torchrun of each rank is a node with one process, on any host.
    assert [(each["PET_NODE_RANK"], each["PET_NNODES"], each["PET_NPROC_PER_NODE"]) for each in told] == [
        (str(rank), "4", "1") for rank in range(4)
    ]


@pytest.mark.parametrize("network", ["10.0.0.0/8", "172.16.0.0/12", "172.31.255.0/24", "192.168.0.0/16"])
def test_networks_for_private_use_are_allowed(made, network):
    first = made(f"network: {network}\n" + ONE_SWITCH).hosts[0].nics[0].address
    assert first == network.partition("/")[0].removesuffix("0") + "1"


def test_a_queue_of_one_packet_is_allowed(made):
    assert made("queue: 1514B\n" + ONE_SWITCH).queue_bytes == 1514


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
                # Switch ports have short queues that drop packets; queues of hosts are long enough not to drop.
                limit = int(words[words.index("limit") + 1])
                assert limit == 65536 if namespace == found.fabric_namespace else limit > 1 << 24
    assert set(shaped) == made_links
    assert len(made_links) == 2 * (4 + 2)
    assert sorted(shaped.values()) == ["100000000bit"] * 4 + ["200000000bit"] * 8


@pytest.mark.parametrize(
    "text", [RACKS.format(name="racks"), BOX.format(name="box"), NICS], ids=["racks", "box", "nics"]
)
def test_packets_find_their_way_without_asking(made, text):
    """Follows each packet from port to port, by the tables of hosts and bridges."""
    found = made(text)
    peers, owner, ways, known = {}, {}, {}, {}
    for program, namespace, lines in commands.batches(found):
        for line in lines:
            words = line.split()
            if line.startswith("link add") and "veth" in words:
                inside = words[words.index("netns") + 1] if "netns" in words else namespace
                peers[words[3]] = (inside, words[8])
                peers[words[8]] = (namespace, words[3])
            if "master" in words and program == "ip":
                owner[words[2]] = words[4]
            if program == "bridge":
                ways[owner[words[4]], words[2]] = words[4]
            if line.startswith("neigh add"):
                known[namespace, words[6], words[2]] = words[4]
    for host in found.hosts:
        for nic in host.nics:
            for other in found.hosts:
                for there in other.nics:
                    if host == other or found.segments[nic.bridge] != found.segments[there.bridge]:
                        continue
                    goal = known[found.namespace(host.number), nic.interface, there.address]
                    at, steps = nic.bridge, 0
                    while True:
                        inside, port = peers[ways[at, goal]]
                        if inside != found.fabric_namespace:
                            break
                        at, steps = owner[port], steps + 1
                        assert steps < 4
                    assert (inside, port) == (found.namespace(other.number), there.interface)


def test_a_hub_may_have_more_interfaces_than_workers(made):
    found = made(BOX.format(name="box"))
    assert [[nic.address for nic in host.nics] for host in found.hosts] == [
        ["10.77.0.1", "10.77.1.1"],
        ["10.77.0.2"],
        ["10.77.0.3"],
    ]
    assert {nic.bridge for host in found.hosts for nic in host.nics} == {"switch0"}
    assert from_dict(found.as_dict()) == found
    hub, worker = (list(commands.routes(found, host)) for host in found.hosts[:2])
    assert worker == [
        "route add 10.77.0.0/24 dev eth0 src 10.77.0.2 congctl cubic",
        "route add 10.77.1.0/24 dev eth0 src 10.77.0.2 congctl cubic",
    ]
    assert hub == [
        "route add 10.77.0.0/24 dev eth0 src 10.77.0.1 congctl cubic table 1000",
        "route add 10.77.1.0/24 dev eth0 src 10.77.0.1 congctl cubic table 1000",
        "rule add pref 1000 from 10.77.0.1 lookup 1000",
        "route add 10.77.0.0/24 dev eth1 src 10.77.1.1 congctl cubic table 1001",
        "route add 10.77.1.0/24 dev eth1 src 10.77.1.1 congctl cubic table 1001",
        "rule add pref 1001 from 10.77.1.1 lookup 1001",
        "route add 10.77.0.0/24 dev eth0 src 10.77.0.1 congctl cubic",
        "route add 10.77.1.0/24 dev eth1 src 10.77.1.1 congctl cubic",
    ]


def links(*pairs):
    """Returns a fabric of hosts a, b, c and switches p, q, r with these links only."""
    listed = ", ".join(f"{{ from: {a}, to: {b}, rate: 100Mb/s }}" for a, b in (pair.split("-") for pair in pairs))
    return f"fabric: {{ npus: [a, b, c], switches: [p, q, r], links: [{listed}] }}\n"


def test_a_host_without_an_interface_in_a_segment_does_not_reach_it(made):
    # Host c has no interface on q, and a subnet belongs to one segment.
    found = made(links("a-p", "b-p", "c-p", "a-q", "b-q", "c-r"))
    assert [[nic.address for nic in host.nics] for host in found.hosts] == [
        ["10.77.0.1", "10.77.1.1"],
        ["10.77.0.2", "10.77.1.2"],
        ["10.77.0.3", "10.77.2.3"],
    ]
    main = [
        line.split()[2] for line in commands.routes(found, found.hosts[2]) if "table" not in line and "rule" not in line
    ]
    assert main == ["10.77.0.0/24", "10.77.2.0/24"]


def test_first_interfaces_may_be_in_two_segments_if_all_hosts_reach_both(made):
    found = made(links("a-p", "a-q", "b-q", "b-p", "c-p", "c-q"))
    assert [host.nics[0].bridge for host in found.hosts] == ["switch0", "switch1", "switch0"]
    assert [host.nics[0].address for host in found.hosts] == ["10.77.0.1", "10.77.1.2", "10.77.0.3"]
    assert found.subnets == {"switch0": ["10.77.0.0/24"], "switch1": ["10.77.1.0/24"]}


def test_hosts_that_cannot_reach_each_other_are_named(made):
    with pytest.raises(SynclineError) as refused:
        made(links("a-p", "a-q", "b-p", "c-q"))
    assert "host 2 cannot reach the first interface of host 0" in str(refused.value)
    assert "host 2 on switch1, host 0 on switch0" in str(refused.value)


def test_warnings_say_that_latencies_and_efficiency_are_not_emulated(cli):
    text = "fabric: { shape: Switch(3), rate: 1Gb/s, latency: 10ms, efficiency: 0.9 }\n"
    request = read(str(cli.folder / cli.write("bed.yaml", text)))
    found = layout(request)
    # Links have their full rate, because packets have real headers.
    assert {(nic.up_bits, nic.down_bits) for host in found.hosts for nic in host.nics} == {(10**9, 10**9)}
    told = list(warnings(request, found))
    assert [(each["code"], each["severity"], each["found"]) for each in told] == [
        ("SL1102", "warning", "up to 10 ms per link"),
        ("SL1102", "warning", "0.9"),
    ]
    assert all("not emulated" in each["message"] and each["place"]["line"] == 1 for each in told)
    plain = read(str(cli.folder / cli.write("bed.yaml", ONE_SWITCH)))
    assert not list(warnings(plain, layout(plain)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("hosts: 3", "hosts: 5", "number of hosts: 3 in the testbed, 5 in the file"),
        ("1Gb/s", "100Mb/s", "rate of eth0 of host 0: 1 Gb/s in the testbed, 100 Mb/s in the file"),
        ("1Gb/s", "999999999b/s", "rate of eth0 of host 0: 1 Gb/s in the testbed, 999999999 b/s in the file"),
        ("rate", "latency: 1ms, rate", None),
        ("fabric", "queue: 2MB\nfabric", "`queue`: 1 MB in the testbed, 2 MB in the file"),
        ("fabric", "shaper: tbf\nfabric", "`shaper`: htb in the testbed, tbf in the file"),
        ("fabric", "congestion_control: reno\nfabric", "`congestion_control`: cubic in the testbed, reno in the file"),
        (
            "fabric",
            "network: 10.78.0.0/16\nfabric",
            "address of eth0 of host 0: 10.77.0.1 in the testbed, 10.78.0.1 in the file",
        ),
    ],
)
def test_the_first_difference_is_named(made, old, new, words):
    assert difference(made(ONE_SWITCH), made(ONE_SWITCH.replace(old, new))) == words


def test_differences_between_switches_are_named(made):
    text = RACKS.format(name="racks")
    found = made(text)
    slower = made(text.replace("uplink_rate: 100Mb/s", "uplink_rate: 50Mb/s"))
    assert difference(found, slower) == "rate from leaf0 to spine0: 100 Mb/s in the testbed, 50 Mb/s in the file"
    box = BOX.format(name="box")
    assert difference(made(box), made(box.replace(", count: 2", ""))) == (
        "host 0: 2 interfaces in the testbed, 1 interface in the file"
    )


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        (
            "{ leaf_spine: { leaves: 2, hosts_per_leaf: 2, spines: 2, rate: 1Gb/s } }",
            "bridges support one path; this fabric has several",
        ),
        ("{ fat_tree: { k: 4, rate: 1Gb/s } }", "one spine, cables: 1"),
        ("{ switch: { hosts: 251, rate: 1Gb/s } }", "too many hosts for one machine"),
        (
            "{ switch: { hosts: 4, rate: 1Gb/s }, nodes: { npus: 2, rate: 10Gb/s } }",
            "host 2 cannot reach the first interface of host 0",
        ),
    ],
)
def test_fabrics_that_bridges_cannot_emulate_are_refused(made, fabric, words):
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
        ("network: 127.0.0.0/16\n" + ONE_SWITCH, "SL0102", "256 addresses or more of 10.0.0.0/8, 172.16.0.0/12"),
        ("network: 0.0.0.0/8\n" + ONE_SWITCH, "SL0102", "RFC 1918"),
        ("network: 240.0.0.0/8\n" + ONE_SWITCH, "SL0102", "RFC 1918"),
        ("network: 169.254.0.0/16\n" + ONE_SWITCH, "SL0102", "RFC 1918"),
        ("network: 172.0.0.0/8\n" + ONE_SWITCH, "SL0102", "RFC 1918"),
        ("network: 10.77.0.0/25\n" + ONE_SWITCH, "SL0102", "256 addresses or more"),
        ("queue: 3\n" + ONE_SWITCH, "SL0104", "without a unit"),
        ("queue: 0B\n" + ONE_SWITCH, "SL0102", "1514B, which is one packet, to 4294967295B"),
        ("queue: 1513B\n" + ONE_SWITCH, "SL0102", "found `1513B`"),
        ("queue: 4GiB\n" + ONE_SWITCH, "SL0102", "found `4GiB`"),
        ("shaper: netem\n" + ONE_SWITCH, "SL0102", "htb"),
        ("fabric: { switch: { hosts: 3, rate: fast } }\n", "SL0104", "rate"),
        ("fabric: 7\n", "SL0102", "fabric"),
        ("schema: syncline-testbed/2\n" + ONE_SWITCH, "SL0102", "syncline-testbed/1"),
        ("network: 10.77.3.0/24\n" + NICS, "SL1102", "host 0 with 2 interfaces in 10.77.3.0/24"),
    ],
)
def test_an_invalid_file_is_refused(made, text, code, words):
    with pytest.raises(SynclineError) as refused:
        made(text)
    problem = refused.value.diagnostics[0]
    assert problem["code"] == code
    assert words in str(refused.value)
    assert problem["place"]["file"].endswith("bed.yaml")


def test_hosts_and_switches_may_have_any_names(made):
    """A switch named like an NPU is still a switch, and a host named like a network card is still a host."""
    found = made(
        "fabric:\n  npus: [NIC 0, switch 1]\n  switches: [NPU 5]\n  links:\n"
        "    - { from: NIC 0, to: NPU 5, rate: 1Gb/s }\n    - { from: switch 1, to: NPU 5, rate: 1Gb/s }\n"
    )
    assert found.bridges == ("switch0",)
    assert [[nic.bridge for nic in host.nics] for host in found.hosts] == [["switch0"], ["switch0"]]
