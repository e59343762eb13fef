"""Differences between scenarios, key by key."""

from __future__ import annotations

from typing import Any

import pytest

from syncline.comparison.inputs import LISTED, Change, changes, foremost, tally


def found(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each.key, each.a, each.b) for each in changes(a, b)]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"seed": 0}, {"seed": 0}, []),
        ({"seed": 0}, {"seed": 1}, [("seed", "0", "1")]),
        # Two notations of the same quantity are equal.
        ({"x": {"rate": "200Gb/s"}}, {"x": {"rate": "25GB/s"}}, []),
        ({"x": {"time": "1us"}}, {"x": {"time": "1000ns"}}, []),
        ({"x": {"rate": "25GB/s"}}, {"x": {"rate": "50GB/s"}}, [("x.rate", "25GB/s", "50GB/s")]),
        ({"x": 1}, {"x": 1.0}, []),
        ({"x": True}, {"x": 1}, [("x", "true", "1")]),
        # A missing key equals a key without a value.
        ({"x": {}}, {"x": {"limit": None}}, []),
        ({"x": {}}, {"x": {"limit": 3}}, [("x.limit", "absent", "3")]),
        # Keys are reported as `--set` takes them.
        (
            {"workload": {"parallel": {"tensor": {"degree": 4}, "data": "rest"}, "sample": {"tokens": 1}}},
            {
                "workload": {
                    "parallel": {"tensor": {"degree": 8}, "data": {"dims": ["a", "b"]}},
                    "sample": {"tokens": 2},
                }
            },
            [("workload.parallel.tensor", "4", "8"), ("workload.parallel.data", "rest", "a, b")],
        ),
        # Entries of lists are identified by name, or by number if they have none.
        (
            {"dims": [{"name": "local", "size": 2}, {"name": "far", "size": 4}]},
            {"dims": [{"name": "far", "size": 8}, {"name": "local", "size": 2}]},
            [("dims.far.size", "4", "8")],
        ),
        ({"sets": [{"kind": "reduce"}]}, {"sets": [{"kind": "broadcast"}]}, [("sets.0.kind", "reduce", "broadcast")]),
        (
            {"dims": [{"name": "a", "size": 2}]},
            {"dims": [{"name": "a", "size": 2}, {"name": "b", "size": 4}]},
            [("dims.b", "absent", "name: b, size: 4")],
        ),
        (
            {"layers": [{"name": name} for name in "abcd"]},
            {"layers": [{"name": "x"}]},
            [("layers", "4: a, b, c, ...", "x")],
        ),
        ({"faults": []}, {"faults": [{"rank": 3}]}, [("faults", "none", "rank: 3")]),
        ({"faults": []}, {"faults": [{"rank": [3]}]}, [("faults", "none", "rank: 3")]),
        ({"x": None}, {"x": {"plan": "long" * 20}}, [("x", "absent", f"plan: {'long' * 13}..."[:57] + "...")]),
        ({"npus": [0, 1]}, {"npus": [1, 0]}, [("npus", "0, 1", "1, 0")]),
    ],
)
def test_changes_are_listed(a: dict[str, Any], b: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert found(a, b) == expected


def test_the_same_key_of_several_entries_is_one_change() -> None:
    rates = ("10GB/s", "20GB/s", "30GB/s")
    a = {"dims": [{"name": f"d{at}", "rate": rate, "size": 2} for at, rate in enumerate(rates)]}
    b = {"dims": [{"name": f"d{at}", "rate": f"{2 * int(rate[:2])}GB/s", "size": 4} for at, rate in enumerate(rates)]}
    assert changes(a, b) == [
        Change("dims.*.rate", "10GB/s", "20GB/s", ("d0", "d1", "d2"), uniform=False, factor=2.0),
        Change("dims.*.size", "2", "4", ("d0", "d1", "d2"), uniform=True, factor=2.0),
    ]
    assert changes(a, b)[0].where == "d0, d1 and d2"


def test_names_and_report_settings_do_not_count_as_deciding() -> None:
    a, b = {"name": "one", "report": True, "seed": 0}, {"name": "other", "report": False, "seed": 1}
    assert [(each.key, each.decides) for each in changes(a, b)] == [("name", False), ("report", False), ("seed", True)]


@pytest.mark.parametrize(
    ("deciding", "idle", "expected"),
    [
        (10, 1, "10 keys, and 1 that changes no number"),
        (1, 2, "1 key, and 2 that change no number"),
        (3, 0, "3 keys"),
        (0, 1, "1 key that changes no number"),
        (0, 2, "2 keys that change no number"),
    ],
)
def test_the_number_of_changes_is_given_in_words(deciding: int, idle: int, expected: str) -> None:
    changes = [Change(f"x{at}", "a", "b", decides=at < deciding) for at in range(deciding + idle)]
    assert tally(changes) == expected


def test_deciding_changes_are_listed_first_and_layers_do_not_fill_the_list() -> None:
    keys = ["name", *(f"workload.layers.*.{at}" for at in range(20)), *(f"x{at}" for at in range(3))]
    shown, more = foremost([Change(key, "a", "b", decides=key != "name") for key in keys])
    assert [each.key for each in shown] == ["x0", "x1", "x2", *keys[1:4], "name"]
    assert more == 17
    shown, more = foremost([Change(f"x{at}", "a", "b") for at in range(100)])
    assert (len(shown), more) == (LISTED, 100 - LISTED)
