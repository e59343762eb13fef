"""Simulates a scenario once for each of several seeds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.cores import usable_cores
from syncline.ensembles.folder import Folder
from syncline.ensembles.random_parts import HINT, random_parts
from syncline.ensembles.spread import Spread
from syncline.errors import Interrupted, SynclineError
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.api import Given, Progress
    from syncline.config.load import Loaded
    from syncline.errors import Diagnostic
    from syncline.summary import Summary

MAX_SEEDS = 100_000
"""Maximum number of runs of an ensemble."""
NUMBERS = (
    "step_time_s",
    "total_time_s",
    "compute_s",
    "exposed_communication_s",
    "exposed_memory_s",
    "exposed_fraction",
    "communication_s",
)
"""Keys of the summary whose spread is reported."""
OF_PACKETS = ("dropped", "retransmissions", "timeouts", "initial_timeouts", "stalled_s", "pauses")
"""Keys of ``packets`` whose spread is reported, if the network model has packets."""


@dataclass(frozen=True)
class Ensemble:
    """The results of runs with several seeds."""

    name: str
    """Name of the scenario."""
    seeds: tuple[int, ...]
    """The seed of each run, in order."""
    summaries: tuple[Summary, ...]
    """The summary of each run."""
    warnings: tuple[Diagnostic, ...]
    """The warnings of all runs, without repeats."""
    interrupted: bool = False
    """Whether Ctrl-C stopped the ensemble: unfinished runs are then missing."""
    folder: Path | None = None
    """Folder of the results; None if they are not on disk. Each run has its own subfolder, such as ``seed-7``."""

    @property
    def finished(self) -> tuple[Summary, ...]:
        """Summaries of the runs that were completed; spreads are computed from these."""
        return tuple(each for each in self.summaries if each.ended == "finished")

    def values(self, name: str) -> list[float]:
        """A number of the summary of each completed run, such as ``step_time_s`` or ``packets.timeouts``."""
        first, _, second = name.partition(".")
        found = (getattr(each, first) for each in self.finished)
        return [float(getattr(each, second) if second else each) for each in found]

    def spread(self, name: str = "step_time_s") -> Spread:
        """Median, range, quartiles and groups of a number of the summary. Needs at least one completed run."""
        return Spread.of(self.values(name))

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers whose spreads are reported."""
        packets = bool(self.finished) and self.finished[0].packets is not None
        return (*NUMBERS, *(f"packets.{name}" for name in OF_PACKETS if packets))

    def as_dict(self) -> dict[str, Any]:
        """The content of ``ensemble.json``."""
        spreads = {name: asdict(self.spread(name)) for name in self.numbers} if self.finished else {}
        return {
            "name": self.name,
            "seeds": list(self.seeds),
            "finished": len(self.finished),
            "spreads": spreads,
            "runs": [
                {"seed": seed, **_row(summary, self.numbers)}
                for seed, summary in zip(self.seeds, self.summaries, strict=True)
            ],
        }

    def __str__(self) -> str:
        from syncline.ensembles.screen import as_text

        return as_text(self)


def ensemble(
    scenario: Given | None = None,
    /,
    *,
    seeds: int,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    **sections: Any,
) -> Ensemble:
    """Simulates a scenario ``seeds`` times: with its own ``seed``, and with the numbers that follow it.

    ``scenario``, ``set`` and ``sections`` are as for :func:`syncline.simulate`. ``workers`` threads simulate runs in
    parallel; by default, one for each core. The results do not depend on their number. With ``out``, the results of
    each run are written into that folder. Raises :class:`SynclineError` if nothing in the scenario depends on its seed,
    or if a run fails; of several errors, that of the first seed.
    """
    from syncline.api import prepare

    return run(prepare(scenario, set, sections), seeds, out=out, workers=workers)


