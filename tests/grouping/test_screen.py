"""What is printed and drawn."""

import json

import pytest

pytest.importorskip("scipy")
pytest.importorskip("sklearn")

from syncline.cli.commands.group import GroupOptions, group
from syncline.distances import save
from syncline.errors import SynclineError
from syncline.grouping.synthetic import DataCentre, without_structure

OPTIONS = {
    "groups": "auto",
    "balance": None,
    "dimensions": 16,
    "alpha": 1.0,
    "heights": False,
    "by": "rtt",
    "seed": 0,
    "out": None,
    "force": False,
    "plot": None,
    "as_json": False,
    "quiet": True,
}


@pytest.fixture
def measured(tmp_path):
    path = str(tmp_path / "rtt.csv")
    save(DataCentre(hosts=24, rack=8, spread=0.0, noise=0.1, seed=1).measured(), path)
    return path


def test_the_screen_shows_groups_medians_and_a_heat_map(measured, capsys):
    assert group(GroupOptions(measurements=measured, **OPTIONS)) == 0
    shown = capsys.readouterr().out
    assert "3 groups of 8 hosts." in shown
    assert "inside groups" in shown
    assert "██" in shown
    assert "us" in shown


def test_json_has_all_of_it(measured, capsys):
    assert group(GroupOptions(measurements=measured, **{**OPTIONS, "as_json": True})) == 0
    found = json.loads(capsys.readouterr().out)["grouping"]
    assert found["found"]
    assert sorted(map(len, found["groups"])) == [8, 8, 8]
    assert found["median_inside_s"] < found["median_between_s"]


def test_no_structure_is_said(tmp_path, capsys):
    path = str(tmp_path / "rtt.csv")
    save(without_structure(24, noise=0.2, seed=1).measured(), path)
    assert group(GroupOptions(measurements=path, **OPTIONS)) == 0
    assert "No structure found" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["groups.svg", "groups.png"])
def test_the_picture_is_drawn_and_always_the_same(measured, tmp_path, name, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    first = group(GroupOptions(measurements=measured, **{**OPTIONS, "plot": str(path)})), path.read_bytes()
    again = {**OPTIONS, "plot": str(path), "force": True}
    assert (group(GroupOptions(measurements=measured, **again)), path.read_bytes()) == first


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"groups": "many"}, "number of groups"), ({"plot": "groups.pdf"}, "not a name of a picture")],
)
def test_wrong_options_are_refused(measured, changes, message):
    with pytest.raises(SynclineError, match=message):
        group(GroupOptions(measurements=measured, **{**OPTIONS, **changes}))
