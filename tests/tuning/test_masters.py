"""Masters by block: what their plans send, and how they are assigned."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from syncline import SynclineError
from syncline.tuning.finetune import Finetune, Traffic, blame
from syncline.tuning.masters import Assignment, default_blocks, even_groups, groups_of
from syncline.tuning.quicktune import proportional, quicktune, times

GROUPS = groups_of([0, 0, 0, 1, 1, 2])


def some(groups, blocks, seed):
    """Any assignment."""
    draw = random.Random(seed)
    local = tuple(tuple(draw.choice(ranks) for ranks in groups) for _ in range(blocks))
    return Assignment(groups, local, tuple(draw.choice(masters) for masters in local))


@pytest.mark.parametrize("groups", [even_groups(4), GROUPS, groups_of([0, 1, 0, 1]), even_groups(1), groups_of([0, 1])])
def test_what_ranks_send_is_what_the_plan_sends(groups):
    for seed in range(3):
        assignment = some(groups, 6, seed)
        plan = assignment.plan()  # which is proved
        sends = [
            sum(instruction["op"] == "send" for stream in seat["streams"] for instruction in stream["ops"])
            for seat in plan.content["seats"]
        ]
        assert assignment.sent == tuple(count / 6 for count in sends)


def test_masters_that_do_not_fit_are_refused():
    for local, top in [(((0, 3),), (0,)), (((0, 3, 4),), (0,)), (((0, 3, 5),), (1,))]:
        with pytest.raises(SynclineError, match="masters of a block do not fit"):
            Assignment(GROUPS, local, top)
    with pytest.raises(SynclineError, match="each rank once"):
        Assignment(((0, 1), (1, 2)), (), ())


def test_a_move_changes_the_masters_of_one_block():
    assignment = Assignment(GROUPS, ((0, 3, 5), (1, 4, 5)), (0, 4))
    assert assignment.moved(0, 0, 2) == Assignment(GROUPS, ((2, 3, 5), (1, 4, 5)), (2, 4))
    # Between groups only a global mastery moves.
    assert assignment.moved(0, 0, 4) == Assignment(GROUPS, ((0, 4, 5), (1, 4, 5)), (4, 4))
    assert assignment.moved(1, 1, 3) is None
    assert assignment.moved(0, 1, 2) is None


def optimum(groups, rates, blocks):
    """The shortest possible longest time, as a mixed-integer program: an independent solution."""
    milp = pytest.importorskip("scipy.optimize").milp
    from scipy.optimize import Bounds, LinearConstraint

    ranks = len(rates)
    # By symmetry of the blocks, only counts matter: of local and of global masteries of each rank. A global master is a
    # local master of the block. Counts can be dealt to blocks if no rank has more global masteries than local ones.
    # Variables: local counts, global counts, time.
    rows, low, high = [], [], []
    for members in groups:
        rows.append([1.0 if rank in members else 0.0 for rank in range(ranks)] + [0.0] * (ranks + 1))
        low.append(blocks)
        high.append(blocks)
    rows.append([0.0] * ranks + [1.0] * ranks + [0.0])
    low.append(blocks)
    high.append(blocks)
    group = {rank: members for members in groups for rank in members}
    for rank in range(ranks):
        row = [0.0] * (2 * ranks + 1)
        row[rank], row[ranks + rank] = 1.0, -1.0
        rows.append(row)
        low.append(0)
        high.append(float("inf"))
        # Sent: blocks once; a master sends to len - 1 others instead of to a master; a local master once to the global
        # one; the global one to all other local masters instead.
        row = [0.0] * (2 * ranks + 1)
        between = 1 if len(groups) > 1 else 0
        row[rank] = (len(group[rank]) - 2 + between) / rates[rank]
        row[ranks + rank] = (len(groups) - 2 if between else 0) / rates[rank]
        row[-1] = -1.0
        rows.append(row)
        low.append(-float("inf"))
        high.append(-blocks / rates[rank])
    found = milp(
        [0.0] * (2 * ranks) + [1.0],
        constraints=LinearConstraint(rows, low, high),
        integrality=[1] * (2 * ranks) + [0],
        bounds=Bounds(0, [blocks] * (2 * ranks) + [float("inf")]),
    )
    assert found.success
    return found.fun / blocks


@pytest.mark.parametrize("racks", [[0] * 8, [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2, 3, 3]])
def test_quicktune_is_close_to_the_exact_solution(racks):
    groups = groups_of(racks)
    draw = random.Random(7)
    blocks = default_blocks(groups)
    worst = 0.0
    for _ in range(12):
        rates = [draw.choice([1.0, 1.0, 0.5, 0.2]) * draw.uniform(0.8, 1.2) for _ in racks]
        exact = optimum(groups, rates, blocks)
        found = max(times(quicktune(groups, rates, blocks), rates))
        assert found >= exact * (1 - 1e-9)
        worst = max(worst, found / exact)
    assert worst < 1.1


def test_shares_are_proportional_to_rates():
    rates = [4.0, 2.0, 1.0, 1.0]
    shares = Counter(proportional(even_groups(4), rates, 16).global_masters)
    assert shares == {0: 8, 1: 4, 2: 2, 3: 2}
    # The slower the rank, the less it is a master; a rank that is slow enough is none at all.
    assert Counter(quicktune(even_groups(8), [1.0] * 7 + [0.1], 32).global_masters)[7] == 0
    even = Counter(quicktune(even_groups(8), [1.0] * 8, 32).global_masters)
    assert set(even.values()) == {4}
    with pytest.raises(SynclineError, match="rate is not above 0"):
        quicktune(even_groups(2), [1.0, 0.0], 2)


def test_blame_is_that_of_the_paper():
    traffic = [Traffic(100.0, 10.0, 1.0), Traffic(300.0, 10.0, 2.0), Traffic(200.0, 20.0, 0.0)]
    # Times 11, 32 and 10, whose mean is 53 / 3; loads 0, 1 and 1/2.
    expected = [11 * 3 / 53, 2 + 32 * 3 / 53, 1 + 10 * 3 / 53]
    assert blame(traffic, beta=2.0, gamma=1.0) == pytest.approx(expected)
    assert blame([Traffic(1.0, 1.0, 0.0)] * 3) == [1.0] * 3


def test_finetune_moves_more_and_more_away_from_the_same_rank():
    assignment = quicktune(even_groups(4), [1.0] * 4, 16)
    tuner = Finetune()
    blames = [1.0, 1.2, 3.0, 1.1]
    owned = [len(assignment.mastered(2)[0])]
    for _ in range(2):
        assignment = tuner.step(assignment, blames)
        owned.append(len(assignment.mastered(2)[0]))
    assert owned == [4, 3, 1]
    # Another bottleneck begins with one move. A rank that masters nothing cannot give anything away.
    assert len(tuner.step(assignment, [3.0, 1.0, 1.0, 1.0]).mastered(0)[0]) == len(assignment.mastered(0)[0]) - 1
    for _ in itertools.takewhile(bool, (assignment.mastered(2)[0] for _ in range(4))):
        assignment = tuner.step(assignment, blames) or assignment
    assert tuner.step(assignment, blames) is None
    assert Finetune().step(assignment, [1.0, 1.05, 1.0, 1.0]) is None


def test_too_many_ranks_are_refused():
    assert default_blocks(even_groups(16)) == 64
    assert default_blocks(even_groups(32)) == 44
    with pytest.raises(SynclineError, match="too many ranks") as raised:
        default_blocks(even_groups(64))
    assert "at most 37 ranks" in str(raised.value)