def run(
    loaded: Loaded,
    seeds: int,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Ensemble:
    """Simulates a loaded scenario once for each seed. ``progress`` gets the sums over all runs."""
    check(loaded, seeds)
    if out is None:
        return _run(loaded, seeds, None, workers, progress)
    with Folder(Path(out)) as folder:
        made = _run(loaded, seeds, folder, workers, progress)
        folder.write(made.as_dict())
    return made


def _run(
    loaded: Loaded,
    seeds: int,
    folder: Folder | None,
    workers: int | None,
    progress: Progress | None,
) -> Ensemble:
    """Like :func:`run`, without the checks; writes the results of each run into ``folder`` if given."""
    first = int(loaded.resolved["seed"])
    numbers = tuple(range(first, first + seeds))
    together = _Together(seeds, progress)

    def one(index: int) -> tuple[Summary, list[Diagnostic]] | SynclineError | None:
        """Simulates one run; returns its summary and warnings, its error, or None if it was stopped."""
        from syncline.api import run as simulate

        if together.stopped.is_set():
            return None
        seeded = replace(loaded, resolved={**loaded.resolved, "seed": numbers[index]})
        try:
            result = simulate(seeded, lambda *state: together.tell(index, *state))
        except Interrupted:
            return None
        except SynclineError as problem:
            together.stopped.set()
            return problem
        if folder is not None:
            try:
                result.save(folder.of_seed(numbers[index]))
            except SynclineError as problem:
                together.stopped.set()
                return problem
        return result.summary, result.warnings

    interrupted = False
    with ThreadPoolExecutor(min(seeds, workers or usable_cores())) as pool:
        futures = [pool.submit(one, index) for index in range(seeds)]
        try:
            found = [future.result() for future in futures]
        except KeyboardInterrupt:
            together.stopped.set()
            interrupted = True
            found = [future.result() for future in futures]
    for outcome in found:
        if isinstance(outcome, SynclineError):
            raise outcome
    ended = [(seed, each) for seed, each in zip(numbers, found, strict=True) if isinstance(each, tuple)]
    warnings: list[Diagnostic] = []
    for warning in chain.from_iterable(told for _, (_, told) in ended):
        if warning not in warnings:
            warnings.append(warning)
    return Ensemble(
        loaded.name,
        tuple(seed for seed, _ in ended),
        tuple(summary for _, (summary, _) in ended),
        tuple(warnings),
        interrupted,
        folder.path if folder else None,
    )


def check(loaded: Loaded, seeds: int) -> None:
    """Raises an error if the number of seeds is out of range, or nothing in the scenario depends on its seed."""
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 1 <= seeds <= MAX_SEEDS:
        allowed = f"a whole number from 1 to {MAX_SEEDS}"
        raise_errors(
            error(Code.BAD_VALUE, "not a valid number of seeds", key="seeds", found=str(seeds), allowed=allowed)
        )
    found = list(random_parts(loaded.resolved))
    if any(follows for _, follows in found):
        return
    if found:
        places = " and ".join(f"`{key}.seed`" for key, _ in found)
        message, remedy = f"all runs would be the same: {places} fixes the random parts", f"leave {places} out"
    else:
        message, remedy = "all runs would be the same: nothing in the scenario depends on its seed", HINT
    raise_errors(error(Code.BAD_VALUE, message, key="seeds", found=str(seeds), help=remedy))


class _Together:
    """The joint progress of several runs, and a flag that stops all of them."""

    def __init__(self, count: int, progress: Progress | None) -> None:
        self.stopped = Event()
        self._states: list[tuple[float, int, int, float]] = [(0.0, 0, 0, 0.0)] * count
        self._progress = progress

    def tell(self, index: int, simulated_s: float, events: int, messages: int, done: float) -> None:
        """Records the progress of a run. Raises KeyboardInterrupt, which ends the run, if all runs must stop."""
        if self.stopped.is_set():
            raise KeyboardInterrupt
        self._states[index] = (simulated_s, events, messages, done)
        if self._progress is not None:
            times, handled, sent, parts = zip(*self._states, strict=True)
            self._progress(sum(times), sum(handled), sum(sent), sum(parts) / len(parts))


def _row(summary: Summary, numbers: Sequence[str]) -> dict[str, Any]:
    """The row of one run in the table."""
    row: dict[str, Any] = {"ended": summary.ended, "bottleneck": summary.bottleneck.name}
    for name in numbers:
        first, _, second = name.partition(".")
        value = getattr(summary, first)
        row[name] = getattr(value, second) if second else value
    return row
