"""Where members are, as users say it."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.runtime.addresses import resolve, with_port


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
def test_an_address_is_read(text, expected):
    assert resolve(text, 7) == expected
    assert resolve(with_port(*expected), 1) == expected


@pytest.mark.parametrize(
    ("text", "message", "found"),
    [
        ("", "an address names a host", "nothing"),
        (":5", "an address names a host", ":5"),
        ("[]:5", "an address names a host", "[]:5"),
        ("[::1", "the brackets of an address are round its host", "[::1"),
        ("[::1]5", "the brackets of an address are round its host", "[::1]5"),
        ("127.0.0.1:", "a colon has no port behind it", "127.0.0.1:"),
        ("[::1]:", "a colon has no port behind it", "[::1]:"),
        ("127.0.0.1:x", "this is no port", "127.0.0.1:x"),
        ("127.0.0.1:65536", "this is no port", "127.0.0.1:65536"),
        (f"127.0.0.1:{'1' * 5000}", "this is no port", "127.0.0.1:1111"),
        ("nowhere.invalid:5", "the address is not known", "nowhere.invalid"),
    ],
    ids=lambda given: given[:20],
)
def test_what_is_no_address_is_told(text, message, found):
    with pytest.raises(SynclineError) as refused:
        resolve(text, 7)
    (problem,) = refused.value.diagnostics
    assert problem["message"] == message
    assert problem["found"].startswith(found)
    assert len(problem["found"]) < 200
