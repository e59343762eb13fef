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
from syncline.input.problem import error, raise_errors
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

    def measure(self, order: Order) -> tuple[float, Traffic]:
        """The time of a step in this order, and what hosts exchange in it, by their places.

        :raises SynclineError: as :meth:`step_s`; errors about numbers of ranks say how many the hosts have.
        """
        try:
            run = self._run(self._text, order, None)
        except SynclineError as problem:
            told = [self._told(each) for each in problem.diagnostics]
            raise SynclineError(told, problem.exit_status) from None
        summary = json.loads(run.summary())
        columns = {name: values for name, _, values in run.table("links")}
        names = self._loaded.resolved["fabric"]["graph"]["names"][-self.hosts :]
        place = {names[host]: at for at, host in enumerate(order)}
        traffic = Traffic({}, {})
        ends = zip(columns["from"], columns["to"], columns["carried_bytes"], columns["messages"], strict=True)
        for start, end, carried, messages in ends:
            if start in place and end in place and messages:
                pair = (min(place[start], place[end]), max(place[start], place[end]))
                traffic.nbytes[pair] = traffic.nbytes.get(pair, 0) + carried
                traffic.messages[pair] = traffic.messages.get(pair, 0) + messages
        return float(summary["step_time_s"]), traffic

    def _told(self, problem: Diagnostic) -> Diagnostic:
        """Adds to an error about numbers of ranks how many the hosts have."""
        key = problem.get("key", "")
        if problem["code"] != Code.RANK_MISMATCH and not key.startswith("workload.parallel"):
            return problem
        npus = f"{counted(self.hosts, 'host')} with {counted(self.per_host, 'NPU')} each"
        told: Diagnostic = {**problem, "notes": [*problem.get("notes", ()), f"measured: {npus}"]}
        if "help" not in told or key in ("placement", "fabric"):
            # The search makes the placement, and measurements the fabric.
            told["help"] = "choose hosts with `--hosts`, or give them NPUs by `fabric.nodes.npus` of the scenario"
        return told

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
