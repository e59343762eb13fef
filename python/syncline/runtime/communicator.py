"""Ranks that run collectives together."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import time
import warnings
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from syncline import _core
from syncline.runtime import completions, congestions, leaving, trust
from syncline.runtime import rendezvous as meeting
from syncline.runtime.addresses import Interface, at_port, listening, port_range, resolve_all, setting, with_port
from syncline.runtime.memory import NOTHING, Memory, memory, refusal
from syncline.runtime.racks import BY_RACK, by_rack, check, of_ranks
from syncline.runtime.settings import Network, Pace, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from syncline.errors import SynclineError
    from syncline.runtime.completions import Callback
    from syncline.runtime.racks import RackMap
    from syncline.runtime.rendezvous import Rendezvous
    from syncline.runtime.trust import Certificates

PORT = 29_410
"""Where rank 0 listens for the others, unless told otherwise."""


LOG = logging.getLogger("syncline")


def _announced(announce: Callable[[str], None] | None, known: str) -> Callable[[list[str]], None] | None:
    """Announces where others find rank 0: at the host that they know it by, with the port that it has."""
    if announce is None:
        return None

    def call(addresses: list[str]) -> None:
        announce(at_port(known, int(addresses[0].rpartition(":")[2])))

    return call


@dataclass(frozen=True)
class Told:
    """Which plans run what, and what is known of the network: as :meth:`Communicator.join` is told."""

    rules: Sequence[Rule]
    order: Sequence[int] | None
    of: Sequence[int] | None
    """The rack of each rank."""
    network: Network = field(default_factory=Network)

    def plain(self, world: int) -> dict[str, Any]:
        """As the core reads it, for ``world`` ranks."""
        if self.of is not None:
            if self.order is not None:
                raise refusal("the order of ranks is said twice", "order and racks", "one of them")
            check(self.rules, self.of)

        def way(rule: Rule) -> dict[str, Any]:
            # How many ranks are in a rack is known to the core: only those count that are there.
            named = {"algorithm": BY_RACK, "by_rack": True} if self.of is not None and by_rack(rule) else {}
            return asdict(rule) | named

        return {
            "rules": [way(rule) for rule in self.rules],
            "network": self.network.plain(),
            "order": list(range(world) if self.order is None else self.order),
            "racks": None if self.of is None else list(self.of),
        }


class Pending:
    """An operation under way. Its buffers may not be touched until it is over."""

    def __init__(self, inner: _core.Pending) -> None:
        self._inner = inner

    def done(self) -> bool:
        """Whether it is over."""
        return self._inner.done()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it is over, ``seconds`` at most, and says whether it is.

        Raises ``SynclineError`` (SL1202, exit status 6) where a peer, a link or the deadline ended it: the same on all
        ranks.
        """
        return self._inner.wait(seconds)

    def then(self, callback: Callback) -> None:
        """Has ``callback`` called once it is over, with ``None``, or with the ``SynclineError`` that ended it.

        Callbacks are called one after the other on a thread of their own, so they should not take long; what they raise
        goes to ``threading.excepthook``. Where the operation is over already it is called soon.
        """
        completions.begin()
        self._inner.then(callback)

    @property
    def source(self) -> int | None:
        """Which rank the other side of a transfer is, once that is over and has gone well; else ``None``."""
        return self._inner.source()

    def withdraw(self) -> None:
        """Waits no longer for what is to be received: it fails, unless some of it has come already.

        What is sent cannot be withdrawn, nor can a collective.
        """
        self._inner.withdraw()


