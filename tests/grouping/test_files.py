"""Files of groups: what is written is read back, and what is wrong is named."""

import pytest

from syncline.errors import SynclineError
from syncline.grouping import files
from syncline.grouping.grouping import Grouping

FOUND = Grouping(
    hosts=("a", "b", "c", "10.0.0.1"),
    groups=(0, 0, 1, 1),
    score=0.9,
    p_value=1e-9,
    agreement=1.0,
    method="by hand",
    seed=3,
    source="rtt.csv",
    values={(0, 1): 1e-5, (2, 3): 3e-5, (0, 2): 5e-5},
)


def test_groups_are_read_back(tmp_path):
    path = str(tmp_path / "groups.yaml")
    files.save(FOUND, path)
    assert files.read(path, FOUND.hosts, equal=True) == [["a", "b"], ["c", "10.0.0.1"]]


def test_medians_are_within_and_between_groups():
    assert FOUND.inside == pytest.approx(2e-5)
    assert FOUND.between == pytest.approx(5e-5)
    assert FOUND.as_dict()["median_inside_s"] == FOUND.inside


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [[a, b], [a, c]]", "twice"),
        ("groups: [[a, b], [c]]", "in no group"),
        ("groups: [[a, b], [c, e]]", "unknown host"),
        ("groups: [[a, b, c], [d]]", "different sizes"),
        ("groups: []", "not allowed"),
        ("schema: syncline-groups/2\ngroups: [[a, b], [c, d]]", "not allowed"),
        ("racks: [[a, b], [c, d]]", "unknown key"),
    ],
)
def test_wrong_files_are_refused(tmp_path, text, message):
    path = tmp_path / "groups.yaml"
    path.write_text(f"{text}\n", "utf-8")
    with pytest.raises(SynclineError, match=message):
        files.read(str(path), ["a", "b", "c", "d"], equal=True)


def test_a_file_of_other_hosts_is_one_error(tmp_path):
    path = tmp_path / "groups.yaml"
    path.write_text(f"groups: [[{', '.join(f'x{number}' for number in range(32))}]]\n", "utf-8")
    with pytest.raises(SynclineError) as raised:
        files.read(str(path), ["a", "b"])
    (problem,) = raised.value.diagnostics
    assert problem["message"] == "the groups are of other hosts"
    assert (problem["found"], problem["allowed"]) == ("x0, x1, x2, x3 and 28 more", "a, b")


def test_many_unknown_hosts_are_not_all_listed(tmp_path):
    path = tmp_path / "groups.yaml"
    path.write_text(f"groups: [[a, {', '.join(f'x{number}' for number in range(200))}]]\n", "utf-8")
    with pytest.raises(SynclineError) as raised:
        files.read(str(path), ["a", "b"])
    assert len(raised.value.diagnostics) == 50
    assert "more errors are not shown" in str(raised.value)
