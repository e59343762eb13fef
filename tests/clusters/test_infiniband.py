"""``ibnetdiscover``: networks that it describes, what is found in them, and errors that name lines."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

import syncline
from tests.clusters.infiniband_text import Fat, guid
from tests.clusters.test_smi import bisection

SMALL = Fat(hosts=8, interfaces=1, leaves=2, hosts_per_leaf=4, spines=2, cables=2, rails=False)
RAILS = Fat(hosts=8, interfaces=4, leaves=8, hosts_per_leaf=4, spines=2, cables=2)


@pytest.fixture
def fabric(fabric):
    """Converts a network link by link; ``regular`` writes a family of fabrics where it can."""
    return lambda name, **options: fabric(name, by_link="true", **options)


@pytest.fixture
def wrong(wrong):
    return lambda name, **options: wrong(name, by_link="true", **options)


def total_s(fabric: dict, collective: str, size: float, **algorithms: str) -> float:
    scenario = {
        "workload": {"collective": collective, "bytes": f"{size:.0f}B"},
        "fabric": fabric,
        "collectives": {"chunks": 1, "algorithms": {"default": algorithms}},
        "network": "flow",
    }
    return syncline.simulate(scenario).summary.total_time_s


def test_hosts_switches_and_cables_are_found(fabric, notes):
    made = fabric(SMALL.text())
    assert made["npus"] == [f"gpu{at:03d}" for at in range(1, 9)]
    assert sorted(made["switches"]) == ["leaf01", "leaf02", "spine01", "spine02"]
    assert made["links"][0] == {"from": "gpu001", "to": "leaf01", "rate": "25GB/s"}
    assert {"from": "leaf01", "to": "spine01", "rate": "25GB/s", "count": 2} in made["links"]
    assert len(made["links"]) == 8 + 4
    assert notes(SMALL.text()) == [
        "8 hosts, 4 switches in 2 levels: 2 and 2.",
        "Oversubscription above level 1: 1:1.",
        "A family of fabrics; hosts are numbered by their leaves, from gpu001 to gpu008.",
    ]


# Four hosts of 25 GB/s on a leaf, or half of the 8 hosts: 100 GB/s. Uplinks of a leaf: spines x cables x rate.
@pytest.mark.parametrize(
    ("network", "ratio", "across"),
    [
        (SMALL, "1:1", 100e9),
        (replace(SMALL, cables=1), "2:1", 50e9),
        (replace(SMALL, up="4xNDR"), "0.5:1", 100e9),
        (replace(SMALL, spines=1, cables=1), "4:1", 25e9),
        (replace(SMALL, speed="2xHDR"), "0.5:1", 50e9),
    ],
)
def test_oversubscription_and_bisection_are_those_counted_by_hand(network, ratio, across, fabric, notes):
    assert f"Oversubscription above level 1: {ratio}." in notes(network.text())
    assert bisection(fabric(network.text())) == across


@pytest.mark.parametrize(
    ("speed", "rate"),
    [
        ("4xQDR", "4GB/s"),
        ("4xFDR10", "5GB/s"),
        ("4xFDR", "6.818181818GB/s"),
        ("4xEDR", "12.5GB/s"),
        ("2xHDR", "12.5GB/s"),
        ("4xNDR", "50GB/s"),
        ("2xNDR", "25GB/s"),
        ("4xXDR", "100GB/s"),
        ("12xSDR", "3GB/s"),
    ],
)
def test_rates_follow_from_width_and_speed(speed, rate, fabric):
    assert fabric(replace(SMALL, speed=speed).text())["links"][0]["rate"] == rate


def test_rails_are_found_and_are_the_ports_of_gpus(fabric, notes):
    assert "4 rails: ports of the same number are on switches of their own." in notes(RAILS.text())
    assert not [each for each in notes(replace(RAILS, rails=False).text()) if "rails" in each]
    made = fabric(RAILS.text(), gpus="4", scale_up="450GB/s")
    links = [(link["from"], link["to"], link["rate"]) for link in made["links"]]
    assert len(made["npus"]) == 32
    assert ("gpu001.GPU2", "gpu001.scale-up", "450GB/s") in links
    assert ("gpu001.GPU2", "leaf03", "25GB/s") in links
    assert ("gpu005.GPU2", "leaf07", "25GB/s") in links


def test_a_ring_over_the_hosts_takes_as_long_as_the_closed_form(fabric):
    # Each host sends 2 (n - 1) / n of the data over its 25 GB/s; neighbours on other leaves have cables of their own.
    got = total_s(fabric(SMALL.text()), "all_reduce", 1.6e9, all_reduce="ring")
    assert got == pytest.approx(2 * 7 / 8 * 1.6e9 / 25e9, rel=1e-6)


def test_an_oversubscribed_core_sets_the_time_of_an_all_to_all(fabric):
    # Each of four hosts sends a block to each of four hosts on the other leaf, over one cable of 25 GB/s.
    made = fabric(replace(SMALL, spines=1, cables=1).text())
    got = total_s(made, "all_to_all", 8e8, all_to_all="direct")
    assert got == pytest.approx(4 * 4 * 1e8 / 25e9, rel=0.02)


def test_rails_that_no_switch_joins_make_gpus_forward(fabric):
    made = fabric(replace(RAILS, spines=0, hosts=4, leaves=4).text(), gpus="4", scale_up="450GB/s")
    assert made["forward"] is True
    assert total_s(made, "all_reduce", 1e6) > 0
    assert fabric(RAILS.text(), gpus="4", scale_up="450GB/s")["forward"] is False


def test_ports_that_share_a_switch_keep_messages_inside_the_host(fabric):
    text = Fat(hosts=4, interfaces=2, leaves=2, hosts_per_leaf=4, spines=1, cables=1, rails=False).text()
    made = fabric(text, gpus="2", scale_up="100GB/s", pcie="32GB/s")
    assert {"from": "gpu001.GPU1", "to": "gpu001.NIC1", "rate": "32GB/s"} in made["links"]
    assert {"from": "gpu001.NIC1", "to": "leaf01", "rate": "25GB/s"} in made["links"]
    # Messages between the two GPUs of a host take its 100 GB/s, not the 25 GB/s of the leaf.
    pair = fabric(text, gpus="2", scale_up="100GB/s", pcie="32GB/s", hosts="gpu001")
    assert total_s(pair, "all_reduce", 1e9, all_reduce="ring") == pytest.approx(1e9 / 100e9, rel=1e-6)


@pytest.mark.parametrize("blocks", [("Switch",), ("Ca", "Switch")])
def test_one_end_of_a_link_is_enough(blocks, fabric):
    whole, part = fabric(RAILS.text()), fabric(replace(RAILS, blocks=blocks).text())
    assert sorted(map(str, part["links"])) == sorted(map(str, whole["links"]))
    assert part["npus"] == whole["npus"]


def test_hosts_alone_describe_their_leaves(fabric, notes):
    text = replace(SMALL, blocks=("Ca",)).text()
    assert "Left out: gpu005, gpu006, gpu007 and gpu008, which no switch joins with the others." in notes(text)
    assert fabric(text)["npus"] == ["gpu001", "gpu002", "gpu003", "gpu004"]


def test_a_text_that_is_cut_in_its_last_line_is_read(fabric):
    text = RAILS.text()
    cut = text[: text.rindex("[1]") + 20]
    assert fabric(cut)["npus"] == fabric(text)["npus"]


def test_devices_that_sum_data_in_switches_are_no_hosts(fabric):
    device = f'[41]\t"H-{guid("h", 9999)}"[1] # "Mellanox Technologies Aggregation Node" lid 99 4xHDR\n'
    text = SMALL.text().replace("port 0 lid 1 lmc 0\n", f"port 0 lid 1 lmc 0\n{device}")
    assert len(fabric(text)["npus"]) == 8


def test_some_hosts_or_interfaces_can_be_chosen(fabric, notes):
    one = fabric(RAILS.text(), hosts="gpu[001-004]")
    assert one["npus"] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert sorted(one["switches"]) == ["leaf01", "leaf02", "leaf03", "leaf04", "spine01", "spine02"]
    rail = fabric(RAILS.text(), nics="mlx5_2")
    assert sorted(rail["switches"]) == ["leaf03", "leaf07", "spine01", "spine02"]
    assert "Oversubscription above level 1: 1:1." in notes(RAILS.text(), nics="mlx5_2")


@pytest.mark.parametrize(
    ("network", "options", "collective"),
    [
        (SMALL, {}, "all_reduce"),
        (replace(SMALL, spines=1, cables=1), {}, "all_to_all"),
        (RAILS, {"gpus": "4", "scale_up": "450GB/s"}, "all_reduce"),
    ],
)
def test_a_regular_network_is_a_family_with_the_same_bisection_and_times(network, options, collective, fabric, regular):
    by_link, family = fabric(network.text(), **options), regular(network.text(), **options)
    assert "leaf_spine" in family and "links" in by_link
    assert bisection(family) == bisection(by_link)
    algorithm = {"all_reduce": "ring", "all_to_all": "direct"}[collective]
    if not options:
        times = [total_s(each, collective, 8e8, **{collective: algorithm}) for each in (by_link, family)]
        assert times[0] == pytest.approx(times[1], rel=0.02)


def test_a_network_with_a_broken_cable_is_no_family(regular, notes):
    lines = SMALL.text().split("\n")
    cable = next(at for at, line in enumerate(lines) if line.startswith("[5]\t"))
    other = next(at for at, line in enumerate(lines) if line.startswith("[1]\t") and "leaf01" in line and "S-" in line)
    text = "\n".join(line for at, line in enumerate(lines) if at not in (cable, other))
    assert "links" in regular(text)
    assert regular(SMALL.text())["leaf_spine"] == {
        "leaves": 2,
        "hosts_per_leaf": 4,
        "spines": 2,
        "rate": "25GB/s",
        "cables": 2,
    }
    assert notes(SMALL.text())[-1] == "A family of fabrics; hosts are numbered by their leaves, from gpu001 to gpu008."


def test_a_large_family_without_latency_says_what_that_costs(notes):
    said = "Without --latency, links have none, and simulations follow every NPU by itself."
    many = {"gpus": "64", "scale_up": "450GB/s", "pcie": "64GB/s"}
    assert said in notes(SMALL.text(), **many)
    assert said not in notes(SMALL.text(), **many, latency="1us")
    assert said not in notes(SMALL.text())


def test_a_thousand_hosts_are_read_in_about_a_second(notes):
    text = Fat(hosts=1000, interfaces=8, leaves=400, hosts_per_leaf=20, spines=20, cables=1).text()
    began = time.process_time()
    found = notes(text)
    assert time.process_time() - began < 4  # 0.8 s on an idle core
    assert found[0] == "1000 hosts with 8 ports, 420 switches in 2 levels: 400 and 20."


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.split("\n"), 1) if part in line)


T = SMALL.text()
FIRST = '# "gpu001 mlx5_0" lid 1000 4xHDR'


@pytest.mark.parametrize(
    ("text", "message", "line", "more"),
    [
        (T.replace(FIRST, FIRST[:-3] + "HDX"), "an unknown width or speed", line_of(T, FIRST), {"nearest": "4xHDR"}),
        (T.replace(FIRST, FIRST[:-5] + "3xHDR"), "an unknown width or speed", line_of(T, FIRST), {"found": "3xHDR"}),
        (T.replace(FIRST, FIRST[:-3] + "EDR"), "the two ends of a link have different rates", None, {}),
        (T.replace('[2]\t"H', '[1]\t"H', 1), "port 1 is joined to two ports", line_of(T, '[2]\t"H'), {}),
        (T.replace("vendid=0x2c9", "vendor 0x2c9", 1), "neither a device nor a port", 6, {"found": "vendor 0x2c9"}),
        (T.replace("\nSwitch", "\n# Switch", 1), "a port before the first device", 11, {}),
        (T + T.split("\n\n")[1] + "\n\n", "a second block of S-1070fd0300000000", None, {}),
    ],
)
def test_a_malformed_text_is_refused_with_its_line(text, message, line, more, wrong):
    (problem,) = wrong(text)
    assert message in problem["message"]
    assert line is None or problem["place"]["line"] == line
    assert {key: problem[key] for key in more} == more


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": "2", "scale_up": "1GB/s"}, "missing option --pcie"),
        ({"gpus": "4"}, "missing option --scale-up: the text does not say how the GPUs of a host are joined"),
        ({"gpus": "3", "scale_up": "1GB/s", "nics": "mlx5_0,mlx5_1"}, "the 2 ports of gpu001 cannot be shared evenly"),
        ({"scale_up": "1GB/s"}, "--scale-up changes nothing here"),
        ({"nodes": "4"}, "--nodes changes nothing here"),
        ({"hosts": "gpu[001-009]"}, "--hosts names what the text does not have"),
        ({"hosts": "gpu[001-"}, "not a list of hosts: a bracket is not closed"),
        ({"nics": "mlx5_7"}, "--nics names what the text does not have"),
    ],
)
def test_options_that_do_not_fit_are_named(options, message, wrong):
    text = RAILS.text() if "pcie" not in message else replace(RAILS, rails=False).text()
    (problem,) = wrong(text, **options)
    assert message in problem["message"]


def test_a_link_without_a_rate_asks_for_one(wrong, fabric):
    text = replace(SMALL, speed="", up="").text()
    (problem,) = wrong(text)
    assert "missing option --nic: line 11 of printed.txt has no width and speed" in problem["message"]
    assert fabric(text, nic="200Gb/s")["links"] == fabric(T)["links"]
