"""A job between measured hosts, simulated in one order of hosts after another."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.config.load import load_between
from syncline.config.measured import ideal
from syncline.errors import SynclineError
from syncline.input.problem import error, exception, raise_errors
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from syncline.config.load import Loaded
    from syncline.distances import Measured
    from syncline.errors import Diagnostic
    from syncline.input.source import Override

Order = tuple[int, ...]
"""The host of each place: ranks are given to places, as many to each as a host has NPUs, and hosts take places."""


@dataclass(frozen=True)
class Traffic:
    """What hosts exchange in a step, by their places. Pairs ``(a, b)`` have ``a < b``; both directions count."""

    nbytes: dict[tuple[int, int], int]
    messages: dict[tuple[int, int], int]

    @property
    def message_bytes(self) -> int:
        """Mean size of a message between hosts."""
        return round(sum(self.nbytes.values()) / max(sum(self.messages.values()), 1))


class Stopped(Exception):  # noqa: N818 - nothing is wrong
    """A simulation was stopped before its end."""


class Simulation:
    """A job between measured hosts. ``measured`` has them in their present order."""

    def __init__(
        self, measured: Measured, given: str | Path | Mapping[str, Any], overrides: Iterable[Override] = ()
    ) -> None:
        """Loads a scenario onto the measured network.

        :raises SynclineError: the scenario is malformed, has several jobs or a placement of its own, or another number
            of ranks than the hosts have NPUs.
        """
        self.measured = measured
        self.hosts = len(measured.hosts)
        self._loaded, self.replaced = load_between(measured, given, overrides)
        _check_free(self._loaded)
        resolved = dict(self._loaded.resolved)
        self.name = self._loaded.name
        self.network = str(resolved["network"]["model"])
        self.per_host = int(resolved["fabric"]["graph"]["npus"]) // self.hosts
        # Prices and spans cost time, and the search reads neither.
        for key in ("prices", "placement"):
            resolved.pop(key, None)
        resolved["trace"] = {**resolved["trace"], "ranks": []}
        self._text = json.dumps(resolved)
        graph = ideal(resolved["fabric"]["graph"], self.hosts)
        self._ideal = json.dumps({**resolved, "fabric": {"graph": graph}})

    @property
    def present(self) -> Order:
        """The present order."""
        return tuple(range(self.hosts))

    def step_s(self, order: Order, stop: Callable[[], bool] | None = None) -> float:
        """The time of a step in this order. ``stop`` is asked now and then.

        :raises Stopped: ``stop`` said yes.
        :raises SynclineError: the job cannot be simulated, or a limit of the scenario ended it.
        """
        return float(json.loads(self._run(self._text, order, stop).summary())["step_time_s"])

    def ideal_step_s(self) -> float:
        """The time of a step if all hosts were as near and as fast as the nearest and fastest two."""
        return float(json.loads(self._run(self._ideal, self.present, None).summary())["step_time_s"])

    def traffic(self, order: Order) -> Traffic:
        """What hosts exchange in this order, by their places."""
        columns = {name: values for name, _, values in self._run(self._text, order, None).table("links")}
        names = self._loaded.resolved["fabric"]["graph"]["names"][-self.hosts :]
        place = {names[host]: at for at, host in enumerate(order)}
        found = Traffic({}, {})
        ends = zip(columns["from"], columns["to"], columns["carried_bytes"], columns["messages"], strict=True)
        for start, end, carried, messages in ends:
            if start in place and end in place and messages:
                pair = (min(place[start], place[end]), max(place[start], place[end]))
                found.nbytes[pair] = found.nbytes.get(pair, 0) + carried
                found.messages[pair] = found.messages.get(pair, 0) + messages
        return found

    def check(self) -> None:
        """Simulates the present order.

        :raises SynclineError: as :meth:`step_s`; errors about numbers of ranks say how many the hosts have.
        """
        try:
            ranks = json.loads(self._run(self._text, self.present, None).summary())["ranks"]
        except SynclineError as problem:
            told = [self._told(each) for each in problem.diagnostics]
            raise SynclineError(told, problem.exit_status) from None
        if ranks != self.hosts * self.per_host:
            found = error(Code.RANK_MISMATCH, "the job leaves some hosts without ranks", found=counted(ranks, "rank"))
            raise exception(self._told(found))

    def _told(self, problem: Diagnostic) -> Diagnostic:
        about_ranks = problem["code"] in (Code.RANK_MISMATCH, Code.BAD_PLACEMENT)
        if not about_ranks and not problem.get("key", "").startswith("workload.parallel"):
            return problem
        npus = f"{counted(self.hosts, 'host')} with {counted(self.per_host, 'NPU')} each"
        note = f"{npus}: --hosts chooses hosts, and `fabric.nodes.npus` of the scenario gives them NPUs"
        return {**problem, "notes": [*problem.get("notes", ()), note]}

    def _run(self, text: str, order: Order, stop: Callable[[], bool] | None) -> _core.Run:
        size = self.per_host
        npus = [host * size + npu for host in order for npu in range(size)]
        scenario = f'{text[:-1]}, "placement": {{"npus": {npus}}}}}'

        def progress(*_: float) -> None:
            if stop is not None and stop():
                # The core ends the run.
                raise KeyboardInterrupt

        run: _core.Run = self._loaded.placing(lambda: _core.simulate(scenario, progress))
        if run.interrupted:
            if stop is None or not stop():
                raise KeyboardInterrupt
            raise Stopped
        if json.loads(run.summary())["ended"] != "finished":
            raise_errors(
                error(
                    Code.LIMIT_REACHED,
                    "a limit of the scenario ended the simulation before the job ended",
                    key="limits",
                    help="raise the limit, or leave it out",
                )
            )
        return run


def _check_free(loaded: Loaded) -> None:
    """Refuses a scenario that places its ranks itself."""
    for key, message, help in (
        ("jobs", "the scenario has several jobs", "give a scenario with one `workload`"),
        (
            "placement",
            "the scenario places its ranks itself",
            "leave `placement` out: the search gives ranks to hosts, and --hosts gives the present order",
        ),
    ):
        mark = loaded.origins.source.mark((key,))
        if loaded.written.get(key) not in (None, [], "linear"):
            raise_errors(error(Code.BAD_VALUE, message, mark=mark, key=key, help=help))
