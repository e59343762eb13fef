"""Lists of hosts are read as launchers write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.distances import Host, read_hosts
from syncline.distances.hosts import named
from syncline.errors import SynclineError


def listed(folder: Path, text: str) -> dict[str, int]:
    (folder / "hosts").write_text(text, "utf-8")
    return {host.name: host.slots for host in read_hosts(str(folder / "hosts"))}


def test_lists_of_launchers_are_read(tmp_path: Path) -> None:
    assert listed(tmp_path, "# racks\na slots=8\n\nb slots = 4 max_slots=8\nc:2\nd # last\n") == {
        "a": 8,
        "b": 4,
        "c": 2,
        "d": 1,
    }
    assert listed(tmp_path, "a\na\nb\n") == {"a": 2, "b": 1}
    assert listed(tmp_path, "fe80::1\n10.0.0.1\n") == {"fe80::1": 1, "10.0.0.1": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file lists no hosts"),
        ("a\nb\na\n", "the host is listed twice"),
        ("a slots=many\n", "not a valid number of slots"),
        ("a slots=0\n", "not a valid number of slots"),
        ("a b c\n", "a line names one host"),
        ("a slot=2\n", "unknown key `slot`"),
        ("a address=10.0.0\n", "not an IP address"),
        ("-a\n", "a host's name cannot begin with a dash"),
    ],
)
def test_other_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SynclineError) as refused:
        listed(tmp_path, text)
    assert refused.value.diagnostics[0]["message"] == message


def test_addresses_are_read(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a slots=2 address=10.0.0.1\nb address=fe80::1\n", "utf-8")
    hosts = read_hosts(str(tmp_path / "hosts"))
    assert [(host.address, host.slots) for host in hosts] == [("10.0.0.1", 2), ("fe80::1", 1)]


def test_a_misspelt_key_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(SynclineError) as refused:
        listed(tmp_path, "a adress=10.0.0.1\n")
    assert refused.value.diagnostics[0]["nearest"] == "address"


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", "-b"], ["a b"], ["a" * 254]])
def test_names_on_the_command_line_are_checked(names: list[str]) -> None:
    with pytest.raises(SynclineError):
        named(names)
    assert named(["b", "a"]) == [Host("b"), Host("a")]
