"""Addresses, interfaces and ports that users give."""

from __future__ import annotations

import json
import re
import socket

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Meeting
from syncline.runtime import addresses as module
from syncline.runtime.addresses import (
    Interface,
    listening,
    port_range,
    resolve,
    resolve_all,
    toward,
    with_port,
)
from tests.runtime.jobs import free_port, job


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", ("127.0.0.1", 7)),
        (" 127.0.0.1:0080 ", ("127.0.0.1", 80)),
        ("::1", ("::1", 7)),
        ("[::1]", ("::1", 7)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_addresses_are_parsed_and_written(text, expected):
    assert resolve(text, 7) == expected
    assert resolve(with_port(*expected), 1) == expected


@pytest.mark.parametrize(
    ("text", "message", "found"),
    [
        ("", "the address has no host", "nothing"),
        (":5", "the address has no host", ":5"),
        ("[]:5", "the address has no host", "[]:5"),
        ("[::1", "brackets must enclose the host of an address", "[::1"),
        ("[::1]5", "brackets must enclose the host of an address", "[::1]5"),
        ("127.0.0.1:", "the colon has no port after it", "127.0.0.1:"),
        ("[::1]:", "the colon has no port after it", "[::1]:"),
        ("127.0.0.1:x", "the port is not valid", "127.0.0.1:x"),
        ("127.0.0.1:65536", "the port is not valid", "127.0.0.1:65536"),
        (f"127.0.0.1:{'1' * 5000}", "the port is not valid", "127.0.0.1:1111"),
        ("nowhere.invalid:5", "the host's address cannot be found", "nowhere.invalid"),
    ],
    ids=lambda given: given[:20],
)
def test_invalid_addresses_are_reported(text, message, found):
    with pytest.raises(SynclineError) as refused:
        resolve(text, 7)
    (problem,) = refused.value.diagnostics
    assert problem["message"] == message
    assert problem["found"].startswith(found)
    assert len(problem["found"]) < 200


@pytest.fixture
def hosts(monkeypatch):
    """Names and the addresses that they resolve to, like an ``/etc/hosts`` of this test."""
    names = {}
    original = socket.getaddrinfo

    def getaddrinfo(host, port, **options):
        found = [original(each, port, **options) for each in names.get(host, [host])]
        return [each for several in found for each in several]

    monkeypatch.setattr(module.socket, "getaddrinfo", getaddrinfo)
    return names


def test_all_addresses_of_a_name_are_found(hosts):
    hosts["node"] = ["127.0.0.9", "::1", "127.0.0.9"]
    assert resolve_all("node:5", 7) == [("127.0.0.9", 5), ("::1", 5)]


def test_a_name_that_means_loopback_here_means_an_interface_elsewhere(hosts):
    hosts.update({"node": ["127.0.1.1"], "localhost": ["127.0.0.1"], "other": ["10.0.0.9"]})
    own = [Interface("10.0.0.7", "10.0.0.7"), Interface("203.0.113.7", "10.0.1.7")]
    assert listening("node:5", 7, own, None) == [("10.0.0.7", 5), ("10.0.1.7", 5), ("127.0.1.1", 5)]
    # With loopback interfaces only, the name keeps its address; so do literal addresses, `localhost` and other names.
    assert listening("node", 7, [Interface("127.0.0.1", "127.0.0.1")], None) == [("127.0.1.1", 7)]
    for host, found in (("127.0.1.1", "127.0.1.1"), ("localhost", "127.0.0.1"), ("other", "10.0.0.9")):
        assert listening(host, 7, own, None) == [(found, 7)]
    assert listening("node:5", 7, own, "0.0.0.0") == [("0.0.0.0", 7)]


def test_the_address_toward_a_name_that_means_loopback_is_the_one_to_the_outside(hosts, monkeypatch):
    hosts["node"] = ["127.0.1.1"]
    ways = {"node": ["127.0.0.1"], "127.0.1.1": ["127.0.0.1"], "192.0.2.1": ["10.0.0.7"]}
    monkeypatch.setattr(module, "_sources", lambda host: ways.get(host, []))
    assert toward("node") == "10.0.0.7"
    assert toward("127.0.1.1") == "127.0.0.1"
    ways.pop("192.0.2.1")
    assert toward("node") == "127.0.0.1"
    assert toward("nowhere") is None


def test_an_interface_may_be_reached_at_another_address_than_its_own():
    assert Interface.read("10.0.0.7") == Interface("10.0.0.7", "10.0.0.7")
    assert Interface.read(" 203.0.113.7@10.0.0.7") == Interface("203.0.113.7", "10.0.0.7")
    for wrong in ("node", "10.0.0.7@", "@10.0.0.7", "10.0.0.7@node"):
        with pytest.raises(SynclineError, match="an interface must be an address of this host"):
            Interface.read(wrong)


def test_a_range_of_ports_is_parsed():
    assert [port_range(each) for each in (None, "29500-29599", "80")] == [None, (29500, 29599), (80, 80)]
    for wrong in ("", "-", "5-", "9-5", "0-5", "1-65536", "a-b"):
        with pytest.raises(SynclineError, match="the range of ports is not valid"):
            port_range(wrong)


def test_rank_0_listens_at_another_address_than_others_try_and_only_at_allowed_ports():
    port, first = free_port(), 21_000
    options = {"SYNCLINE_PORTS": f"{first}-{first + 200}", "SYNCLINE_LISTEN": f"0.0.0.0:{port}"}
    settings = json.dumps({"steps": 3, "coordinator": f"127.0.0.1:{port}", "insecure": True, "shared_memory": False})
    with job(2, settings, **options) as running:
        assert [running.outcome(rank) for rank in range(2)] == [{"done": 3}] * 2
    with pytest.raises(SynclineError, match="only rank 0 listens for the others"):
        Communicator.join(1, 2, "127.0.0.1:5", meeting=Meeting(listen="127.0.0.1"))


def test_a_waiting_rank_logs_which_ranks_are_missing():
    with job(3, json.dumps({"wait_s": 6}), ranks=[0, 1]) as running:
        for rank in (0, 1):
            out, err = running.processes[rank].communicate(timeout=30)
            assert re.search(rf"^rank {rank} waits for rank 2 \(3 s so far\)$", err, re.M), err
            assert "rank 2 did not join within 6 s" in out
