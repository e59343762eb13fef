"""Flows that are measured, their fair shares, and the report on slow ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncline.errors import SynclineError
from syncline.testbed.check import FAIR, LONGEST_S, START_S, Checked, Latency, MeasuredFlow, Rate, require, window
from syncline.testbed.flows import Flow, Port, Share, alone, latency_s, parts, patterns, queueing_s, shares, way
from syncline.testbed.layout import PAYLOAD, layout
from syncline.testbed.spec import read
from tests.testbed.specs import ALONE, BOX, NICS, ONE, RACKS


@pytest.fixture
def made(cli):
    """Returns a function that makes the layout of a file with a given text."""
    return lambda text: layout(read(str(cli.folder / cli.write("bed.yaml", text))))


def totals(found):
    """Returns for each pattern the Mb/s of all flows together, including headers."""
    return {
        what: round(sum(share.bits for share in shares(found, flows)) / PAYLOAD / 1e6)
        for what, flows in patterns(found)
    }


def test_flows_share_links_fairly(made):
    found = made(RACKS.format(name="racks"))
    assert {what: len(flows) for what, flows in patterns(found)} == {
        "one flow in a rack": 1,
        "one flow across racks": 1,
        "all hosts, in a rack": 4,
        # Acknowledgements of one direction would wait behind data of the other.
        "all hosts, across racks (1 of 2)": 2,
        "all hosts, across racks (2 of 2)": 2,
    }
    assert totals(found) == {
        "one flow in a rack": 200,
        "one flow across racks": 100,
        "all hosts, in a rack": 800,
        "all hosts, across racks (1 of 2)": 100,
        "all hosts, across racks (2 of 2)": 100,
    }
    a, b, c, _ = (Port(host, 0) for host in found.hosts)
    # One of two flows from a host is limited by the link between racks, and leaves the rest to the other.
    near, far = shares(found, [Flow(a, b), Flow(a, c)])
    assert (near.bits + far.bits) / PAYLOAD == pytest.approx(200e6)
    # Together they fill a link that both pass.
    assert near.contended


def test_only_shares_that_other_flows_can_take_are_contended(made):
    found = made(RACKS.format(name="racks"))
    by_name = dict(patterns(found))
    assert not any(share.contended for share in shares(found, by_name["all hosts, in a rack"]))
    assert all(share.contended for share in shares(found, by_name["all hosts, across racks (1 of 2)"]))
    # With a higher rate between racks, each flow is limited by its own link, which no other flow passes.
    wide = made(RACKS.format(name="racks").replace("uplink_rate: 100Mb/s", "uplink_rate: 400Mb/s"))
    across = dict(patterns(wide))["all hosts, across racks"]
    assert len(across) == 4
    assert not any(share.contended for share in shares(wide, across))


@pytest.mark.parametrize("text", [RACKS.format(name="racks"), NICS, BOX.format(name="box")])
def test_every_interface_sends_and_receives(made, text):
    found = made(text)
    every = {(host.number, at) for host in found.hosts for at in range(len(host.nics))}
    flows = [flow for _, flows in patterns(found) for flow in flows]
    assert {(flow.sender.host.number, flow.sender.at) for flow in flows} == every
    assert {(flow.receiver.host.number, flow.receiver.at) for flow in flows} == every
    assert all(flow.sender.host is not flow.receiver.host for flow in flows)


def test_interfaces_are_measured_one_by_one_and_all_at_once(made):
    found = made(NICS)
    assert totals(found) == {
        "one flow in a rack, eth0": 100,
        "all hosts, in a rack, eth0": 300,
        "one flow in a rack, eth1": 100,
        "all hosts, in a rack, eth1": 300,
        "all hosts, all interfaces": 600,
    }


def test_an_interface_number_of_only_one_host_is_measured_with_first_interfaces(made):
    found = made(BOX.format(name="box"))
    (flow,) = dict(patterns(found))["one flow in a rack, eth1"]
    assert (flow.sender.name, flow.receiver.name) == ("host 0 eth1", "host 1")
    assert totals(found)["one flow in a rack, eth1"] == 100
    both = [Flow(Port(found.hosts[0], at), Port(found.hosts[1], 0)) for at in (0, 1)]
    assert sum(share.bits for share in shares(found, both)) / PAYLOAD == pytest.approx(200e6)
    # Here the second interface is on another switch.
    alone = made("""\
