"""The network model: by name, with parameters, and what is impossible about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import syncline
from syncline.config.load import Loaded

WORKLOAD = "workload: { collective: all_reduce, bytes: 1MiB }\n"
FABRIC = "fabric: { shape: Ring(4), rate: 25GB/s }\n"


def test_a_word_is_the_model_with_its_defaults(scenario: Callable[..., Loaded]) -> None:
    assert scenario(WORKLOAD + FABRIC + "network: queued\n").resolved["network"] == {"model": "queued"}
    word = scenario(WORKLOAD + FABRIC + "network: packet\n").resolved["network"]
    assert word == scenario(WORKLOAD + FABRIC + "network: { model: packet }\n").resolved["network"]
    assert word["window"] == "512KiB"


def test_a_buffer_without_end(scenario: Callable[..., Loaded]) -> None:
    text = WORKLOAD + FABRIC + "network: { model: packet, buffer: unlimited }\n"
    assert scenario(text).resolved["network"]["buffer"] is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("buffr: 1MB", "unknown key `buffr`"),
        ("buffer: 4", "a number without a unit"),
        ("congestion: reno", "allowed: newreno, cubic, dctcp"),
        ("initial_window: 0", "allowed: at least 1"),
        ("restart: perhaps", "true or false"),
    ],
)
def test_what_keys_may_be(given: str, expected: str, refused: Callable[..., str]) -> None:
    assert expected in refused(WORKLOAD + FABRIC + f"network: {{ model: packet, {given} }}\n")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"buffer": "1kB"}, "network.buffer"),
        ({"window": "1kB"}, "network.window"),
        ({"mtu": "40B"}, "network.mtu"),
        ({"mtu": "70kB"}, "network.mtu"),
        ({"congestion": "dctcp"}, "network.mark"),
    ],
)
def test_what_is_impossible_is_refused_before_the_run(given: dict[str, str], key: str) -> None:
    with pytest.raises(syncline.SynclineError) as caught:
        syncline.simulate(
            workload={"collective": "all_reduce", "bytes": "1MB"},
            fabric={"shape": "Switch(4)", "rate": "100Gb/s", "latency": "0.5us"},
            network={"model": "packet", **given},
        )
    assert [each["key"] for each in caught.value.diagnostics] == [key]
    assert caught.value.exit_status == 2


def test_no_parameters_for_models_that_have_none(refused: Callable[..., str]) -> None:
    text = refused(WORKLOAD + FABRIC + "network: { model: queued, buffer: 1MB }\n")
    assert "unknown key `buffer`" in text
