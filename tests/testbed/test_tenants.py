"""Tenants of a testbed's file: their machines, addresses and ends of flows, and errors in the file."""

from __future__ import annotations

import ipaddress
import json

import pytest

from syncline.errors import SynclineError
from syncline.input.source import Override
from syncline.testbed import commands
from syncline.testbed.difference import difference
from syncline.testbed.flows import Flow, Port, shares, way
from syncline.testbed.layout import PAYLOAD, from_dict, layout
from syncline.testbed.spec import read
from tests.testbed.specs import NICS, RACKS

SQUARE = """\
fabric:
  npus: 3
  links:
    - { from: 0, to: 1, rate: 100Mb/s }
    - { from: 1, to: 2, rate: 100Mb/s }
traffic:
  - """

APART = """\
fabric:
  npus: [a, b]
  switches: [p, q]
  links:
    - { from: a, to: p, rate: 100Mb/s }
    - { from: b, to: q, rate: 100Mb/s }
    - { from: a, to: q, rate: 100Mb/s }
    - { from: b, to: p, rate: 100Mb/s }
traffic:
  - """
"""Two hosts whose first interfaces are on switches that are not connected."""


@pytest.fixture
def made(cli):
    """Returns a function that makes the layout of a file with a given text."""
    return lambda text, name="bed.yaml": layout(read(str(cli.folder / cli.write(name, text))))


def tenants(*lines):
    """Returns the file of two racks with these tenants."""
    return RACKS.format(name="cloud") + "traffic:\n" + "".join(f"  - {line}\n" for line in lines)


def test_machines_of_tenants_are_attached_to_racks(made):
    found = made(
        tenants(
            "{ name: a, from: { rack: 0 }, to: { rack: 1 }, machines: 2 }",
            "{ from: random, to: { host: 3 }, machine_rate: 50Mb/s }",
            "{ from: { host: [0, 1] }, to: { host: 2 } }",
        )
    )
    assert [(each.number, each.rack, each.tenant) for each in found.machines] == [
        (4, 0, "a"),
        (5, 0, "a"),
        (6, 1, "a"),
        (7, 1, "a"),
        (8, 0, "tenant1"),
        (9, 1, "tenant1"),
    ]
    assert [(each.name, each.senders, each.receivers) for each in found.traffic] == [
        ("a", (4, 5), (6, 7)),
        ("tenant1", (8, 9), (3,)),
        ("tenant2", (0, 1), (2,)),
    ]
    nics = [machine.nics[0] for machine in found.machines]
    assert [nic.address for nic in nics] == [f"10.77.0.{number + 1}" for number in range(4, 10)]
    assert [nic.bridge for nic in nics] == ["leaf0", "leaf0", "leaf1", "leaf1", "leaf0", "leaf1"]
    assert [nic.up_bits for nic in nics] == [200_000_000] * 4 + [50_000_000] * 2
    parts = ["h0", "h1", "h2", "h3", "m4", "m5", "m6", "m7", "m8", "m9", "fabric"]
    assert found.namespaces() == [f"syncline.cloud.{part}" for part in parts]
    assert from_dict(json.loads(json.dumps(found.as_dict()))) == found
    # Commands run on hosts alone.
    assert len(found.hosts) == 4
    assert found.racks == 2


def test_links_of_machines_are_shaped_at_both_ends(made):
    found = made(tenants("{ from: { rack: 0 }, to: { rack: 1 }, machine_rate: 50Mb/s }"))
    shaped = {
        (namespace.rpartition(".")[2], line.split()[3])
        for program, namespace, lines in commands.batches(found)
        if program == "tc"
        for line in lines
        if "rate 50000000bit" in line
    }
    assert shaped == {("m4", "eth0"), ("m5", "eth0"), ("fabric", "m4n0"), ("fabric", "m5n0")}


def test_tenants_share_the_links_of_racks_and_no_links_of_hosts(made):
    found = made(tenants("{ from: { rack: 0 }, to: { rack: 1 } }"))
    host, machine = Flow(Port(found.hosts[0], 0), Port(found.hosts[2], 0)), Flow(*(Port(m, 0) for m in found.machines))
    both = set(way(found, host)) & set(way(found, machine))
    assert both == {("leaf0", "spine0"), ("spine0", "leaf1")}
    assert [share.bits for share in shares(found, [host, machine])] == pytest.approx([50e6 * PAYLOAD] * 2)


def test_addresses_are_different_with_several_interfaces(made):
    text = NICS + "traffic:\n  - { from: { rack: 0 }, to: { host: 2 }, machines: 3 }\n"
    found = made(text)
    addresses = [nic.address for host in found.everything for nic in host.nics]
    assert len(set(addresses)) == len(addresses)
    network = ipaddress.IPv4Network(found.hosts[0].nics[0].subnet)
    assert all(ipaddress.IPv4Address(machine.nics[0].address) in network for machine in found.machines)


