"""Which rack each rank is in, from a list or a file."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Rule
from syncline.runtime.communicator import Told
from syncline.runtime.racks import Rack, grouped, of_ranks, order, read
from tests.runtime.test_collectives import run


def test_a_file_has_a_line_for_each_rack(tmp_path):
    file = tmp_path / "racks.txt"
    file.write_text("# two racks\n0 2 # near the door\n\n[::1]:5 10.0.1.8 : 1\n")
    assert read(file) == [Rack([0, 2], []), Rack([1], ["[::1]:5", "10.0.1.8"])]
    assert of_ranks(file, 3) == of_ranks(str(file), 3) == of_ranks([0, 1, 0], 3) == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 x", ["no rack", "line 1: 0 x", "RANKS, such as 0 1 2 3"]),
        ("0\n10.0.0.9 1", ["no rack", "line 2"]),
        (" : 0", ["no rack"]),
        ("0 1\n\n1 2", ["rank 1 is in two racks", "lines 1 and 3"]),
        ("0 2", ["no rank is left out"]),
        ("", ["no rank is left out"]),
        ("-1 0", ["no rack"]),
        ("0 1", ["not those of the job", "2 ranks", "each of 3 ranks"]),
        ("0 1 2 3", ["not those of the job", "4 ranks"]),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, text, words):
    file = tmp_path / "racks.txt"
    file.write_text(text)
    with pytest.raises(SynclineError) as refused:
        of_ranks(file, 3)
    assert refused.value.exit_status == 2
    for word in (str(file), *words):
        assert word in str(refused.value)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SynclineError, match="the racks cannot be read"):
        read(tmp_path / "none.txt")


def test_ranks_of_a_rack_are_side_by_side_and_the_smallest_rack_is_last():
    assert order([0, 1, 0, 1]) == [0, 2, 1, 3]
    assert order([0, 1, 1, 2, 2]) == [1, 2, 3, 4, 0]


def test_racks_are_the_groups_of_two_levels():
    rules = [Rule("all_reduce", "two_level"), Rule("all_reduce", "two_level(group=8)"), Rule("broadcast", "ring")]
    named = [rule.algorithm for rule in grouped(rules, [0, 1, 1, 0, 2])]
    assert named == ["two_level(group=2)", "two_level(group=8)", "ring"]
    with pytest.raises(SynclineError, match=r"racks of 3, 2, 1 ranks"):
        grouped(rules, [0, 0, 0, 1, 1, 2])
    assert grouped(rules[1:], [0, 0, 0, 1, 1, 2]) == rules[1:]


def test_racks_decide_order_and_groups(tmp_path):
    file = tmp_path / "racks.txt"
    file.write_text("0 2\n1 3\n")
    plain = Told([Rule("all_reduce", "two_level")], None, file).plain(4)
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