class Communicator:
    """Ranks that run collectives together. Every rank begins the same operations in the same order."""

    def __init__(self, core: _core.Communicator, deadline_s: float, told: Told, world: int) -> None:
        self._core = core
        self._told = told
        self._whole = world
        self._deadline_s = deadline_s
        leaving.remember(self)
        self._warn()

    @classmethod
    def join(
        cls,
        rank: int | None = None,
        world: int | None = None,
        coordinator: str | None = None,
        *,
        rendezvous: Rendezvous | None = None,
        announce: Callable[[str], None] | None = None,
        job: str = "job",
        interfaces: Sequence[str] | None = None,
        listen: str | None = None,
        ports: str | None = None,
        key_file: str | Path | None = None,
        tls: Certificates | str | Path | None = None,
        insecure: bool = False,
        rules: Sequence[Rule] = (),
        network: Network | None = None,
        order: Sequence[int] | None = None,
        racks: RackMap | None = None,
        shared_memory: bool = True,
        pin: bool = True,
        elastic: bool = False,
        congestion: str | None = None,
        wait_s: float = 60.0,
        pace: Pace | None = None,
    ) -> Self:
        """Joins the ranks of a job; returns once all are there and joined.

        ``rank`` and ``world`` are those of the environment (``RANK``, ``WORLD_SIZE``) where they are not given. Rank 0
        coordinates at ``coordinator`` (``MASTER_ADDR``, port 29410): the others try all addresses of that name, and
        rank 0 listens at all that it has of them, or at ``listen`` (``SYNCLINE_LISTEN``). ``interfaces`` are this
        host's addresses, which lanes take in turn (``SYNCLINE_ADDRESSES``, or this machine alone): each listens at its
        own and connects from it; ``ADDRESS@LISTEN`` is one that others find at another address. ``ports``
        (``SYNCLINE_PORTS``, such as ``29500-29599``) are those that it may listen at, where that is not any.

        The first of ``rules`` that fits says which plan runs a collective; if none fits, the quickest plan on
        ``network`` does. ``order`` has the ranks
        in the order in which plans count them: neighbours of a ring, members of a group. ``racks`` says instead which
        rack each rank is in, as a list or as a file with a line for each rack, its ranks: those of a rack are counted
        side by side, and are the groups of the plan ``two_level`` where its rule gives no size. ``congestion`` names
        TCP's congestion control; the system's, without it.

        Ranks on one machine share memory: those that listen at the same address or at loopback addresses, of one user,
        in one network namespace, where both may (``shared_memory``). All others are joined by TCP; :attr:`transports`
        says what came of it.

        Each lane's thread has a CPU of its own (``pin``) where the ranks on this machine leave each other enough: each
        has an equal share of the CPUs that it may use, and one in it stays free. :attr:`cpus` says which they are.

        With port 0 rank 0 takes one that is free, and calls ``announce`` with the address at which it listens
        (``HOST:PORT``); how the others learn it is the caller's business. With a ``rendezvous`` it is not: ranks find
        each other through it, at an address of rank 0's first interface unless ``coordinator`` names one, and share a
        new key that only this group has; with ``tls`` they show each other certificates all the same.

        Beyond this machine members show each other certificates of the job's CA (``tls``: a folder that
        ``syncline hub certs`` made, or :class:`~syncline.runtime.Certificates`), and what is sent is secret and cannot
        be changed on its way; or they prove that they share the key in ``key_file`` (32 bytes, for the owner's eyes
        only), which keeps strangers out of the job, and what is sent is neither secret nor safe from whoever can inject
        packets; or the user says that it is ``insecure``.

        A job that is ``elastic`` goes on where ranks are lost, and takes them back: :meth:`renew`. All ranks say so.
        One that joins it late waits until the others begin a new epoch with it; :attr:`ranks` says who takes part.

        A rank that waits for others for more than three seconds says so, and for whom, to the logger ``syncline``.

        Raises ``SynclineError`` where members do not meet (SL1201, exit status 6), or what is given is invalid.
        """
        environment = os.environ
        rank = setting(environment, "RANK", rank)
        world = setting(environment, "WORLD_SIZE", world)
        own = environment.get("SYNCLINE_ADDRESSES", "127.0.0.1")
        interfaces = [each for each in (own.split(",") if interfaces is None else interfaces) if each]
        found_at = [Interface.read(each) for each in interfaces]
        listen = environment.get("SYNCLINE_LISTEN") if listen is None and rank == 0 else listen
        allowed_ports = port_range(environment.get("SYNCLINE_PORTS") if ports is None else ports)
        congestions.check(congestion)
        told = Told(rules, order, None if racks is None else of_ranks(racks, world), network or Network())
        plans = told.plain(world)
        key = trust.secret(key_file, tls, names=(f"rank-{rank}", "rank"))
        shared = key if isinstance(key, bytes) else None
        if elastic and rendezvous is not None:
            # Its keys are wiped once ranks have met: whoever is started again would not get in.
            raise refusal("an elastic job has an address", "rendezvous and elastic", "coordinator and elastic")
        with ExitStack() as stack:
            if rendezvous is not None:
                if key_file is not None:
                    raise refusal("a rendezvous brings its own key", "rendezvous and key_file", "one of them")
                if rank == 0:
                    shared = secrets.token_bytes(trust.KEY_BYTES)
                    announce = stack.enter_context(meeting.Answers(rendezvous, world, shared)).begin
                    first = found_at[0] if found_at else Interface("127.0.0.1", "127.0.0.1")
                    listen = listen or (None if coordinator else with_port(first.listen, 0))
                    coordinator = coordinator or with_port(first.told, 0)
                else:
                    began = time.monotonic()
                    coordinator, shared = meeting.look(rendezvous, rank, wait_s)
                    wait_s = max(wait_s - (time.monotonic() - began), 1.0)
                key = key or shared
            known = coordinator or environment.get("MASTER_ADDR", "127.0.0.1")
            if rank == 0:
                where = listening(known, PORT, found_at, listen)
            elif listen is not None:
                raise refusal("rank 0 alone listens for the others", f"rank={rank}, listen={listen}", "interfaces")
            else:
                where = resolve_all(known, PORT)
            member = {
                "rank": rank,
                "world": world,
                "job": job,
                "coordinator": [with_port(host, port) for host, port in where],
                "interfaces": [(each.told, each.listen) for each in found_at],
                "ports": allowed_ports,
                "wait_s": wait_s,
                "shared_memory": shared_memory,
                "pin": pin,
                "elastic": elastic,
                "congestion": congestion,
                "plans": plans,
                **asdict(pace or Pace()),
            }
            try:
                hosts = [host for host, _ in where]
                trust.check([*(each.listen for each in found_at), *hosts], key, insecure=insecure)
                told_where = _announced(announce, known)
                core = _core.Communicator.join(json.dumps(member, allow_nan=False), key, told_where, LOG.warning)
            except ValueError as error:
                raise refusal("what the rank is told is invalid", str(error), "see Communicator.join") from None
        if rendezvous is not None and rank != 0:
            try:
                meeting.wipe(rendezvous, rank)
            except Exception as error:
                core.close()
                raise meeting.failure(f"rank {rank} cannot wipe its key from the rendezvous: {error}") from error
        return cls(core, (pace or Pace()).deadline_s, told, world)

    @property
    def rank(self) -> int:
        """Which rank this is."""
        return self._core.rank

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self._core.world

    @property
    def ranks(self) -> list[int]:
        """The ranks that take part, by their numbers here: what their numbers were when the job began.

        Errors name ranks by those. They differ from the numbers here once an elastic job has lost ranks.
        """
        return self._core.ranks

    @property
    def epoch(self) -> int:
        """Counts the epochs of an elastic job, from 0."""
        return self._core.epoch

    @property
    def waiting(self) -> list[int]:
        """Ranks that wait for the next epoch, as far as is known here: such as were started again."""
        return self._core.waiting()

    @property
    def transports(self) -> dict[int, str]:
        """What carries bytes to and from each rank: ``shared memory``, ``TCP`` or ``TLS``, and why it is no better."""
        return self._core.transports()

    @property
    def cpus(self) -> list[int]:
        """The CPU that each lane's thread has to itself; empty where they are too few, and the system chooses."""
        return self._core.cpus()

    def all_reduce(self, buffer: Any, reduction: str = "sum", *, in_order: bool = False, keep: bool = False) -> Pending:
        """Combines the vectors of all ranks, in place.

        With ``in_order`` contributions are combined in the same order every time, and results are the same bit for bit;
        with ``keep`` the buffer is as it was if the operation fails.
        """
        held = memory(buffer)
        return self._begin("all_reduce", held, held.place, held.place, reduction, in_order=in_order, keep=keep)

    def reduce_scatter(self, input: Any, output: Any, reduction: str = "sum", *, in_order: bool = False) -> Pending:
        """Combines the vectors of all ranks; each gets its block of the result."""
        source, target = _alike(input, output)
        owner = (source, target)
        return self._begin(
            "reduce_scatter", source, source.place, target.place, reduction, in_order=in_order, owner=owner
        )

    def all_gather(self, input: Any, output: Any) -> Pending:
        """Gives every rank the vectors of all, one behind the other."""
        source, target = _alike(input, output)
        return self._begin("all_gather", target, source.place, target.place, owner=(source, target))

    def all_to_all(self, input: Any, output: Any) -> Pending:
        """Gives block ``i`` of each rank's vector to rank ``i``."""
        source, target = _alike(input, output)
        return self._begin("all_to_all", source, source.place, target.place, owner=(source, target))

    def broadcast(self, buffer: Any, root: int = 0) -> Pending:
        """Gives every rank the vector of one."""
        held = memory(buffer)
        return self._begin("broadcast", held, held.place, held.place, root=root)

    def reduce(self, buffer: Any, root: int = 0, reduction: str = "sum", *, in_order: bool = False) -> Pending:
        """Combines the vectors of all ranks at one, in place; those of others stay as they are."""
        held = memory(buffer)
        output = held.place if self.rank == root else NOTHING
        return self._begin("reduce", held, held.place, output, reduction, root=root, in_order=in_order)

    def send(self, buffer: Any, to: int, tag: int = 0, *, space: int = 0) -> Pending:
        """Sends the bytes of a buffer to a rank, which receives as many under the same tag, the first first.

        Messages of at most 64 KiB are kept for a receiver that does not wait for them yet, as long as they are not more
        than 1 MiB from one rank; the sending of all others is over once they have been received. A rank may have sent
        4,096 that another has not begun to receive, over all groups and tags; more wait behind them. Every ``space``
        but 0 belongs to one collective of the caller's, whose messages are all matched by it.

        It takes the connections and the deadline of collectives. A rank that does not receive in time is at fault, and
        the job has failed.
        """
        held = memory(buffer)
        return self._transfer(lambda: self._core.send(held.place, to, space, tag, held))

    def receive(self, buffer: Any, source: int | None = None, tag: int = 0, *, space: int = 0) -> Pending:
        """Receives as many bytes as the buffer has from a rank, or from any: :attr:`Pending.source` says from which.

        Where another number of bytes is sent it fails, and so does the sending, and the job goes on. (A message of at
        most 64 KiB in space 0 may have been sent by then, as far as its sender knows.)
        """
        held = memory(buffer)
        return self._transfer(lambda: self._core.receive(held.place, source, space, tag, held))

    def _transfer(self, begin: Callable[[], _core.Pending]) -> Pending:
        try:
            return Pending(begin())
        except (ValueError, OverflowError) as error:
            raise refusal("the message is invalid", str(error), "see syncline.runtime") from None

    def group(
        self,
        ranks: Sequence[int],
        name: str,
        *,
        rules: Sequence[Rule] = (),
        order: Sequence[int] | None = None,
        racks: RackMap | None = None,
        deadline_s: float | None = None,
    ) -> Communicator:
        """Makes a group of some ranks, over the same connections and threads: that takes no time, and no descriptors.

        All its members make it, with the same ranks in the same order and the same ``name``, which no other group has
        that this rank has not closed. A name may be used again then: all members make its groups in the same order.
        Members do not wait for each other: what the group runs begins once all have made it.
        Ranks of a group are counted from 0 in the order of ``ranks``, and so are ``order`` and ``racks`` of the group.

        A rank that is lost is lost to the whole job, and so is one that misses a deadline: everything fails, in all
        groups. A member that closes a group ends the group where it is still needed, and nothing else.
        """
        members = [int(rank) for rank in ranks]
        of = None if racks is None else of_ranks(racks, len(members))
        told = Told(rules, order, of, self._told.network)
        deadline_s = self._deadline_s if deadline_s is None else deadline_s
        plans = json.dumps(told.plain(len(members)))
        try:
            core = self._core.group(_number(name, members), members, plans, deadline_s)
        except (ValueError, OverflowError) as error:
            raise refusal("the group is invalid", str(error), "see Communicator.group") from None
        return type(self)(core, deadline_s, told, len(members))

    def set_deadline(self, deadline_s: float) -> None:
        """Sets how many seconds operations that begin from now on may take; those under way keep their deadlines.

        Raises ``SynclineError`` (SL0102) unless ``deadline_s`` is more than 0, and ten years at most.
        """
        self._core.set_deadline(deadline_s)
        self._deadline_s = deadline_s

    @property
    def kept(self) -> dict[str, int]:
        """Bytes that are kept because this rank has not needed them yet.

        ``early`` are those of collectives that others have begun before it, ``most_early`` the most that these have
        been at a time, and ``messages`` those of messages that it has not received.
        """
        early, most_early, messages = self._core.kept()
        return {"early": early, "most_early": most_early, "messages": messages}

    def barrier(self) -> Pending:
        """Ends once every rank has begun it."""
        return self.all_reduce(bytearray(1), "max", keep=True)

    def _begin(
        self,
        kind: str,
        vector: Memory,
        input: tuple[int, int],
        output: tuple[int, int],
        reduction: str = "sum",
        *,
        root: int = 0,
        in_order: bool = False,
        keep: bool = False,
        owner: Any = None,
    ) -> Pending:
        """Begins an operation whose full vector is as long as ``vector``."""
        elements = vector.nbytes // vector.width
        holder = owner or vector
        try:
            pending = self._core.begin(
                kind, vector.element, reduction, elements, root, in_order, input, output, keep, holder
            )
        except ValueError as error:
            raise refusal("the operation is invalid", str(error), "see syncline.runtime") from None
        return Pending(pending)

    def renew(
        self,
        *,
        wait_s: float = 0.0,
        rules: Sequence[Rule] | None = None,
        order: Sequence[int] | None = None,
        racks: RackMap | None = None,
    ) -> None:
        """Begins a new epoch with the ranks that are there, in an elastic job: survivors, and those that came back.

        Every rank that is to take part calls this at the same step of its work: after an operation has failed, or
        between two steps, to let in those that are :attr:`waiting` or to change plans. What is under way fails. Ranks
        that were lost are waited for as long as ``wait_s``, which is not at all by default. Where nothing goes through
        between two ranks that both live, the lower one stays.

        Afterwards this communicator is of those ranks: :attr:`rank`, :attr:`world` and :attr:`ranks` say who they are,
        counted anew from 0 without gaps. ``rules``, ``order`` and ``racks`` are as in :meth:`join`, with ranks as the
        job began with them; without them those of before hold. A rule whose plan does not run on the ranks that are
        there is left out, with a warning: such as ``two_level``, whose groups are racks, where two racks have lost
        ranks and are not of one size any more.

        Raises ``SynclineError`` (SL1201, exit status 6) where there is no new epoch with this rank: rank 0, which
        coordinates, is lost; this rank was left behind. It has left the job then. Where the job is not elastic, or an
        operation failed whose input was not kept (``keep=True``), it raises one (SL0102), and nothing has changed.
        """
        before = self._told
        of: Sequence[int] | None = None if racks is None else of_ranks(racks, self._whole)
        if order is None and of is None:
            order, of = before.order, before.of
        told = Told(before.rules if rules is None else rules, order, of, before.network)
        try:
            self._core = self._core.renew(json.dumps(told.plain(self._whole)), wait_s)
        except ValueError as error:
            remedy = "join with `elastic=True`, and begin operations with `keep=True`"
            raise refusal("there is no new epoch", str(error), remedy) from None
        self._told = told
        self._warn()

    def _warn(self) -> None:
        """Warns of the rules that were left out."""
        for plan in self._core.left_out:
            message = (
                f"`{plan}` cannot run on {self.world} ranks: the next rule that fits applies, or else the quickest plan"
            )
            warnings.warn(message, stacklevel=3)

    def fault(self) -> SynclineError | None:
        """Why nothing can begin any more: what ended an operation, or would end the next."""
        return self._core.fault()

    def close(self) -> None:
        """Leaves. What is under way fails."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _number(name: str, ranks: Sequence[int]) -> int:
    """The number of a group, the same on all its members and another for each group."""
    digest = hashlib.sha256(json.dumps([name, list(ranks)]).encode()).digest()
    return int.from_bytes(digest[:8], "little") or 1


def _alike(input: Any, output: Any) -> tuple[Memory, Memory]:
    """The memory of two buffers with the same elements."""
    source, target = memory(input), memory(output)
    if source.element != target.element:
        raise refusal("input and output have different elements", f"{source.element}, {target.element}", "the same")
    return source, target
