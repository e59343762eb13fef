"""Which rack each rank is in, from a list or a file."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Rule
from syncline.runtime.communicator import Told
from syncline.runtime.racks import Rack, grouped, mixed, of_ranks, order, read
from tests.runtime.test_collectives import run


def test_a_file_has_a_line_for_each_rack(tmp_path):
    file = tmp_path / "racks.txt"
    file.write_text("# two racks\n0 2 # near the door\n\n[::1]:5 10.0.1.8 : 1\n")
    assert read(file) == [Rack([0, 2], []), Rack([1], ["[::1]:5", "10.0.1.8"])]
    assert of_ranks(file, 3) == of_ranks(str(file), 3) == of_ranks([0, 1, 0], 3) == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 x", ["racks.txt:1:3", "no rack", "found `x`", "RANKS, such as 0 1 2 3"]),
        ("0\n10.0.0.9 1", ["racks.txt:2:1", "no rack", "found `10.0.0.9`"]),
        (" : 0", ["racks.txt:1:2", "no rack"]),
        ("a :", ["racks.txt:1:1", "no rack"]),
        ("0 1\n\n1 2", ["racks.txt:3:1", "rank 1 is in two racks", "line 1 has it first"]),
        ("0 1 0", ["racks.txt:1:5", "rank 0 is named twice"]),
        ("0 2", ["rank 1 is in no rack"]),
        ("1 3 9", ["ranks 0, 2, 4, 5, 6, 7, 8 are in no rack"]),
        ("0 999999999", ["ranks 1, 2, 3, 4, 5, 6, 7, 8 and more are in no rack"]),
        (f"0 {'9' * 5000}", ["racks.txt:1:3", "no rack"]),
        ("# nothing", ["the file has no racks", "RANKS, such as 0 1 2 3"]),
        ("-1 0", ["racks.txt:1:1", "no rack"]),
        ("0 1", ["not those of the job", "2 ranks", "each of 3 ranks", "rank 2 is in no rack"]),
        ("0 1 2 3", ["not those of the job", "4 ranks"]),
    ],
    ids=lambda given: given[:20] if isinstance(given, str) else "",
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, text, words):
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
        ([0, 1.0], "1.0 for rank 1"),
        (5, "5"),
        ({0: 1, 1: 0}, "a mapping"),
        (b"\0\1", "b'"),
    ],
)
def test_what_is_no_list_of_racks_is_told(racks, found):
    with pytest.raises(SynclineError) as refused:
        Communicator.join(0, 2, racks=racks)
    (problem,) = refused.value.diagnostics
    assert problem["key"] == "racks"
    assert problem["found"].startswith(found)
    assert "[0, 0, 1, 1]" in problem["allowed"]
    assert "file" in problem["help"]


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SynclineError, match="no such file"):
        read(tmp_path / "none.txt")


def test_ranks_of_a_rack_are_side_by_side_and_the_smallest_rack_is_last():
    assert order([0, 1, 0, 1]) == [0, 2, 1, 3]
    assert order([0, 1, 1, 2, 2]) == [1, 2, 3, 4, 0]


def test_racks_are_the_groups_of_two_levels():
    rules = [Rule("all_reduce", "two_level"), Rule("all_reduce", "two_level(group=8)"), Rule("broadcast", "ring")]
    named = [rule.algorithm for rule in grouped(rules, [0, 1, 1, 0, 2])]
    assert named == ["two_level(group=2)", "two_level(group=8)", "ring"]
    for spelled in ("two_level()", " two_level ( ) "):
        assert grouped([Rule("all_reduce", spelled)], [0, 1, 0, 1])[0].algorithm == "two_level(group=2)"
    # The core says what is wrong with it.
    assert grouped([Rule("all_reduce", "two_level(")], [0, 1])[0].algorithm == "two_level("
    with pytest.raises(SynclineError, match=r"racks of 3, 2, 1 ranks"):
        grouped(rules, [0, 0, 0, 1, 1, 2])
    assert grouped(rules[1:], [0, 0, 0, 1, 1, 2]) == rules[1:]


def test_racks_decide_order_and_groups(tmp_path):
    file = tmp_path / "racks.txt"
    file.write_text("0 2\n1 3\n")
    plain = Told([Rule("all_reduce", "two_level")], None, of_ranks(file, 4)).plain(4)
    assert plain["order"] == [0, 2, 1, 3]
    assert plain["rules"][0]["algorithm"] == "two_level(group=2)"
    with pytest.raises(SynclineError, match="said twice"):
        Communicator.join(0, 2, order=[0, 1], racks=[0, 1])


def test_ranks_sum_by_racks(tmp_path):
    file = tmp_path / "racks.txt"
    file.write_text("0 2\n1 3\n")
    body = """
        import os
        rules = [Rule("all_reduce", "two_level")]
        with Communicator.join(racks=os.environ["RACKS"], rules=rules, elastic=True) as ranks:
            vector = array("f", [float(ranks.rank)] * 1000)
            ranks.all_reduce(vector).wait()
            ranks.renew(racks=[0, 0, 1, 1])
            ranks.all_reduce(vector).wait()
            print(set(vector))
    """
    assert run(4, body, RACKS=str(file)) == ["{24.0}"] * 4


def test_groups_that_are_racks_no_more_are_found():
    rules = [Rule("all_reduce", "two_level"), Rule("all_reduce", "two_level(group=4)")]
    racks = [0, 1] * 4
    # The second rack moves up: 0, 4, 6 and 1 are a group.
    assert mixed(rules, racks, [0, 1, 3, 4, 5, 6, 7]) == ["two_level(group=4)"]
    assert mixed(rules, racks, [0, 1, 2, 4, 5, 6]) == []
    assert mixed(rules, racks, [0, 2, 4]) == []
    # Whoever gives a size does not ask for racks.
    assert mixed(rules[1:], racks, [0, 1, 3, 4, 5, 6, 7]) == []


def test_survivors_are_told_that_groups_are_racks_no_more():
    body = """
        import os, warnings
        from syncline.errors import SynclineError
        rules = [Rule("all_reduce", "two_level()")]
        ranks = Communicator.join(racks=[0, 1, 0, 1], rules=rules, elastic=True)
        try:
            while True:
                ranks.barrier().wait()
                if ranks.rank == 2:
                    os._exit(0)
        except SynclineError:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                ranks.renew()
        vector = array("f", [1.0] * 100)
        ranks.all_reduce(vector).wait()
        print(set(vector), *(each.message for each in told))
        ranks.close()
    """
    for rank, said in enumerate(run(4, body)):
        assert rank == 2 or said.startswith("{3.0} groups of `two_level(group=2)` are no racks any more"), said
