"""Changes to the scenario of a run's folder: errors suggest a change that works."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import syncline
from syncline.config.load import Loaded, load
from syncline.errors import Diagnostic, SynclineError
from syncline.input.source import Override


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run over two dimensions."""
    job = {"collective": "all_reduce", "bytes": "64KiB"}
    fabric = {"shape": "Ring(4)_Switch(2)", "rate": ["100Gb/s", "50Gb/s"], "latency": "1us"}
    syncline.simulate(workload=job, fabric=fabric).save(tmp_path / "run")
    return tmp_path / "run"


def changed(run: Path, *sets: str) -> Loaded:
    return load(run, [Override.parse(each) for each in sets])


def refused(run: Path, *sets: str) -> Diagnostic:
    with pytest.raises(SynclineError) as caught:
        changed(run, *sets)
    (problem,) = caught.value.diagnostics
    assert problem["place"]["text"] in sets
    assert caught.value.exit_status == 2
    return problem


def follow(run: Path, help: str) -> Loaded:
    """Applies the change that a remedy gives after its colon."""
    words = shlex.split(help.partition(": ")[2])
    return changed(run, *(word for word in words if word != "--set"))


def test_the_error_for_a_shorthand_names_the_keys_of_its_values(run: Path) -> None:
    problem = refused(run, "fabric.rate=400Gb/s")
    assert (problem["code"], problem["found"], problem["allowed"]) == ("SL0101", "rate", "dims")
    dims = follow(run, problem["help"]).resolved["fabric"]["dims"]
    assert [dim["rate"] for dim in dims] == ["400Gb/s", "400Gb/s"]


def test_a_shorthand_without_such_keys_must_be_changed_in_the_file(run: Path) -> None:
    problem = refused(run, "fabric.shape=Ring(8)")
    assert problem["help"].startswith("change the file that the run was made from: syncline simulate FILE --set '")


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ("collectives.chunks=foo", "SL0102", 'invalid type: string "foo"'),
        ("fabric.dims.0.latency=-3", "SL0102", "invalid type: integer `-3`"),
        ("fabric.dims.dim1.rate=fast", "SL0102", "not a rate"),
        ("network=pakket", "SL0102", "pakket"),
    ],
)
def test_the_error_for_an_invalid_value_gives_a_valid_one(run: Path, change: str, code: str, said: str) -> None:
    problem = refused(run, "seed=3", change, "report=false")
    assert problem["code"] == code
    assert said in problem["message"]
    assert "line 1" not in problem["message"]
    assert problem["key"] == change.partition("=")[0]
    assert "enum" not in problem["message"]
    if problem["help"].startswith("write it"):
        follow(run, problem["help"])
    else:
        assert problem["nearest"] == "packet"
        assert problem["help"] == "change a key in it: `network.model`"


def test_a_misspelt_key_suggests_the_nearest_name(run: Path) -> None:
    problem = refused(run, "fabric.dims.0.latencyy=1us")
    assert (problem["code"], problem["nearest"]) == ("SL0101", "latency")
    # The key does not exist in scenario files, either.
    assert "help" not in problem


def test_valid_changes_are_applied_in_order(run: Path) -> None:
    loaded = changed(run, "fabric.dims.dim2.rate=1Gb/s", "fabric.dims.1.rate=2Gb/s", "network=flow")
    assert loaded.resolved["fabric"]["dims"][1]["rate"] == "2Gb/s"
    assert loaded.resolved["network"]["model"] == "flow"
