"""The network model: its name, its parameters, and invalid combinations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import syncline
from syncline.config.load import Loaded

WORKLOAD = "workload: { collective: all_reduce, bytes: 1MiB }\n"
FABRIC = "fabric: { shape: Ring(4), rate: 25GB/s }\n"


def test_the_name_of_a_model_stands_for_its_defaults(scenario: Callable[..., Loaded]) -> None:
    assert scenario(WORKLOAD + FABRIC + "network: queued\n").resolved["network"] == {"model": "queued"}
    word = scenario(WORKLOAD + FABRIC + "network: packet\n").resolved["network"]
    assert word == scenario(WORKLOAD + FABRIC + "network: { model: packet }\n").resolved["network"]
    assert (word["mtu"], word["window"]) == ("1500B", None)


def test_a_single_threshold_marks_like_early_detection_without_a_range(scenario: Callable[..., Loaded]) -> None:
    text = WORKLOAD + FABRIC + "network: { model: packet, mark: 100kB }\n"
    step = {"from": "100kB", "to": "100kB", "probability": 1.0, "weight": 1.0, "drop": False}
    assert scenario(text).resolved["network"]["mark"] == step
    text = WORKLOAD + FABRIC + "network: { model: packet, mark: { from: 5kB, to: 200kB, probability: 0.01 } }\n"
    assert scenario(text).resolved["network"]["mark"] == step | {"from": "5kB", "to": "200kB", "probability": 0.01}


def test_a_dimension_inherits_parameters_of_the_network(scenario: Callable[..., Loaded]) -> None:
    text = "network: { model: packet, mtu: 9000B, buffer: 1MiB, dims: { dim1: { buffer: unlimited } } }\n"
    network = scenario(WORKLOAD + FABRIC + text).resolved["network"]
    dim = network["dims"]["dim1"]
    assert (network["buffer"], dim["buffer"], dim["mtu"]) == ("1MiB", None, "9000B")
    assert "model" not in dim


def test_rdma_loses_no_packet() -> None:
    answer = syncline.simulate(
        workload={"collective": "all_to_all", "bytes": "4MB"},
        fabric={"shape": "Switch(8)", "rate": "100Gb/s", "latency": "0.5us"},
        network={"model": "packet", "transport": "rdma", "congestion": "none", "buffer": "1MiB"},
    ).summary.packets
    assert answer is not None
    assert (answer.dropped, answer.retransmissions) == (0, 0)


def test_ports_that_pause_each_other_in_a_cycle_are_reported_as_a_deadlock() -> None:
    pairs = [(f"h{i}", f"s{i}") for i in range(4)] + [(f"s{i}", f"s{(i + 1) % 4}") for i in range(4)]
    onwards = [
        [f"h{i}", *(f"s{(i + k) % 4}" for k in range(d + 1)), f"h{(i + d) % 4}"] for i in range(4) for d in (1, 2, 3)
    ]
    with pytest.raises(
        syncline.SynclineError, match=r"priority flow control: .* wait for each other in a cycle"
    ) as caught:
        syncline.simulate(
            workload={"collective": "all_to_all", "bytes": "20MB"},
            fabric={
                "npus": [f"h{i}" for i in range(4)],
                "switches": [f"s{i}" for i in range(4)],
                "links": [{"from": a, "to": b, "rate": "100Gb/s", "latency": "0.5us"} for a, b in pairs],
                "routing": onwards,
            },
            collectives={"chunks": 1},
            network={"model": "packet", "transport": "rdma", "congestion": "none", "buffer": "150kB"},
        )
    assert caught.value.exit_status == 4


def test_dimensions_may_have_their_own_parameters() -> None:
    """If only one dimension has a marking threshold, packets are marked only there."""

    def marked(**network: object) -> set[str]:
        result = syncline.simulate(
            workload={"collective": "all_to_all", "bytes": "4MB"},
            fabric={"shape": "Switch(4)_Switch(4)", "names": ["up", "out"], "rate": "100Gb/s", "latency": "0.5us"},
            network={"model": "packet", **network},
        )
        table = result.frame("queues")
        return set(table[table["marked"] > 0]["dimension"])

    assert marked() == set()
    assert marked(mark="1kB") == {"up", "out"}
    assert marked(dims={"up": {"mark": "1kB"}}) == {"up"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("buffr: 1MB", "unknown key `buffr`"),
        ("buffer: 4", "a number without a unit"),
        ("buffer: unlimitd", "allowed: unlimited, or a size such as 64MiB"),
        ("buffer: unlimitd", "did you mean `unlimited`"),
        ("framing: ethernets", "ethernet, point_to_point, or a size such as 38B"),
        ("framing: ethernets", "did you mean `ethernet`"),
        ("framing: 3", "a number without a unit"),
        ("congestion: reno", "allowed: newreno, cubic, dctcp"),
        ("initial_window: 0", "allowed: at least 1"),
        ("restart: perhaps", "true or false"),
        ("transport: udp", "allowed: tcp, rdma"),
        ("transport: rdma, spray: 2", "`spray` has no effect without `transport: tcp`"),
        ("transport: rdma, restart: true", "`restart` has no effect without `transport: tcp`"),
        ("dcqcn: { stages: 1 }", "`dcqcn` has no effect without `transport: rdma`"),
        ("transport: rdma, dims: { dim1: { spray: 2 } }", "`dims.dim1.spray` has no effect without `transport: tcp`"),
        ("dims: { dim1: { dcqcn: { stages: 1 } } }", "`dims.dim1.dcqcn` has no effect without `transport: rdma`"),
        ("alpha: 2", "`alpha` has no effect without `sharing: dynamic`"),
        ("dims: { dim1: { alpha: 2 } }", "`dims.dim1.alpha` has no effect without `sharing: dynamic`"),
        ("mark: [1]", "a mapping with the key from"),
        ("mark: { from: 5kB }", "missing key `to`"),
        ("mark: { from: 5kB, to: 9kB, probability: 2 }", "network.mark.probability"),
        ("dims: { dim1: { buffr: 1MB } }", "unknown key `buffr`"),
        ("dims: { dim1: { dims: {} } }", "unknown key `dims`"),
        ("sharing: dynamic, alpha: 0", "above 0"),
        ("spray: 0", "at least 1"),
        ("spray: 257", "at most 256"),
        ("spray: true", "a whole number"),
    ],
)
def test_invalid_values_are_refused(given: str, expected: str, refused: Callable[..., str]) -> None:
    assert expected in refused(WORKLOAD + FABRIC + f"network: {{ model: packet, {given} }}\n")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"buffer": "1kB"}, "network.buffer"),
        ({"window": "1kB"}, "network.window"),
        ({"window": "2GiB"}, "network.window"),
        ({"framing": "1MB"}, "network.framing"),
        ({"mtu": "70kB", "framing": "point_to_point"}, "network.mtu"),
        ({"mtu": "40B"}, "network.mtu"),
        ({"mtu": "70kB"}, "network.mtu"),
        ({"congestion": "dctcp"}, "network.mark"),
        ({"congestion": "dctcp", "mark": {"from": "1kB", "to": "2kB", "drop": True}}, "network.mark"),
        ({"mark": {"from": "3kB", "to": "2kB"}}, "network.mark.from"),
        ({"congestion": "dcqcn"}, "network.congestion"),
        ({"transport": "rdma", "congestion": "cubic"}, "network.congestion"),
        ({"transport": "rdma", "buffer": "64kB"}, "network.buffer"),
        ({"pfc": True, "buffer": "unlimited"}, "network.pfc"),
        ({"sharing": "dynamic", "alpha": 0.001, "buffer": "1MB"}, "network.buffer"),
        ({"transport": "rdma", "dcqcn": {"rate_timer": "0s"}}, "network.dcqcn.rate_timer"),
        ({"transport": "rdma", "dcqcn": {"hyper": "0b/s"}}, "network.dcqcn.hyper"),
        ({"transport": "rdma", "window": "1kB"}, "network.window"),
        ({"dims": {"dim1": {"buffer": "1kB"}}}, "network.dims.dim1.buffer"),
        ({"dims": {"dim7": {}}}, "network.dims.dim7"),
    ],
)
def test_invalid_combinations_are_refused_before_the_run(given: dict[str, str], key: str) -> None:
    with pytest.raises(syncline.SynclineError) as caught:
        syncline.simulate(
            workload={"collective": "all_reduce", "bytes": "1MB"},
            fabric={"shape": "Switch(4)", "rate": "100Gb/s", "latency": "0.5us"},
            network={"model": "packet", **given},
        )
    assert [each["key"] for each in caught.value.diagnostics] == [key]
    assert caught.value.exit_status == 2


def test_parameters_for_models_without_parameters_are_refused(refused: Callable[..., str]) -> None:
    text = refused(WORKLOAD + FABRIC + "network: { model: queued, buffer: 1MB }\n")
    assert "unknown key `buffer`" in text
