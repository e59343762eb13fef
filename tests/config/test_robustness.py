"""Every invalid scenario is refused with diagnostics, never with a traceback, a panic or a hang."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncline.config.load import load
from syncline.errors import SynclineError
from syncline.input.source import Override, from_file
from tests.conftest import ROOT

EXAMPLES = [
    from_file(str(path)).root.to_python()
    for path in sorted((ROOT / "examples").glob("*/*.yaml"))
    if path.parent.name not in ("edge-list", "custom-plan")  # they refer to files beside them
]

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(
        [
            "",
            " ",
            "0",
            "1",
            "-1",
            "1e999",
            "NaN",
            "10GB/s",
            "0GB/s",
            "1ps",
            "999EB",
            "Ring(4)",
            "2x4x4",
            "0x0x0",
            "all",
            "none",
            "rest",
            "local",
            "dim1",
            "default",
            "queued",
            "\x00",
            "é",
            "${HOME}",
            "../../x",
            "a.b",
            "[0]",
        ]
    ),
    st.lists(st.sampled_from([0, 1, "a", "1GB/s", None]), max_size=4),
    st.dictionaries(st.sampled_from(["model", "name", "rate", "size", "x"]), st.integers(0, 5), max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in ``value``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for key, inner in items for each in places(inner, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new
    return None


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_value_in_any_place_is_accepted_or_refused(data: st.DataObject) -> None:
    scenario = copy.deepcopy(data.draw(st.sampled_from(EXAMPLES)))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(scenario)[1:]))
        try:
            put(scenario, path, data.draw(odd))
        except (KeyError, TypeError, IndexError):  # an earlier change removed this place
            continue
    try:
        found = load(scenario).check()
    except SynclineError as error:
        found = error.diagnostics
        assert str(error)
        assert error.exit_status in (2, 3)
    assert all(each["code"] != "SL0901" for each in found)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("abfdims.0123456789=[]{}:, GB/s"), max_size=40))
def test_any_override_is_accepted_or_refused(text: str) -> None:
    try:
        load(copy.deepcopy(EXAMPLES[0]), [Override.parse(text)])
    except SynclineError as error:
        assert str(error)
        assert all(each["code"] != "SL0901" for each in error.diagnostics)


@pytest.mark.parametrize("size", [4_000_000_000, 4294967295, 65536])
def test_sizes_that_no_machine_holds_are_refused_or_cheap(size: int) -> None:
    """Regular fabrics are never expanded into links, so a large size costs nothing by itself."""
    scenario = {
        "workload": {"collective": "all_reduce", "bytes": "1MiB"},
        "fabric": {"dims": [{"name": "a", "shape": "switch", "size": size, "rate": "1GB/s"}]},
    }
    try:
        load(scenario).check()
    except SynclineError as error:
        assert error.exit_status == 2


@pytest.mark.parametrize("key", ["<<", "<word>", "word", "<network>", "network", "[key]", "<", "collectives", ""])
@pytest.mark.parametrize("where", [(), ("network",), ("collectives",), ("workload",), ("fabric",), ("trace",)])
def test_an_unknown_key_of_any_spelling_is_named(key: str, where: tuple[str, ...]) -> None:
    scenario: dict[str, Any] = {
        "workload": {"collective": "all_reduce", "bytes": "1MB"},
        "fabric": {"shape": "Ring(8)", "rate": "1GB/s"},
        "network": {"model": "queued"},
        "collectives": {"chunks": 1},
        "trace": {"ranks": [0]},
    }
    inner = scenario
    for part in where:
        inner = inner[part]
    if key in inner:
        pytest.skip("a key of the section")
    inner[key] = 1
    with pytest.raises(SynclineError) as refused:
        load(scenario).check()
    path = ".".join((*where, key))
    assert {each["code"]: each["key"] for each in refused.value.diagnostics}["SL0101"] == path
