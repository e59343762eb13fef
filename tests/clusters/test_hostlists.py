"""Lists of hosts with brackets."""

from __future__ import annotations

import pytest

from syncline.clusters.hostlists import HostListError, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[1,3-4]x", ["n1x", "n3x", "n4x"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[1-5:2], m7", ["n1", "n3", "n5", "m7"]),
        ("n[0-2]-ib", ["n0-ib", "n1-ib", "n2-ib"]),
    ],
)
def test_ranges_become_names(text, names):
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("n[1-3", "not closed", 1),
        ("n1-3]", "closes that was not opened", 4),
        ("n[[1]]", "within brackets", 2),
        ("n[3-1]", "ends before it begins", 2),
        ("n[1,x]", "not a number", 4),
        ("n[1-2],,m", "a name is empty", 7),
        ("n[1-999999999]", "more than", 2),
        ("n[1-9999]x[1-9999]", "more than", 0),
    ],
)
def test_a_malformed_list_says_where(text, message, column):
    with pytest.raises(HostListError, match=message) as caught:
        expand(text)
    assert caught.value.column == column