def test_hosts_that_are_joined_directly_may_have_tenants(made):
    found = made(SQUARE + "{ from: { host: 0 }, to: { host: [1, 2] } }\n")
    assert (found.machines, found.traffic[0].receivers) == ((), (1, 2))


def test_an_override_adds_tenants_to_a_scenario(cli):
    text = "schema: syncline/1\nworkload: { collective: all_reduce, bytes: 1MB }\n"
    file = cli.write(
        "job.yaml", text + "fabric: { leaf_spine: { leaves: 2, hosts_per_leaf: 2, spines: 1, rate: 1Gb/s } }\n"
    )
    given = Override.parse("traffic=[{from: {rack: 0}, to: {rack: 1}, seed: 3}]")
    found = layout(read(str(cli.folder / file), [given]))
    assert [(each.senders, each.receivers, each.seed) for each in found.traffic] == [((4,), (5,), 3)]
    wrong = Override.parse("traffic=[{from: {rack: 0}, to: {rack: 2}}]")
    with pytest.raises(SynclineError) as refused:
        layout(read(str(cli.folder / file), [wrong]))
    (problem,) = refused.value.diagnostics
    assert (problem["key"], problem["place"]["file"]) == ("traffic.0.to.rack", "--set")


def test_numbers_of_the_file_are_plain_numbers(made):
    (found,) = made(
        tenants(
            "{ from: random, to: random, rate: 25MB/s, protocol: udp, interarrival: 50ms, size: 64KiB,"
            " distribution: pareto, shape: 2, start: 1s, until: 1500ms, seed: 9 }"
        )
    ).traffic
    assert (found.rate_bits, found.protocol, found.interarrival_s, found.size_bytes) == (
        200_000_000,
        "udp",
        0.05,
        65536,
    )
    assert (found.distribution, found.shape, found.start_s, found.until_s, found.seed) == ("pareto", 2, 1.0, 1.5, 9)
    assert (found.flows, found.on_s, found.off_s) == (64, 0.0, 0.0)
    (found,) = made(tenants("{ from: random, to: random, on: 2s, off: 300ms, flows: 3 }")).traffic
    assert (found.rate_bits, found.flows, found.on_s, found.off_s) == (0, 3, 2.0, 0.3)
    assert (found.distribution, found.interarrival_s, found.size_bytes) == ("exponential", 0.0, 0)


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ("", ", seed: 1", "traffic of tenant0: "),
        ("", ", rate: 1Mb/s", "traffic of tenant0: "),
        ("", ", name: a", "tenants: tenant0 in the testbed, a in the file"),
        ("", ", machine_rate: 1Mb/s", "rate of machine 4: 200 Mb/s to leaf0, 200 Mb/s back in the testbed, 1 Mb/s"),
        ("", None, "tenants: tenant0 in the testbed, none in the file"),
    ],
)
def test_differences_of_traffic_are_named(made, one, other, what):
    line = "{{ from: {{ rack: 0 }}, to: {{ rack: 1 }}{} }}".format
    there = made(tenants(line(one)))
    asked = made(tenants(line(other)) if other is not None else RACKS.format(name="cloud"))
    assert difference(there, there) is None
    assert difference(there, asked).startswith(what)


