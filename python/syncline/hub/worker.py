"""A worker's connection to a job on hubs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from syncline import _core
from syncline.hub.racks import Racks
from syncline.hub.service import PORT
from syncline.hub.terms import Terms
from syncline.input.problem import bad_value, nearest
from syncline.runtime import at_exit, congestion_control
from syncline.runtime.addresses import resolve_all, setting, with_port
from syncline.runtime.communicator import Pending
from syncline.runtime.memory import Memory, memory
from syncline.runtime.security import Security
from syncline.runtime.settings import TimeLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.errors import SynclineError

    class Chosen(Protocol):
        """An optimizer that a hub can run."""

        def as_dict(self) -> dict[str, Any]:
            """Returns the optimizer as data for the hub."""


Operation = Literal["push_pull", "push", "pull", "set"]
"""What a worker asks of a vector."""

CHUNKS = range(64, (64 << 20) + 1)
"""Sizes that a chunk may have, in bytes."""
MAX_CHUNKS = 1 << 22
"""Maximum number of chunks of a job on one hub."""


class PendingExchange(Pending):
    """An exchange with the hub that is under way. Do not touch its buffers until it is over."""

    @property
    def contributors(self) -> int:
        """The least number of ranks that contributed to any part of the result.

        It is less than the job's number of ranks if some were lost (policy ``shrink``).
        """
        return self._inner.contributors() or 0


class Hub:
    """A worker's connection to a job on hubs."""

    def __init__(self, core: _core.Hub, keys: Mapping[str, tuple[str, int]], rank: int, world: int) -> None:
        self._core = core
        self._keys = dict(keys)
        self._numbers = {name: number for number, name in enumerate(keys)}
        self.rank = rank
        """The number of this rank."""
        self.world = world
        """The number of ranks of the job."""
        at_exit.register(self)

    @classmethod
    def join(
        cls,
        hubs: str | Sequence[str] | Racks | None,
        keys: Mapping[str, Any],
        *,
        rank: int | None = None,
        world: int | None = None,
        job: str = "job",
        optimizer: Chosen | Mapping[str, Chosen] | None = None,
        terms: Terms | None = None,
        security: Security | None = None,
        limits: TimeLimits | None = None,
        congestion: str | None = None,
    ) -> Self:
        """Joins a job, and returns once all its ranks have joined.

        ``hubs`` are the hubs' addresses (``HOST`` or ``HOST:PORT``, default port 29420), in the same order on all
        ranks; or :class:`~syncline.hub.Racks` with hubs in each rack, which sum for the rack's ranks and then exchange
        their sums. If it is ``None``, they come from the environment (``SYNCLINE_HUBS``, separated by commas). ``keys``
        are the job's vectors by name: each a buffer with the vector's type and length, or ``(element, length)``, such
        as ``("f32", 1000)``. Without ``rank`` and ``world``, those of the environment apply (``RANK``, ``WORLD_SIZE``).

        With an ``optimizer`` the hub holds the parameters and updates them. A mapping gives optimizers to single
        vectors by their names; a vector that is not in it has none. Three objects hold the other options:

        - ``terms``: what the ranks of the job agree on, such as the reduction;
        - ``security``: certificates or a key; to reach hubs beyond this machine, either, or ``insecure=True``;
        - ``limits``: how long to wait for ranks, hubs and exchanges.

        ``congestion`` names TCP's congestion control; the default is the system's.

        Raises ``SynclineError`` if the ranks do not all join in time (SL1201, exit status 6), or an argument is
        invalid.
        """
        terms, security, limits = terms or Terms(), security or Security(), limits or TimeLimits()
        environment = os.environ
        rank = setting(environment, "RANK", rank)
        world = setting(environment, "WORLD_SIZE", world)
        congestion_control.check(congestion)
        found = _hubs(environment, hubs)
        key = security.secret((f"rank-{rank}", "rank"))
        security.check([host for addresses in found for host, _ in addresses], key)
        vectors = {name: _vector(name, each) for name, each in keys.items()}
        worker = {
            "rank": rank,
            "job": job,
            "hubs": [with_port(*first) for first, *_ in found],
            "elsewhere": {
                with_port(*first): [with_port(*each) for each in further] for first, *further in found if further
            },
            "congestion": congestion,
            **asdict(limits),
            "terms": {
                "workers": world,
                **_trained(vectors, optimizer),
                "racks": hubs.as_dict() if isinstance(hubs, Racks) else None,
                **terms.as_dict(),
            },
        }
        try:
            core = _core.Hub.join(json.dumps(worker, allow_nan=False), key)
        except ValueError as error:
            raise bad_value(
                "invalid arguments for a rank", str(error), help="Hub.join describes its arguments"
            ) from None
        return cls(core, vectors, rank, world)

    @property
    def keys(self) -> dict[str, tuple[str, int]]:
        """The job's vectors by name: the type of the elements, and their number."""
        return dict(self._keys)

    @property
    def steps(self) -> dict[str, int]:
        """How often each vector has been pushed: by this rank, or before it joined.

        All are 0 when a job begins. A rank that is started again finds the steps that the job has done.
        """
        return dict(zip(self._keys, _open(self._core.steps), strict=True))

    def push_pull(self, key: str, buffer: Any, output: Any = None, *, keep: bool = False) -> PendingExchange:
        """Pushes a vector and pulls the step's result: the reduction over all ranks, or the updated parameters.

        The result goes to ``output``, or replaces what was pushed. With ``keep``, ``buffer`` is unchanged if the
        exchange fails.
        """
        source = self._memory(key, buffer)
        target = source if output is None else self._memory(key, output)
        return self._begin(key, "push_pull", source, target, keep=keep)

    def push(self, key: str, buffer: Any) -> PendingExchange:
        """Pushes a vector. The exchange is over once the buffer may be used again."""
        source = self._memory(key, buffer)
        return self._begin(key, "push", source, None)

    def pull(self, key: str, buffer: Any) -> PendingExchange:
        """Pulls a vector. Its value includes every push of this rank so far, and may include later steps."""
        target = self._memory(key, buffer)
        return self._begin(key, "pull", None, target)

    def set(self, key: str, buffer: Any) -> PendingExchange:
        """Sets a vector on the hub, whatever its value was. One rank does so for all."""
        source = self._memory(key, buffer)
        return self._begin(key, "set", source, None)

    def start(self, buffers: Mapping[str, Any]) -> None:
        """Gives all ranks the same parameters: those of rank 0, or the hub's if the job has done steps already."""
        first = self.rank == 0 and _open(self._core.fresh)
        under_way = [self.set(key, each) if first else self.pull(key, each) for key, each in buffers.items()]
        for exchange in under_way:
            exchange.wait()

    def set_learning_rate(self, rate: float, key: str | None = None) -> None:
        """Sets the learning rate of one vector, or of all, from this rank's next push on.

        Either one rank sets it for all, between steps; or all ranks set the same rate before the same step.
        """
        number = None if key is None else self._number(key)
        _open(lambda: self._core.set_rate(rate, number))

    def close(self) -> None:
        """Leaves the job. Exchanges under way fail."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _memory(self, key: str, buffer: Any) -> Memory:
        """Returns the memory of a buffer, which must have the type and length of the job's vector."""
        self._number(key)
        vector = self._keys[key]
        held = memory(buffer)
        found = (held.element, held.elements)
        if found != vector:
            word = "{0[1]} {0[0]}".format
            raise bad_value(f"the buffer does not match the job's vector `{key}`", word(found), allowed=word(vector))
        return held

    def _number(self, key: str) -> int:
        """Returns the number of a vector."""
        if key not in self._numbers:
            raise _unknown(key, self._numbers)
        return self._numbers[key]

    def _begin(
        self, key: str, operation: Operation, source: Memory | None, target: Memory | None, *, keep: bool = False
    ) -> PendingExchange:
        try:
            return PendingExchange(self._core.begin(self._numbers[key], operation, source, target, keep))
        except ValueError as error:
            raise _closed(error) from None


