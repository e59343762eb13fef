"""A job on hubs, as one of its workers sees it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from syncline import _core
from syncline.hub.service import PORT
from syncline.runtime import congestions, leaving, trust
from syncline.runtime.addresses import resolve, setting, with_port
from syncline.runtime.communicator import Pending
from syncline.runtime.memory import ELEMENTS, NOTHING, Memory, memory, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from syncline.errors import SynclineError
    from syncline.hub.racks import Racks
    from syncline.runtime.trust import Certificates

    class Chosen(Protocol):
        """An optimizer of the hub."""

        def plain(self) -> dict[str, Any]:
            """As the hub is told."""


CHUNKS = range(64, (64 << 20) + 1)
"""Bytes that chunks may have."""
MOST_CHUNKS = 1 << 22
"""Chunks of a job on one hub."""


class Exchange(Pending):
    """An exchange with the hub, under way. Its buffers may not be touched until it is over."""

    @property
    def contributors(self) -> int:
        """How many ranks had a part in what came, at least: fewer than there are where some are lost (``shrink``)."""
        return self._inner.contributors() or 0


class Hub:
    """A job on hubs, as one of its workers sees it."""

    def __init__(self, core: _core.Hub, keys: Mapping[str, tuple[str, int]], rank: int, world: int) -> None:
        self._core = core
        self._keys = dict(keys)
        self._numbers = {name: number for number, name in enumerate(keys)}
        self.rank = rank
        """Which rank this is."""
        self.world = world
        """How many ranks the job has."""
        leaving.remember(self)

    @classmethod
    def join(
        cls,
        hubs: str | Sequence[str] | None,
        keys: Mapping[str, Any],
        *,
        rank: int | None = None,
        world: int | None = None,
        job: str = "job",
        optimizer: Chosen | Mapping[str, Chosen] | None = None,
        reduction: str = "mean",
        in_order: bool = False,
        asynchronous: bool = False,
        policy: str = "fail",
        chunk: int = 32 << 10,
        mapping: str = "key_by_interface",
        together: Sequence[str] = (),
        racks: Racks | None = None,
        key_file: str | Path | None = None,
        tls: Certificates | str | Path | None = None,
        insecure: bool = False,
        congestion: str | None = None,
        wait_s: float = 60.0,
        deadline_s: float = 300.0,
        interval_s: float = 0.4,
        silence_s: float = 1.5,
    ) -> Self:
        """Joins a job; returns once all its ranks are there.

        ``hubs`` are the hubs' addresses (``HOST`` or ``HOST:PORT``, port 29420), in the same order on all ranks, or
        those of the environment (``SYNCLINE_HUBS``, with commas between). ``keys`` are the job's vectors by name: a
        buffer of the same elements and length, or ``(element, length)`` such as ``("f32", 1000)``. ``rank`` and
        ``world`` are those of the environment where they are not given.

        What ranks push is combined by ``reduction`` (``mean``, or a reduction of collectives), in the order of ranks
        with ``in_order``. With an ``optimizer`` the hub keeps parameters and makes them better; one for each vector may
        be given by the vectors' names, and those that are not named have none. ``asynchronous``, it does so with each
        push, and nobody waits. ``policy`` says what happens when a rank is lost: ``fail``, ``shrink``
        (the others go on) or ``wait`` (until it is started again). Vectors are cut into chunks of ``chunk`` bytes.
        Vectors that every rank pushes once a step are named in ``together``: a rank that is started again joins between
        two steps of all of them, and not of each.

        With ``racks`` each rack has hubs of its own, that sum for its ranks first and then exchange; ``hubs`` is not
        needed then.

        Beyond this machine ranks and hubs show each other certificates of the job's CA (``tls``: a folder that
        ``syncline hub certs`` made, or :class:`~syncline.runtime.Certificates`), or prove that they share the key in
        ``key_file``, or the user says that it is ``insecure``.

        Raises ``SynclineError`` where ranks do not meet (SL1201, exit status 6), or what is given is invalid.
        """
        environment = os.environ
        rank = setting(environment, "RANK", rank)
        world = setting(environment, "WORLD_SIZE", world)
        congestions.check(congestion)
        found = _hubs(environment, hubs, racks)
        key = trust.secret(key_file, tls, names=(f"rank-{rank}", "rank"))
        trust.check([host for host, _ in found], key, insecure=insecure)
        vectors = {name: _vector(name, each) for name, each in keys.items()}
        of_all, own = _optimizers(optimizer, vectors)
        worker = {
            "rank": rank,
            "job": job,
            "hubs": [with_port(host, port) for host, port in found],
            "wait_s": wait_s,
            "congestion": congestion,
            "deadline_s": deadline_s,
            "interval_s": interval_s,
            "silence_s": silence_s,
            "terms": {
                "workers": world,
                "keys": [
                    {"name": name, "element": element, "elements": elements, **own.get(name, {})}
                    for name, (element, elements) in vectors.items()
                ],
                "chunk": chunk,
                "reduction": reduction,
                "in_order": in_order,
                "pace": "asynchronous" if asynchronous else "synchronous",
                "optimizer": of_all,
                "policy": policy,
                "mapping": mapping,
                "together": list(together),
                "racks": None if racks is None else racks.plain(),
            },
        }
        try:
            core = _core.Hub.join(json.dumps(worker, allow_nan=False), key)
        except ValueError as error:
            raise refusal("what the rank is told is invalid", str(error), "see Hub.join") from None
        return cls(core, vectors, rank, world)

    @property
    def keys(self) -> dict[str, tuple[str, int]]:
        """The job's vectors: what their elements are, and how many."""
        return dict(self._keys)

    @property
    def steps(self) -> dict[str, int]:
        """How often each vector has been pushed, by this rank or before it joined.

        Nothing but zeros for a job that begins; where a rank is started again, the steps behind it.
        """
        return dict(zip(self._keys, _open(self._core.steps), strict=True))

    def push_pull(self, key: str, buffer: Any, output: Any = None, *, keep: bool = False) -> Exchange:
        """Pushes a vector, and gets what has come of the step: the reduction of all, or the parameters after it.

        The result goes to ``output``, or takes the place of what was pushed; with ``keep`` the buffer is then as it was
        if the exchange fails.
        """
        source = self._memory(key, buffer)
        target = source if output is None else self._memory(key, output)
        return self._begin(key, "push_pull", source.place, target.place, (source, target), keep=keep)

    def push(self, key: str, buffer: Any) -> Exchange:
        """Pushes a vector. It is over once the buffer may be used again."""
        source = self._memory(key, buffer)
        return self._begin(key, "push", source.place, NOTHING, source)

    def pull(self, key: str, buffer: Any) -> Exchange:
        """Gets a vector as it is after all that this rank has pushed, or later."""
        target = self._memory(key, buffer)
        return self._begin(key, "pull", NOTHING, target.place, target)

    def set(self, key: str, buffer: Any) -> Exchange:
        """Says what a vector is, whatever it was: one rank, for all."""
        source = self._memory(key, buffer)
        return self._begin(key, "set", source.place, NOTHING, source)

    def start(self, buffers: Mapping[str, Any]) -> None:
        """Gives all ranks the same parameters: those of rank 0, or those that the hub has where steps are behind it."""
        first = self.rank == 0 and _open(self._core.fresh)
        under_way = [self.set(key, each) if first else self.pull(key, each) for key, each in buffers.items()]
        for exchange in under_way:
            exchange.wait()

    def set_learning_rate(self, rate: float, key: str | None = None) -> None:
        """Another learning rate, of one vector or of all, from this rank's next push on.

        One rank says it, for all, between steps; or all ranks say the same before the same step.
        """
        number = None if key is None else self._number(key)
        _open(lambda: self._core.set_rate(rate, number))

    def close(self) -> None:
        """Leaves. What is under way fails."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _memory(self, key: str, buffer: Any) -> Memory:
        """The memory of a buffer that is what the job says that its vector is."""
        self._number(key)
        vector = self._keys[key]
        held = memory(buffer)
        found = (held.element, held.nbytes // held.width)
        if found != vector:
            word = "{0[1]} {0[0]}".format
            raise refusal(f"this is not what the job says that `{key}` is", word(found), word(vector))
        return held

    def _number(self, key: str) -> int:
        """Which vector it is."""
        if key not in self._numbers:
            raise _unknown(key, self._numbers)
        return self._numbers[key]

    def _begin(
        self, key: str, wish: str, source: tuple[int, int], target: tuple[int, int], owner: Any, *, keep: bool = False
    ) -> Exchange:
        try:
            return Exchange(self._core.begin(self._numbers[key], wish, source, target, keep, owner))
        except ValueError as error:
            raise _closed(error) from None


def _hubs(
    environment: Mapping[str, str], hubs: str | Sequence[str] | None, racks: Racks | None
) -> list[tuple[str, int]]:
    """Addresses and ports of all hubs."""
    if racks is not None:
        if hubs is not None:
            raise refusal("hubs are named twice", "hubs and racks", "one of them")
        return [resolve(each, PORT) for rack in racks.hubs for each in rack]
    given = environment.get("SYNCLINE_HUBS", f"127.0.0.1:{PORT}").split(",") if hubs is None else hubs
    return [resolve(each, PORT) for each in ([given] if isinstance(given, str) else given)]


def _unknown(key: str, known: Mapping[str, Any]) -> SynclineError:
    """That there is no such vector."""
    import difflib

    near = difflib.get_close_matches(key, known, 1)
    allowed = f"did you mean `{near[0]}`?" if near else ", ".join(f"`{name}`" for name in known)
    return refusal("the job has no such vector", f"`{key}`", allowed)


def _optimizers(
    given: Chosen | Mapping[str, Chosen] | None, vectors: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, dict[str, Any]]]:
    """The optimizer of all vectors, and what is said of single ones."""
    if given is None:
        return None, {}
    if not isinstance(given, Mapping):
        return given.plain(), {}
    for name in given:
        if name not in vectors:
            raise _unknown(name, vectors)
    return None, {name: {"optimizer": chosen.plain()} for name, chosen in given.items()}


def _open(call: Callable[[], Any]) -> Any:
    """What a hub says that is not closed."""
    try:
        return call()
    except ValueError as error:
        raise _closed(error) from None


def _closed(error: ValueError) -> SynclineError:
    return refusal("the hub cannot be asked", str(error), "a hub that is not closed")


def _vector(name: str, given: Any) -> tuple[str, int]:
    """What a vector's elements are, and how many, of a buffer or of both."""
    if isinstance(given, tuple):
        match given:
            case (str(element), int(elements)) if elements >= 0:
                return element, elements
        known = sorted({*ELEMENTS.values(), "bf16", "i32", "i64"})
        raise refusal(f"`{name}` is no vector", repr(given), f"a buffer, or (element, length) of {', '.join(known)}")
    held = memory(given)
    return held.element, held.nbytes // held.width