ERRORS = [
    ("from: { host: 4 }, to: { host: 0 }", "from.host", "there is no such host", "4", "0 to 3"),
    ("from: random, to: { host: [0, 4] }", "to.host.1", "there is no such host", "4", "0 to 3"),
    ("from: { rack: 2 }, to: random", "from.rack", "there is no such rack", "2", "0 to 1"),
    ("from: { host: 1 }, to: { host: 1 }", "from", "host 1 has no receiver but itself", None, None),
    ("from: { host: [0, 1] }, to: { host: 0 }", "from", "host 0 has no receiver but itself", None, None),
    ("from: { host: 0 }, to: { host: [0, 1] }", "to", "host 0 has no sender but itself", None, None),
    (
        "from: { rack: 1 }, to: { rack: 1 }",
        "from",
        "the tenant's only machine has no receiver but itself",
        None,
        None,
    ),
    (
        "from: random, to: random, rate: 0Gb/s",
        "rate",
        "not a valid rate of a flow",
        "0Gb/s",
        "greedy, or 1kb/s to 1Tb/s",
    ),
    (
        "from: random, to: random, rate: 2Tb/s",
        "rate",
        "not a valid rate of a flow",
        "2Tb/s",
        "greedy, or 1kb/s to 1Tb/s",
    ),
    (
        "from: random, to: random, machine_rate: 0Gb/s",
        "machine_rate",
        "not a valid rate of a machine's links",
        "0Gb/s",
        "1kb/s to 1Tb/s",
    ),
    ("from: random, to: random, on: 2s", "on", "`on` without `off`", None, None),
    ("from: random, to: random, off: 2s", "off", "`off` without `on`", None, None),
    ("from: random, to: random, on: 9ms, off: 1s", "on", "not a valid mean duration", "9ms", "10ms to 100000s"),
    (
        "from: random, to: random, on: 1s, off: 100001s",
        "off",
        "not a valid mean duration",
        "100001s",
        "10ms to 100000s",
    ),
    ("from: random, to: random, flows: 257", "flows", "value not allowed", "257", "at most 256"),
    (
        "from: random, to: random, protocol: udp",
        "protocol",
        "UDP needs a rate, because it has no congestion control",
        None,
        None,
    ),
    (
        "from: random, to: random, distribution: pareto",
        "distribution",
        "`distribution` has no effect without `on` and `off`",
        None,
        None,
    ),
    (
        "from: random, to: random, on: 1s, off: 1s, shape: 2",
        "shape",
        "`shape` has no effect without `distribution: pareto`",
        None,
        None,
    ),
    ("from: random, to: random, start: 2s, until: 2s", "until", "the traffic ends before it begins", "2s", None),
    ("from: random, to: random, interarrival: 1s", "size", "missing key `size`", None, None),
    (
        "from: random, to: random, interarrival: 999us, size: 1kB",
        "interarrival",
        "not a valid mean time between arrivals",
        "999us",
        "1ms to 100000s",
    ),
    ("from: random, to: random, interarrival: 1s, size: 0B", "size", "not a valid size of a flow", "0B", "1B to 1PB"),
    (
        "from: { host: 0 }, to: { host: 1 }, machines: 2",
        "machines",
        "`machines` has no effect, because all flows begin and end at hosts",
        None,
        None,
    ),
    (
        "from: random, to: random, machines: 124",
        "machines",
        "too many hosts for one machine, with those of tenants",
        "252",
        "at most 250",
    ),
]


@pytest.mark.parametrize(("line", "key", "message", "found", "allowed"), ERRORS, ids=[each[0] for each in ERRORS])
def test_an_error_names_the_line_and_the_key(made, line, key, message, found, allowed):
    before = [] if "machines" in line else ["{ name: first, from: random, to: random }"]
    with pytest.raises(SynclineError) as refused:
        made(tenants(*before, f"{{ {line} }}"))
    (problem,) = refused.value.diagnostics
    at = len(before)
    assert (problem["message"], problem["key"]) == (message, f"traffic.{at}.{key}")
    assert (problem.get("found"), problem.get("allowed")) == (found, allowed)
    assert (problem["place"]["file"].rpartition("/")[2], problem["place"]["line"]) == ("bed.yaml", 6 + at)
    assert refused.value.exit_status == 2


def test_as_many_machines_and_flows_as_there_may_be_are_allowed(made):
    assert len(made(tenants("{ from: random, to: random, machines: 123, flows: 256 }")).everything) == 250


def test_the_flows_of_all_tenants_together_are_limited(made):
    with pytest.raises(SynclineError) as refused:
        made(tenants("{ from: random, to: random, flows: 200 }", "{ from: random, to: random, flows: 57 }"))
    (problem,) = refused.value.diagnostics
    assert (problem["key"], problem["found"]) == ("traffic.1.flows", "257, with this tenant")
    with pytest.raises(SynclineError) as refused:
        made(tenants("{ from: random, to: random, flows: 21, on: 10ms, off: 10ms }"))
    (problem,) = refused.value.diagnostics
    assert (problem["key"], problem["message"]) == ("traffic.0", "too many flows begin each second")
    assert made(tenants("{ from: random, to: random, flows: 20, on: 10ms, off: 10ms }")).traffic


def test_names_of_tenants_are_different(made):
    with pytest.raises(SynclineError) as refused:
        made(tenants("{ from: random, to: random }", "{ name: tenant0, from: random, to: random }"))
    (problem,) = refused.value.diagnostics
    assert (problem["message"], problem["key"]) == ("two tenants have the same name", "traffic.1.name")


def test_racks_need_switches(made):
    with pytest.raises(SynclineError, match="the fabric has no racks: its hosts are joined directly"):
        made(SQUARE + "{ from: random, to: { host: 0 } }\n")


def test_racks_that_switches_do_not_connect_are_refused(made):
    assert made(APART + "{ from: { rack: 0 }, to: { host: 0 } }\n").machines
    with pytest.raises(SynclineError, match="switches do not connect all senders"):
        made(APART + "{ from: { rack: 0 }, to: { rack: 1 } }\n")
