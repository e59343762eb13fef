"""Follows the network while a job runs: chooses the plans of large all-reduces again when their speed changes.

Luo's Autotune (luo2020 4.2.3), on any plan: a change of speed, or a period, begins a round of *trials*. A trial runs
all-reduces by other plans for some time, and keeps them if they are faster. The first trial assigns masters from
measured rates (:mod:`~syncline.tuning.quicktune`), further ones move masters away from the rank that is most to blame
(:mod:`~syncline.tuning.finetune`), and others try plans of the library, sizes of messages, windows and numbers of
lanes.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from syncline.errors import SynclineError
from syncline.input.problem import bad_value, shown
from syncline.runtime import Rule
from syncline.tuning import sampling
from syncline.tuning.finetune import Finetune, blame
from syncline.tuning.masters import default_blocks, even_groups, groups_of
from syncline.tuning.quicktune import quicktune, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from syncline.plans import Plan
    from syncline.runtime import Communicator
    from syncline.tuning.masters import Assignment
    from syncline.tuning.sampling import Window

Mode = Literal["off", "observe", "on"]
"""What a tuner does: nothing; record what it would try; try other plans and keep those that are faster."""

BALANCED = ("ring", "halving_doubling")
"""Plans in which all ranks send equally many bytes."""
MAX_SLOWDOWN = 1.3
"""Plans that are expected to take more times as long are not tried."""
HOPELESS, FEW = 2.0, 2
"""A trial ends once this many operations have taken so many times as long, on average, as those before it."""
PIECES = 4
"""Messages into which a block of a vector of the usual size is cut at least, unless they become too short."""
RETRIES, RETRY_S = 20, 0.5
"""How often the tuner tries to change plans back, and the pause in between."""
LOOKS = 2
"""Looks in a row that must see a change."""
RATE_LOOKS = 5
"""Looks at most until the rates of all ranks are known. A kernel counts busy time in ticks of some milliseconds: a
short look may tell none of a fast connection."""
GROUP = "syncline tuner"
"""The name of the group whose messages the tuner uses."""
_log = logging.getLogger("syncline")


@dataclass(frozen=True)
class Settings:
    """When the tuner acts, and what it tries."""

    above: int = 64 << 10
    """All-reduces of more bytes than this are tuned. Times are kept by powers of two, so the tuner also times some that
    are up to half as large."""
    window_s: float = 1.0
    """The shortest time between two looks, and of a trial."""
    operations: int = 8
    """The fewest all-reduces between two looks, and in a trial."""
    change: float = 0.2
    """The change of speed that begins a round of trials, as a fraction (the paper's 20 %). Two looks in a row must see
    it."""
    period_s: float | None = None
    """Time after which a round begins without a change; ``None`` for never."""
    gain: float = 0.03
    """How much faster other plans must be, as a fraction, to be kept."""
    algorithms: Sequence[str] = ("ring", "halving_doubling")
    """Plans of the library to try, with ``two_level`` if there are racks."""
    messages: Sequence[int] = (32 << 10, 128 << 10)
    """Sizes of messages to try, beside 64 KiB."""
    windows: Sequence[int] = (128 << 10, 2 << 20)
    """Windows to try, in bytes, at most 4 MiB: how far each lane sends ahead."""
    lanes: Sequence[int] = (1,)
    """Numbers of lanes to try, if the job has more."""
    finetune: int = 6
    """Most trials of a round that move masters."""

    def check(self) -> None:
        """Raises ``SynclineError`` if a value is not allowed."""
        number = (int, float)
        for name, types, allowed, fits in (
            ("above", (int,), "a whole number of bytes, 0 or more", lambda value: value >= 0),
            ("window_s", number, "above 0, at most 3,600 s", lambda value: 0 < value <= 3600),
            ("operations", (int,), "a whole number, 1 or more", lambda value: value >= 1),
            ("change", number, "above 0", lambda value: value > 0),
            ("period_s", (*number, type(None)), "above 0, or none", lambda value: value is None or value > 0),
            ("gain", number, "0 to 1", lambda value: 0 <= value < 1),
            (
                "algorithms",
                (list, tuple),
                "a list of names",
                lambda value: all(isinstance(each, str) for each in value),
            ),
            ("messages", (list, tuple), "a list of sizes in bytes", _are_sizes),
            ("windows", (list, tuple), "a list of sizes in bytes", _are_sizes),
            ("lanes", (list, tuple), "a list of numbers", _are_sizes),
            ("finetune", (int,), "a whole number, 0 or more", lambda value: value >= 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, types) or not fits(value):
                raise bad_value(f"`{name}` of a tuner's settings is out of range", shown(value), allowed=allowed)


@dataclass(frozen=True)
class Decision:
    """A trial, and what came of it."""

    at_s: float
    """Seconds since 1970."""
    reason: str
    """Why the round of trials began."""
    tried: str
    """The plans that were tried, in words."""
    before_s_per_byte: float
    """Time of large all-reduces over their bytes, with the plans before."""
    after_s_per_byte: float
    """The same in the trial; not a number if it could not be measured, or was only observed."""
    adopted: bool
    """Whether the plans that were tried stay in force."""
    why: str
    """The reason, in words."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the decision as plain data for JSON, with ``None`` for times that were not measured."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


@dataclass
class _Choice:
    """The plans of large all-reduces that are in force."""

    name: str
    """What they are, in words."""
    algorithm: str | Plan | None
    """``None`` for what the job's plans say without the tuner."""
    message: int = 64 << 10
    assignment: Assignment | None = None
    """The masters, if the plan has some."""
    window: int | None = None
    """How far each lane sends ahead; ``None`` for as far as in other operations."""
    lanes: int | None = None
    """How many lanes work on a vector; ``None`` for all."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes it differ from other choices."""
        return self.algorithm, self.message, self.window, self.lanes


class _Ended(Exception):  # noqa: N818 - it is no error
    """The tuner was closed."""


class Tuner:
    """Follows the network while ranks of a job run all-reduces. Every rank makes one, at the same point of its program.

    Rank 0 decides, on a thread of its own. ``mode`` is ``on``, ``observe`` (rank 0 records what it would try, and
    changes nothing) or ``off``. All ranks give the same arguments. Masters have groups if the job's plans have
    ``racks``. After :meth:`Communicator.renew <syncline.runtime.Communicator.renew>`, make a new tuner.

    It changes only the rule for all-reduces of more than ``settings.above`` bytes; other rules remain.

    Raises ``SynclineError`` (SL0102) if an argument is not allowed, or ``ranks`` is a group.
    """

    def __init__(self, ranks: Communicator, mode: Mode = "on", settings: Settings | None = None) -> None:
        if mode not in ("off", "observe", "on"):
            raise bad_value("this is not a mode of a tuner", repr(mode), allowed="off, observe or on")
        self.settings = Settings() if settings is None else settings
        if not isinstance(self.settings, Settings):
            raise bad_value(
                "these are not settings of a tuner", shown(settings), allowed="syncline.tuning.Settings(...)"
            )
        self.settings.check()
        self.mode = mode
        self.failed: Exception | None = None
        """Why the tuner has ended before it was closed, if it has: the job goes on by the plans in force."""
        self._ranks = ranks
        self._decisions: list[Decision] = []
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._answers: sampling.Answers | None = None
        if mode == "off" or ranks.world == 1:
            return
        ranks.require_job("have a tuner")
        try:
            self._group = ranks.group(range(ranks.world), GROUP, deadline_s=sampling.DEADLINE_S)
        except SynclineError as problem:
            if "already in use" not in str(problem):
                raise
            help = "close the job's other tuner first"
            raise bad_value("the job has a tuner already", "a second one", help=help) from None
        sampler = sampling.Sampler(ranks, self.settings.above)
        if ranks.rank > 0:
            self._answers = sampling.Answers(self._group, sampler)
            return
        self._sampler = sampler
        self._choice = _Choice("the plans without the tuner", None)
        self._tried: list[tuple[Any, ...]] = []
        self._own = math.inf
        """The time over bytes of this rank at the last look, which may have waited longer than others did."""
        self._thread = threading.Thread(target=self._run, name="syncline tuner", daemon=True)
        self._thread.start()

    @property
    def decisions(self) -> list[Decision]:
        """The trials so far, on rank 0; the oldest first."""
        return list(self._decisions)

    def close(self) -> None:
        """Ends the tuner. The plans in force remain, except for those of a trial that is under way."""
        self._closed.set()
        if self._thread is not None:
            self._group.close()
            self._thread.join()
        if self._answers is not None:
            self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._follow()
        except _Ended:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on
            if not self._closed.is_set():
                self.failed = error
                _log.warning("The tuner has ended, and plans remain as they are: %s", error)

    def _follow(self) -> None:
        """Looks again and again, and begins rounds of trials."""
        self._look()  # The first look only begins to count.
        reference, seen = math.nan, 0
        tuned = time.monotonic()
        while True:
            window = self._look()
            ratio = window.seconds_per_byte / reference
            seen = seen + 1 if self._differs(ratio) else 0
            period_s = self.settings.period_s
            if math.isnan(reference):
                reason = "the job began"
            elif seen >= LOOKS:
                reason = f"large all-reduces take {ratio:.2f} times as long as before"
            elif period_s is not None and time.monotonic() - tuned >= period_s:
                reason = f"{period_s:g} s have passed"
            else:
                continue
            reference = self._round(window, reason)
            tuned, seen = time.monotonic(), 0

    def _differs(self, ratio: float) -> bool:
        """Whether a ratio of times shows a change of speed, up or down."""
        return ratio >= 1 + self.settings.change or ratio <= 1 / (1 + self.settings.change)

    def _look(self, most: float = math.inf) -> Window:
        """Waits until there is something to see, and asks all ranks.

        A few operations are enough if they take more than ``most`` over their bytes on this rank.
        """
        began = time.monotonic()

        def seen() -> bool:
            operations = self._sampler.operations()
            long_enough = time.monotonic() - began >= self.settings.window_s
            slow = operations >= FEW and self._sampler.seconds_per_byte() > most
            return slow or (long_enough and operations >= self.settings.operations)

        self._wait(seen)
        self._own = self._sampler.seconds_per_byte()
        self._seen = sampling.look(self._group, self._sampler)
        return self._seen

    def _round(self, window: Window, reason: str) -> float:
        """Makes trials, and returns the time over bytes of the plans that are in force afterwards."""
        for _ in range(RATE_LOOKS - 1):
            if window.known or not self._sampler.tells_rates():
                break
            window = self._look()
        best = window.seconds_per_byte
        self._tried = [self._choice.key]
        for candidate in self._candidates(window):
            known = best
            best, adopted = self._try(candidate, best, reason)
            if not adopted and self._differs(best / known):
                best = self._look().seconds_per_byte
                if self._differs(best / known):
                    # The network changed during the round: the next looks begin another one.
                    return known
        finetune = Finetune()
        for _ in range(self.settings.finetune):
            assignment = self._choice.assignment
            if assignment is None or self.mode == "observe":
                break
            window = self._look()
            if not window.known:
                break
            best = window.seconds_per_byte
            moved = finetune.step(assignment, blame(window.traffic))
            if moved is None:
                break
            count = "1 master" if finetune.moved == 1 else f"{finetune.moved} masters"
            name = f"{count} moved away from rank {finetune.bottleneck}"
            candidate = replace(self._choice, name=name, algorithm=moved.plan(), assignment=moved)
            best, adopted = self._try(candidate, best, reason)
            if not adopted:
                break
        return best

    def _candidates(self, window: Window) -> Iterator[_Choice]:
        """What to try, the most promising first."""
        racks: Any = self._ranks.plans.racks  # a list: those of a communicator are
        groupings = [groups_of(racks), even_groups(self._ranks.world)] if racks else [even_groups(self._ranks.world)]
        for groups in groupings if window.known else []:
            try:
                blocks = default_blocks(groups)
            except SynclineError:
                break
            words = "in one group" if len(groups) == 1 else f"in {len(groups)} groups"
            message = _message(window.mean_bytes / blocks)

            if self._choice.assignment is None:
                # Here every rank sends to many others. In a ring, a slow rank slows what its neighbours send, too.
                even = quicktune(groups, [1.0] * self._ranks.world, blocks)
                yield _Choice(f"equal shares for all masters, {words}", even.plan(), message, even)
            assignment = quicktune(groups, [each.rate_bytes_per_s for each in self._seen.traffic], blocks)
            yield _Choice(f"masters by measured rates, {words}", assignment.plan(), message, assignment)
        for algorithm in (*self.settings.algorithms, *(["two_level"] if racks else [])):
            if algorithm in BALANCED and self._is_hopeless(self._seen):
                continue
            yield _Choice(f"`{algorithm}`", algorithm)
        for message in self.settings.messages:
            if self._choice.algorithm is not None:
                yield replace(self._choice, name=f"messages of {message} bytes", message=message)
        for bytes_ahead in self.settings.windows:
            if self._choice.algorithm is not None:
                yield replace(self._choice, name=f"windows of {bytes_ahead} bytes", window=bytes_ahead)
        there = 1 + max((connection.lane for connection in self._ranks.connections), default=0)
        for lanes in self.settings.lanes:
            if self._choice.algorithm is not None and lanes < there:
                name = "one lane" if lanes == 1 else f"{lanes} lanes"
                yield replace(self._choice, name=name, lanes=lanes)

    def _is_hopeless(self, window: Window) -> bool:
        """Whether plans in which all ranks send as much are not worth a trial.

        That is if the slowest rank would take much longer than any rank takes by the present masters, at the measured
        rates.
        """
        assignment = self._choice.assignment
        if assignment is None or not window.known:
            return False
        rates = [each.rate_bytes_per_s for each in window.traffic]
        even = 2 * (len(rates) - 1) / len(rates) / min(rates)
        return even > MAX_SLOWDOWN * max(times(assignment, rates))

    def _try(self, candidate: _Choice, before: float, reason: str) -> tuple[float, bool]:
        """Tries plans.

        Returns the time over bytes with the plans that are in force afterwards, and whether these are the new ones.
        """
        if candidate.key in self._tried:
            return before, False
        self._tried.append(candidate.key)
        if self.mode == "observe":
            self._decide(reason, candidate, before, math.nan, why="only observed")
            return before, False
        present = self._choice
        try:
            first = self._change(candidate)
        except SynclineError as error:
            self._decide(reason, candidate, before, math.nan, why=str(error).splitlines()[0])
            return before, False
        try:
            after = self._measure(first, HOPELESS * self._own)
        except BaseException:
            # The job goes on by plans that are known to be good, if it does go on.
            self._restore(present)
            raise
        if after <= before * (1 - self.settings.gain):
            self._choice = candidate
            self._decide(reason, candidate, before, after, adopted=True, why=f"{before / after:.2f} times as fast")
            return after, True
        restored = self._restore(present)
        self._decide(reason, candidate, before, after, why=f"only {before / after:.2f} times as fast")
        if restored is not None:
            # The network may have changed meanwhile.
            before = self._measure(restored)
        return before, False

    def _measure(self, first: int, most: float = math.inf) -> float:
        """Returns the time over bytes of all-reduces from operation ``first`` on; ``most`` as in :meth:`_look`."""
        self._wait(lambda: self._ranks.begun >= first)
        # Operations before may still run, and must not count.
        before = self._sampler.operations() + FEW
        self._wait(lambda: self._sampler.operations() >= before)
        sampling.look(self._group, self._sampler)
        return self._look(most).seconds_per_byte

    def _wait(self, over: Callable[[], bool]) -> None:
        """Waits until ``over`` returns true. Raises ``_Ended`` if the tuner is closed before."""
        while not over():
            if self._closed.wait(min(self.settings.window_s, 0.1)):
                raise _Ended

    def _restore(self, choice: _Choice) -> int | None:
        """Changes the plans back, however often ranks are too busy to confirm; ``None`` if the job has ended."""
        for _ in range(1 if self._closed.is_set() else RETRIES):
            try:
                return self._change(choice)
            except SynclineError as problem:
                if self._ranks.fault() is not None:
                    return None
                _log.info("The tuner cannot change plans back yet: %s", problem)
                self._closed.wait(RETRY_S)
        return None

    def _change(self, choice: _Choice) -> int:
        """Changes the job's plans to a choice for large all-reduces, instead of the one before.

        Returns the first operation that runs by it.
        """
        present = self._ranks.plans
        tuned = self._ranks._tuned  # noqa: SLF001 - also the rule of an earlier tuner
        rules = [rule for rule in present.rules if rule not in tuned]
        rule = None
        if choice.algorithm is not None:
            rule = Rule(
                "all_reduce",
                choice.algorithm,
                message=choice.message,
                above=self.settings.above,
                lanes=choice.lanes,
                window=choice.window,
            )
            rules.insert(0, rule)
        first = self._ranks.change_plans(replace(present, rules=rules))
        self._ranks._tuned = () if rule is None else (rule,)  # noqa: SLF001
        return first

    def _decide(
        self, reason: str, candidate: _Choice, before: float, after: float, *, adopted: bool = False, why: str
    ) -> None:
        decision = Decision(time.time(), reason, candidate.name, before, after, adopted, why)
        self._decisions.append(decision)
        does = "adopts" if adopted else "would try" if self.mode == "observe" else "drops"
        _log.info("The tuner %s %s: %s (%s) %s", does, candidate.name, why, reason, json.dumps(decision.as_dict()))


def _are_sizes(value: Any) -> bool:
    return all(isinstance(each, int) and each > 0 for each in value)


def _message(block: float) -> int:
    """The size of messages that cuts a block of this size into several, so that its way there and back overlap."""
    for size in (4 << 10, 8 << 10, 16 << 10, 32 << 10):
        if PIECES * size >= block:
            return size
    return 64 << 10
