"""Topologies of SimAI: families and links that they become, and errors that name line and column."""

from __future__ import annotations

import pytest

from tests.clusters.test_infiniband import total_s


def rails(servers: int, *, gpus: int = 8, spines: int = 4, nic: str = "400Gbps", switches_per_gpu: int = 1) -> str:
    """A rail-optimised network as SimAI's template writes it: a leaf for the GPUs of each number."""
    count = servers * gpus
    leaves = gpus * switches_per_gpu
    nvswitch, leaf, spine = count, count + servers, count + servers + leaves
    links = []
    for gpu in range(count):
        links.append(f"{gpu} {nvswitch + gpu // gpus} 2880Gbps 0.000025ms 0")
        links += [f"{gpu} {leaf + gpu % gpus + gpus * at} {nic} 0.0005ms 0" for at in range(switches_per_gpu)]
    links += [f"{leaf + a} {spine + b} 400Gbps 0.0005ms 0" for a in range(leaves) for b in range(spines)]
    vertices = spine + spines
    numbers = " ".join(str(at) for at in range(count, vertices))
    return f"{vertices} {gpus} {servers} {leaves + spines} {len(links)} H100\n{numbers} \n" + "\n".join(links) + "\n"


def test_rails_become_a_family(fabric, notes):
    assert fabric(rails(16)) == {
        "leaf_spine": {
            "leaves": 8,
            "hosts_per_leaf": 16,
            "spines": 4,
            "rate": "50GB/s",
            "cables": 1,
            "latency": "500ns",
        },
        "nodes": {"npus": 8, "rate": "360GB/s", "latency": "25ns", "nics": 8, "rails": True},
    }
    assert notes(rails(16))[0] == "A topology of SimAI: 16 servers of 8 GPUs."


def test_two_switches_of_a_gpu_are_two_interfaces(fabric):
    made = fabric(rails(4, nic="200Gbps", switches_per_gpu=2))
    assert (made["nodes"]["nics"], made["leaf_spine"]["leaves"], made["leaf_spine"]["rate"]) == (16, 16, "25GB/s")


def test_both_forms_take_what_their_rings_take(fabric):
    family, by_link = fabric(rails(4)), fabric(rails(4), by_link="true")
    assert by_link["npus"][9] == "server1.GPU1"
    # A family has rings within servers, then between them; links have one ring, as slow as its hops between servers.
    levels = 2 * 7 / 8 * 320e6 / 360e9 + 2 * 3 / 4 * 40e6 / 50e9
    whole = 2 * 31 / 32 * 320e6 / 50e9
    assert total_s(family, "all_reduce", 320e6, all_reduce="ring") == pytest.approx(levels, rel=0.01)
    assert total_s(by_link, "all_reduce", 320e6, all_reduce="ring") == pytest.approx(whole, rel=0.01)


def test_latencies_can_be_replaced(fabric):
    made = fabric(rails(4), latency="2us", scale_up_latency="1us")
    assert (made["leaf_spine"]["latency"], made["nodes"]["latency"]) == ("2us", "1us")


def test_a_server_alone_is_a_switch(fabric):
    text = "5 4 1 0 4 A100\n4\n" + "\n".join(f"{gpu} 4 1200Gbps 25ns 0" for gpu in range(4))
    assert fabric(text + "\n") == {"switch": {"hosts": 4, "rate": "150GB/s", "latency": "25ns"}}


def test_links_that_lose_messages_are_named(notes):
    lossy = rails(4).replace("400Gbps 0.0005ms 0", "400Gbps 0.0005ms 1e-6", 1)
    assert notes(lossy)[-1] == "Left out: the error rates of 1 link; links here lose nothing."


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("0 32 2880Gbps", "0 32 2880Gpbs", (3, 6), "not a rate"),
        ("0 32 2880Gbps 0.000025ms", "0 32 2880Gbps 25", (3, 15), "not a latency"),
        ("0 32 2880Gbps", "0 99 2880Gbps", (3, 3), "no such vertex"),
        ("0 32 2880Gbps", "0 1 2880Gbps", (3, 1), "a link joins a GPU and a switch, or two switches"),
        ("0 32 2880Gbps 0.000025ms 0\n", "0 32 2880Gbps\n", (3, 1), "a link has five fields"),
        ("0 32 2880Gbps 0.000025ms 0\n", "", (1, 1), "the text has not as many links as its first line says"),
        ("0 32 2880Gbps", "0 33 2880Gbps", None, "an NVSwitch joins GPUs of one server"),
        ("0 32 2880Gbps", "0 32 1440Gbps", (1, 1), "GPU 0 has not the NVLinks that others have"),
        ("0 36 400Gbps 0.0005ms", "0 36 400Gbps 0.0006ms", (4, 1), "links of one part of the network have different"),
        ("48 8 4 12", "47 8 4 12", (1, 1), "GPUs do not fill whole servers"),
        ("32 33 34", "32 34 33", (2, 1), "the second line does not number the switches"),
    ],
)
def test_errors_name_their_place(wrong, old, new, place, message):
    text = rails(4)
    assert old in text
    (found,) = wrong(text.replace(old, new, 1))
    assert message in found["message"]
    if place is not None:
        assert (found["place"]["line"], found["place"]["column"]) == place


def test_options_that_the_text_answers_are_refused(wrong):
    (found,) = wrong(rails(4), gpus="4")
    assert found["message"] == "--gpus changes nothing here"