fabric:
  npus: [hub, worker0, worker1]
  switches: [one, two]
  links:
    - { from: hub, to: one, rate: 100Mb/s }
    - { from: hub, to: two, rate: 100Mb/s }
    - { from: worker0, to: one, rate: 100Mb/s }
    - { from: worker1, to: one, rate: 100Mb/s }
    - { from: one, to: two, rate: 100Mb/s }
""")
    (flow,) = dict(patterns(alone))["one flow across racks, eth1"]
    assert (flow.sender.name, flow.receiver.name) == ("host 0 eth1", "host 1")


@pytest.mark.parametrize("text", [RACKS.format(name="racks"), NICS, BOX.format(name="box")])
def test_acknowledgements_do_not_wait_behind_data(made, text):
    found = made(text)
    for what, flows in patterns(found):
        # No pattern can be split further.
        assert list(parts(found, flows)) == [flows], what


def test_parts_use_each_full_cable_in_one_direction(made):
    found = made(RACKS.format(name="racks"))
    for number in (1, 2):
        flows = dict(patterns(found))[f"all hosts, across racks ({number} of 2)"]
        data = {link for flow in flows for link in way(found, flow)}
        back = {link for flow in flows for link in way(found, Flow(flow.receiver, flow.sender))}
        assert not data & back


def test_the_longest_wait_is_that_of_a_full_queue(made):
    found = made(RACKS.format(name="racks"))
    by_name = dict(patterns(found))
    # In a rack hosts send no faster than the switch: only the bytes that TCP has passed down wait, in the host.
    assert queueing_s(found, by_name["all hosts, in a rack"]) == pytest.approx(8 * 131_072 / 200e6)
    assert queueing_s(found, by_name["one flow across racks"]) == pytest.approx(8e6 / 100e6)


def test_latencies_of_a_file_are_added_up(made):
    text = RACKS.format(name="racks").replace("rate: 200Mb/s", "rate: 200Mb/s, latency: 1ms, uplink_latency: 10ms")
    found = made(text)
    a, b, c, _ = (Port(host, 0) for host in found.hosts)
    assert latency_s(found, Flow(a, b)) == pytest.approx(0.002)
    assert latency_s(found, Flow(a, c)) == pytest.approx(0.022)


def test_interfaces_that_reach_no_other_host_are_named(made, capsys):
    from syncline.terminal.streams import show
    from syncline.testbed.screen import checked

    found = made(ALONE.format(name="alone"))
    (port,) = alone(found)
    assert port.name == "host 1 eth1"
    assert not any(port in (flow.sender, flow.receiver) for _, flows in patterns(found) for flow in flows)
    done = Checked((rate(found, 1.0),), (), (port,))
    assert done.as_dict()["alone"] == ["host 1 eth1"]
    show(*checked(done, found, 2))
    assert "Not measured: host 1 eth1, which reaches no other host." in capsys.readouterr().out
    for text in (RACKS.format(name="racks"), NICS, BOX.format(name="box")):
        assert alone(made(text)) == []


def test_a_testbed_of_one_host_cannot_be_measured(made):
    with pytest.raises(SynclineError) as refused:
        require(made(ONE.format(name="one")))
    assert "there is nothing to measure" in str(refused.value)
    assert "found `1 host`, allowed: two hosts or more" in str(refused.value)


SLOW = "fabric: {{ leaf_spine: {{ leaves: 2, hosts_per_leaf: 4, spines: 1, rate: {0}, uplink_rate: {0} }} }}\n"


def test_the_time_of_a_check_is_computed(made):
    found = made(SLOW.format("10Mb/s"))
    # A packet waits up to 0.8 s for a link of 10 Mb/s: 8 s to settle, and 20 s of measurement if flows share the link.
    assert [window(found, flows, 1.0) for _, flows in patterns(found)] == [
        (pytest.approx(1.05, rel=0.01), 1.0),
        (pytest.approx(1.05, rel=0.01), 1.0),
        (pytest.approx(1.05, rel=0.01), 1.0),
        *[(pytest.approx(8), pytest.approx(20))] * 2,
    ]
    assert require(found) == pytest.approx(3 * 2.05 + 2 * 28 + 7 * START_S, rel=0.01)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            SLOW.format("1Mb/s"),
            ["would take 9 min 58 s", "found `1 MB`", "waits in queues for up to 8 s", "queue: 256KiB"],
        ),
        ("queue: 4GB\n" + SLOW.format("1Gb/s"), ["would take 37 min 27 s", "found `4 GB`", "queue: 256MiB"]),
        # The queues of hosts cannot be shortened.
        (SLOW.format("100kb/s"), ["would take 1 h 38 min", "help: give it faster links"]),
    ],
)
def test_a_check_that_would_take_too_long_is_refused(made, text, words):
    with pytest.raises(SynclineError) as refused:
        require(made(text))
    for word in ("`queue`", "allowed: a queue with which it takes at most 5 min", *words):
        assert word in str(refused.value)


@pytest.mark.parametrize("text", ["queue: 256KiB\n" + SLOW.format("1Mb/s"), "queue: 256MiB\n" + SLOW.format("1Gb/s")])
def test_a_check_with_the_proposed_queue_is_short_enough(made, text):
    assert require(made(text)) < LONGEST_S


def rate(found, *parts_of_share, contended=False):
    """Returns a measurement of flows that each got a part of 100 Mb/s."""
    ports = [Port(host, 0) for host in found.hosts]
    share = Share(100e6, contended)
    each = [
        MeasuredFlow(Flow(ports[0], ports[1]), share, part * share.bits, part * share.bits) for part in parts_of_share
    ]
    return Rate("all hosts", tuple(each), 0.5)


def test_one_slow_host_of_sixteen_does_not_hold(made):
    found = made(NICS)
    assert rate(found, *[1.0] * 16).holds
    slow = rate(found, *[1.0] * 15, 0.6)
    # The rate of all flows together is within 5 %.
    assert slow.measured_bits / slow.expected_bits > 0.95
    assert not slow.holds
    assert [one.bits for one in slow.slow] == [0.6 * 100e6]
    plain = slow.as_dict()
    assert not plain["holds"]
    assert plain["least_bits"] == 0.6 * 100e6
    assert plain["slow"] == [
        {
            "from": "host 0 eth0",
            "to": "host 1 eth0",
            "expected_bits": 100e6,
            "measured_bits": 0.6 * 100e6,
            "contended": False,
        }
    ]


def test_contended_flows_need_not_be_equal(made):
    found = made(NICS)
    assert rate(found, 0.5, 1.5, contended=True).holds
    assert not rate(found, FAIR * 0.9, 2 - FAIR * 0.9, contended=True).holds
    # The rate of all flows together must be that of the file.
    assert not rate(found, 0.5, 1.2, contended=True).holds


def test_the_screen_names_slow_flows_and_the_files_latency(made, capsys):
    from syncline.terminal.streams import show
    from syncline.testbed.screen import checked

    found = made(NICS)
    latency = Latency("in a rack", 0.02, 30e-6, 40e-6)
    show(*checked(Checked((rate(found, *[1.0] * 15, 0.6),), (latency,)), found, 2))
    said = " ".join(capsys.readouterr().out.split())
    assert "all hosts: the flow from host 0 eth0 to host 1 eth0 got 60 Mb/s; its share is 100 Mb/s" in said
    assert "in a rack 20 ms 30 us 40 us" in said
    assert "Latencies in the file are not emulated" in said
    assert "does not hold" in said
    one = replace(latency, file_s=0.0)
    show(*checked(Checked((rate(found, 1.0),), (one,)), found, 2))
    assert "not emulated" not in capsys.readouterr().out
