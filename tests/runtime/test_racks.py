"""The rack of each rank, from a list or a file."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Plans, Rule
from syncline.runtime.plan_data import for_core, with_racks
from syncline.runtime.racks import Rack, check, of_ranks, read
from tests.runtime.test_collectives import run


def test_a_file_has_a_line_for_each_rack(tmp_path):
    file = tmp_path / "racks.txt"
    file.write_text("# two racks\n0 2 # near the door\n\n[::1]:5 10.0.1.8 : 1\n")
    assert read(file) == [Rack([0, 2], []), Rack([1], ["[::1]:5", "10.0.1.8"])]
    assert of_ranks(file, 3) == of_ranks(str(file), 3) == of_ranks([0, 1, 0], 3) == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 x", ["racks.txt:1:3", "not a rack", "found `x`", "RANKS, such as 0 1 2 3"]),
        ("0\n10.0.0.9 1", ["racks.txt:2:1", "not a rack", "found `10.0.0.9`"]),
        (" : 0", ["racks.txt:1:2", "not a rack"]),
        ("a :", ["racks.txt:1:1", "not a rack"]),
        ("0 1\n\n1 2", ["racks.txt:3:1", "rank 1 is in two racks", "line 1 names it first"]),
        ("0 1 0", ["racks.txt:1:5", "rank 0 is named twice"]),
        ("0 2", ["rank 1 is in no rack"]),
        ("1 3 9", ["ranks 0, 2, 4, 5, 6, 7, 8 are in no rack"]),
        ("0 999999999", ["ranks 1, 2, 3, 4, 5, 6, 7, 8 and more are in no rack"]),
        (f"0 {'9' * 5000}", ["racks.txt:1:3", "not a rack"]),
        ("# nothing", ["the file has no racks", "RANKS, such as 0 1 2 3"]),
        ("-1 0", ["racks.txt:1:1", "not a rack"]),
        ("0 1", ["do not match the job's ranks", "2 ranks", "each of 3 ranks", "rank 2 is in no rack"]),
        ("0 1 2 3", ["do not match the job's ranks", "4 ranks"]),
    ],
    ids=lambda given: given[:20] if isinstance(given, str) else "",
)
def test_errors_in_a_file_are_reported(tmp_path, text, words):
    file = tmp_path / "racks.txt"
    file.write_text(text)
    with pytest.raises(SynclineError) as refused:
        of_ranks(file, 3)
    assert refused.value.exit_status == 2
    assert refused.value.diagnostics[0]["place"]["file"] == str(file)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("racks", "found"),
    [
        ([[0], [1]], "a list for rank 0"),
        ([0, None], "nothing for rank 1"),
        (["a", 1], "a for rank 0"),
        ([0, -1], "-1 for rank 1"),
        ([1 << 32, 0], "4294967296 for rank 0"),
        ([0, 1.0], "1.0 for rank 1"),
        (5, "5"),
        ({0: 1, 1: 0}, "a mapping"),
        (b"\0\1", "b'"),
    ],
)
def test_invalid_lists_of_racks_are_reported(racks, found):
    with pytest.raises(SynclineError) as refused:
        Communicator.join(0, 2, plans=Plans(racks=racks))
    (problem,) = refused.value.diagnostics
    assert problem["key"] == "racks"
    assert problem["found"].startswith(found)
    assert "[0, 0, 1, 1]" in problem["allowed"]
    assert "file" in problem["help"]


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(SynclineError, match="no such file"):
        read(tmp_path / "none.txt")


def test_racks_are_the_groups_of_two_levels(tmp_path):
    rules = [Rule("all_reduce", "two_level"), Rule("all_reduce", "two_level(group=8)"), Rule("broadcast", "ring")]
    file = tmp_path / "racks.txt"
    file.write_text("0 2\n1 3\n")
    plain = for_core(with_racks(Plans(rules=rules, racks=file), 4), 4)
    assert plain["racks"] == [0, 1, 0, 1]
    said = [(rule["algorithm"], rule.get("by_rack", False)) for rule in plain["rules"]]
    assert said == [("two_level", True), ("two_level(group=8)", False), ("ring", False)]
    for spelled in ("two_level()", " two_level ( ) "):
        (rule,) = for_core(Plans(rules=[Rule("all_reduce", spelled)], racks=[0, 1, 0, 1]), 4)["rules"]
        assert (rule["algorithm"], rule["by_rack"]) == ("two_level", True)
    # A malformed plan is passed on: the core reports the error. Without racks, the core chooses a group size.
    malformed = Plans(rules=[Rule("all_reduce", "two_level(")], racks=[0, 1])
    assert not for_core(malformed, 2)["rules"][0]["by_rack"]
    assert not for_core(Plans(rules=rules), 4)["rules"][0]["by_rack"]


def test_racks_of_unequal_sizes_are_refused_as_groups():
    two_level = [Rule("all_reduce", "two_level")]
    with pytest.raises(SynclineError, match=r"racks of 3, 2, 1 ranks"):
        check(two_level, [0, 0, 0, 1, 1, 2])
    check(two_level, [0, 1, 1, 0, 2])
    check([Rule("all_reduce", "two_level(group=3)")], [0, 0, 0, 1, 1, 2])
    with pytest.raises(SynclineError, match="given twice"):
        Communicator.join(0, 2, plans=Plans(order=[0, 1], racks=[0, 1]))


def test_ranks_sum_by_racks(tmp_path):
    file = tmp_path / "racks.txt"
    file.write_text("0 2\n1 3\n")
    body = """
        import os
        rules = [Rule("all_reduce", "two_level")]
        with Communicator.join(plans=Plans(racks=os.environ["RACKS"], rules=rules), elastic=True) as ranks:
            vector = array("f", [float(ranks.rank)] * 1000)
            ranks.all_reduce(vector).wait()
            ranks.renew(plans=Plans(racks=[0, 0, 1, 1], rules=rules))
            ranks.all_reduce(vector).wait()
            print(set(vector))
    """
    assert run(4, body, RACKS=str(file)) == ["{24.0}"] * 4


RACKS_LOSE = """
    import os, warnings
    from syncline.errors import SynclineError
    rules = [Rule("all_reduce", "two_level")]
    of, lost = eval(os.environ["OF"]), eval(os.environ["LOST"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ranks = Communicator.join(plans=Plans(racks=of, rules=rules), elastic=True)
        # Another rank may be lost before this rank has met all.
        if ranks.ranks[ranks.rank] in lost:
            os._exit(0)
        while ranks.world > len(of) - len(lost):
            try:
                ranks.barrier().wait()
            except SynclineError:
                ranks.renew()
    vector = array("f", [1.0] * 100)
    ranks.all_reduce(vector).wait()
    print(set(vector), *(each.message for each in told[-1:]))
    ranks.close()
"""


def test_racks_stay_groups_after_one_loses_a_rank():
    """The rack that lost a rank becomes the last group, and no rank is warned of another plan."""
    for rank, said in enumerate(run(4, RACKS_LOSE, OF="[0, 1, 0, 1]", LOST="[2]")):
        assert rank == 2 or said == "{3.0}", said


def test_a_warning_says_that_racks_can_no_longer_be_groups():
    said = run(6, RACKS_LOSE, OF="[0, 0, 1, 1, 2, 2]", LOST="[2, 4]")
    told = "{4.0} `two_level` cannot run on 4 ranks: the next rule that fits applies, or else the quickest plan"
    assert [said[rank] for rank in (0, 1, 3, 5)] == [told] * 4