def _hubs(environment: Mapping[str, str], hubs: str | Sequence[str] | Racks | None) -> list[list[tuple[str, int]]]:
    """Returns all addresses and ports of each hub."""
    if isinstance(hubs, Racks):
        return [resolve_all(each, PORT) for rack in hubs.hubs for each in rack]
    given = environment.get("SYNCLINE_HUBS", f"127.0.0.1:{PORT}").split(",") if hubs is None else hubs
    return [resolve_all(each, PORT) for each in ([given] if isinstance(given, str) else given)]


def _unknown(key: str, known: Mapping[str, Any]) -> SynclineError:
    """Returns the error for a vector that the job does not have."""
    near = nearest(key, known)
    return bad_value("the job has no such vector", key, allowed=None if near else ", ".join(known), nearest=near)


def _trained(vectors: Mapping[str, tuple[str, int]], given: Chosen | Mapping[str, Chosen] | None) -> dict[str, Any]:
    """Returns the vectors, and the optimizer of all or of each, as data for the hub."""
    of_all = None if given is None or isinstance(given, Mapping) else given.as_dict()
    of_each = given if isinstance(given, Mapping) else {}
    for name in of_each:
        if name not in vectors:
            raise _unknown(name, vectors)
    keys = []
    for name, (element, elements) in vectors.items():
        own = {"optimizer": of_each[name].as_dict()} if name in of_each else {}
        keys.append({"name": name, "element": element, "elements": elements, **own})
    return {"keys": keys, "optimizer": of_all}


def _open(call: Callable[[], Any]) -> Any:
    """Calls ``call``, and raises a ``SynclineError`` if the connection to the hub is closed."""
    try:
        return call()
    except ValueError as error:
        raise _closed(error) from None


def _closed(error: ValueError) -> SynclineError:
    return bad_value("the hub cannot be used", str(error), help="a Hub cannot be used after close()")


def _vector(name: str, given: Any) -> tuple[str, int]:
    """Returns the element type and length of a vector, from a buffer or from a pair of both."""
    if isinstance(given, tuple):
        match given:
            case (str(element), int(elements)) if elements >= 0:
                return element, elements
        allowed = f"a buffer, or (element, length) with an element of {', '.join(sorted(_core.element_names()))}"
        raise bad_value(f"`{name}` is not a vector", repr(given), allowed=allowed)
    held = memory(given)
    return held.element, held.elements
