"""A list scheduler of pipelines: it knows what each stage does next, and starts it as soon as its inputs are there.

It shares no code with the crate ``estimate``. The orders are written from their definitions: the figures of Qi et al.
(2024) for ZB-H1, those of Narayanan et al. (2021) for 1F1B, ``ScheduleZBVZeroBubble`` of PyTorch for ZB-V, the eight
phases of DeepSeek's DualPipe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction

Work = tuple[str, int, int]
"""A kind of work (``F`` forward, ``B`` gradients of inputs, ``W`` gradients of weights), way and chunk of the model."""
Turn = list[tuple[Work, int]]
"""What a stage does at once, each with its micro-batch: one kind of work; ``B`` and ``W``; or these and ``F``."""


def zb_h1(stages: int, stage: int, batches: int) -> Iterator[Turn]:
    """1F1B, in which a stage is late with weights by its number, until forward passes end."""
    ahead = min(stages - 1 - stage, batches)
    late: deque[int] = deque()
    started = 0
    for done in range(-ahead, batches):
        if started < batches:
            yield [(("F", 0, stage), started)]
            started += 1
        if done < 0:
            continue
        yield [(("B", 0, stage), done)]
        late.append(done)
        ending = ahead + done >= batches
        if len(late) > stage or ending:
            yield [(("W", 0, stage), late.popleft())]
    for batch in late:
        yield [(("W", 0, stage), batch)]


def zb_v(stages: int, stage: int, batches: int) -> Iterator[Turn]:
    """Forth and back. Orders are made for at least ``2 stages - 1`` micro-batches."""
    planned = max(batches, 2 * stages - 1)
    first, last = (0, stage), (0, 2 * stages - 1 - stage)
    count: dict[tuple[str, tuple[int, int]], int] = {}

    def work(kind: str, chunk: tuple[int, int]) -> Iterator[Turn]:
        batch = count.get((kind, chunk), 0)
        count[kind, chunk] = batch + 1
        if batch < batches:
            yield [((kind, *chunk), batch)]

    def done(kind: str, chunk: tuple[int, int]) -> int:
        return count.get((kind, chunk), 0)

    for _ in range(2 * (stages - stage) - 1):
        yield from work("F", first)
    for _ in range(stage):
        yield from work("F", last)
        yield from work("F", first)
    for _ in range(stages - stage):
        for kind in "FBW":
            yield from work(kind, last)
    while done("F", last) < planned:
        if done("F", first) < planned:
            yield from work("F", first)
        for kind in "BW":
            yield from work(kind, first)
        for kind in "FBW":
            yield from work(kind, last)
    for _ in range(stage):
        yield from work("B", first)
        yield from work("B", last)
    for _ in range(stages - stage):
        yield from work("B", first)
        yield from work("W", first)
    for chunk in (last, first):
        while done("W", chunk) < planned:
            yield from work("W", chunk)


def dual_pipe(half: int, place: int, batches: int, near: tuple[int, int], far: tuple[int, int]) -> Iterator[Turn]:
    """``batches`` micro-batches each way; ``place`` is the distance from the end at which the way ``near`` begins."""
    count: dict[tuple[str, tuple[int, int]], int] = {}
    late: deque[tuple[Work, int]] = deque()
    later = half - place - 1

    def next_of(kind: str, chunk: tuple[int, int]) -> tuple[Work, int]:
        batch = count.get((kind, chunk), 0)
        count[kind, chunk] = batch + 1
        return (kind, *chunk), batch

    def whole(chunk: tuple[int, int]) -> Turn:
        (_, *where), batch = found = next_of("B", chunk)
        return [found, (("W", where[0], where[1]), batch)]

    def alone(chunk: tuple[int, int]) -> Turn:
        (_, *where), batch = found = next_of("B", chunk)
        late.append((("W", where[0], where[1]), batch))
        return [found]

    yield from ([next_of("F", near)] for _ in range(2 * later))
    for _ in range(place + 1):
        yield [next_of("F", near)]
        yield [next_of("F", far)]
    for _ in range(later):
        yield alone(far)
        yield [late.popleft()]
        yield [next_of("F", far)]
    for turn in range(batches - 2 * half + place + 1):
        if turn == 0 and later == 0:
            yield [next_of("F", near)]
            yield whole(far)
        else:
            yield [next_of("F", near), *whole(far)]
        yield [next_of("F", far), *whole(near)]
    for _ in range(later):
        yield whole(far)
        yield [next_of("F", far), *whole(near)]
    # Of the last backward passes, far and near in turn, the second half is late with its weights.
    for number in range(2 * (place + 1)):
        chunk = near if number % 2 else far
        yield alone(chunk) if number > place else whole(chunk)
    for _ in range(later):
        yield [late.popleft()]
        yield alone(near)
    while late:
        yield [late.popleft()]


def one_forward_one_backward(stages: int, stage: int, batches: int, parts: int) -> Iterator[Turn]:
    """1F1B, interleaved if a stage has several parts of the model (Narayanan et al. 2021, 2.2 and Figure 4)."""
    count = batches * parts
    ahead = stages - 1 - stage
    if parts > 1:
        # As many micro-batches as stages go through one part after the other.
        ahead = count if batches == stages else 2 * ahead + (parts - 1) * stages
    ahead = min(ahead, count)

    def turn(kind: str, number: int) -> Turn:
        within = number % (stages * parts)
        part = within // stages if kind == "F" else parts - 1 - within // stages
        batch = number // (stages * parts) * stages + within % stages if parts > 1 else number
        return [((kind, 0, part * stages + stage), batch)]

    yield from (turn("F", number) for number in range(ahead))
    for number in range(count - ahead):
        yield turn("F", ahead + number)
        yield turn("B", number)
    yield from (turn("B", number) for number in range(count - ahead, count))


def orders(name: str, stages: int, batches: int, parts: int = 1) -> tuple[list[list[Turn]], int]:
    """What each stage does, and how many chunks a micro-batch passes."""
    if name == "gpipe":
        return [
            [[(("F", 0, stage), batch)] for batch in range(batches)]
            + [[(("B", 0, stage), batch)] for batch in reversed(range(batches))]
            for stage in range(stages)
        ], stages
    if name == "1f1b":
        plans = [list(one_forward_one_backward(stages, stage, batches, parts)) for stage in range(stages)]
        return plans, stages * parts
    if name == "zb-h1":
        return [list(zb_h1(stages, stage, batches)) for stage in range(stages)], stages
    if name == "zb-v":
        return [list(zb_v(stages, stage, batches)) for stage in range(stages)], 2 * stages
    if name == "dualpipe-v":
        return [
            list(dual_pipe(stages, stage, batches, (0, stage), (0, 2 * stages - 1 - stage))) for stage in range(stages)
        ], 2 * stages
    found = []
    for stage in range(stages):
        forth, back = (0, stage), (1, stages - 1 - stage)
        near, far = (forth, back) if stage < stages // 2 else (back, forth)
        place = min(stage, stages - 1 - stage)
        found.append(list(dual_pipe(stages // 2, place, batches // 2, near, far)))
    return found, stages


def run(
    name: str,
    stages: int,
    batches: int,
    seconds: Callable[[str, int], int],
    message: int = 0,
    chunks_of_stage: int = 1,
) -> tuple[Fraction, list[Fraction]]:
    """When a step ends, and how long each stage works, if a kind of work takes ``seconds(kind, chunk)``.

    With ``gpipe`` and ``1f1b``, ``B`` are both gradients, and the latter is interleaved with several chunks of a stage.
    """
    plans, chunks = orders(name, stages, batches, chunks_of_stage)
    home = {work[1:]: stage for stage, plan in enumerate(plans) for turn in plan for work, _ in turn}
    ends: dict[tuple[Work, int], Fraction] = {}
    free, busy = [Fraction(0)] * stages, [Fraction(0)] * stages
    waiting = [deque(plan) for plan in plans]

    def inputs(work: Work, batch: int) -> Iterator[tuple[Work, int]]:
        kind, way, chunk = work
        if kind == "W":
            yield ("B", way, chunk), batch
        elif kind == "F" and chunk > 0:
            yield ("F", way, chunk - 1), batch
        elif kind == "B":
            yield (("B", way, chunk + 1) if chunk + 1 < chunks else ("F", way, chunk)), batch

    while any(waiting):
        moved = False
        for stage, plan in enumerate(waiting):
            if not plan:
                continue
            turn = plan[0]
            needs = [each for work, batch in turn for each in inputs(work, batch) if each not in turn]
            if any(each not in ends for each in needs):
                continue
            arrive = [ends[each] + (message if home[each[0][1:]] != stage else 0) for each in needs]
            took = sum(seconds(work[0], work[2]) for work, _ in turn)
            free[stage] = max([free[stage], *arrive]) + took
            busy[stage] += took
            ends.update(dict.fromkeys(turn, free[stage]))
            plan.popleft()
            moved = True
        assert moved, f"{name}: stages wait for each other"
    return max(free), busy
