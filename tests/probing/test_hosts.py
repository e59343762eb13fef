"""Lists of hosts are read with checks."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.probing.hosts import Host, from_file, from_names


def read(tmp_path, text):
    path = tmp_path / "hosts"
    path.write_text(text, "utf-8")
    return from_file(str(path))


def test_a_file_lists_hosts_in_order(tmp_path):
    text = "# racks\nb slots=8 max_slots=8\n\na address=10.0.0.1 # first\nuser@c  address=fd00::0001\n"
    assert read(tmp_path, text) == [Host("b"), Host("a", "10.0.0.1"), Host("user@c", "fd00::1")]


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a\nb\na slots=2\n", "a host is listed twice", 3),
        ("a address=rack1\n", "not an IP address", 1),
        ("a adress=10.0.0.1\n", "unknown key `adress`", 1),
        ("a b\n", "a line names one host", 1),
        ("-oProxyCommand=x\n", "cannot begin with a dash", 1),
        (f"{'a' * 254}\n", "not a host's name", 1),
    ],
)
def test_malformed_lines_are_named(tmp_path, text, message, line):
    with pytest.raises(SynclineError) as raised:
        read(tmp_path, text)
    (found,) = raised.value.diagnostics
    assert message in found["message"]
    assert found["place"]["line"] == line
    assert raised.value.exit_status in (2, 3)


def test_a_misspelt_key_gets_a_suggestion(tmp_path):
    with pytest.raises(SynclineError) as raised:
        read(tmp_path, "a adress=10.0.0.1\n")
    assert raised.value.diagnostics[0]["nearest"] == "address"


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", "-b"], ["a b"]])
def test_names_on_the_command_line_are_checked(names):
    with pytest.raises(SynclineError):
        from_names(names)
    assert from_names(["b", "a"]) == [Host("b"), Host("a")]
