"""The communicator: joins ranks, and runs collectives between them."""

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
from syncline.runtime.memory import Memory, memory, refusal
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
"""Default port at which rank 0 listens for the others."""


LOG = logging.getLogger("syncline")


def _announced(announce: Callable[[str], None] | None, known: str) -> Callable[[list[str]], None] | None:
    """Wraps ``announce``: replaces the host of rank 0's address by the name under which others know it."""
    if announce is None:
        return None

    def call(addresses: list[str]) -> None:
        announce(at_port(known, int(addresses[0].rpartition(":")[2])))

    return call


@dataclass(frozen=True)
class PlanChoice:
    """The choice of plans and the description of the network, as given to :meth:`Communicator.join`."""

    rules: Sequence[Rule]
    order: Sequence[int] | None
    of: Sequence[int] | None
    """The rack of each rank."""
    network: Network = field(default_factory=Network)

    def plain(self, world: int) -> dict[str, Any]:
        """Returns the choice as data for the core, for ``world`` ranks."""
        if self.of is not None:
            if self.order is not None:
                raise refusal("the order of ranks is given twice", "order and racks", "one of them")
            check(self.rules, self.of)

        def way(rule: Rule) -> dict[str, Any]:
            # The core computes the group size, because only it knows which ranks take part.
            named = {"algorithm": BY_RACK, "by_rack": True} if self.of is not None and by_rack(rule) else {}
            return asdict(rule) | named

        return {
            "rules": [way(rule) for rule in self.rules],
            "network": self.network.plain(),
            "order": list(range(world) if self.order is None else self.order),
            "racks": None if self.of is None else list(self.of),
        }


class Pending:
    """An operation that is under way. Do not touch its buffers until it is over."""

    def __init__(self, inner: _core.Pending) -> None:
        self._inner = inner

    def done(self) -> bool:
        """Returns whether the operation is over."""
        return self._inner.done()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the operation is over, at most ``seconds``, and returns whether it is.

        Raises ``SynclineError`` (SL1202, exit status 6) if a peer, a link or the deadline made it fail. All ranks get
        the same error.
        """
        return self._inner.wait(seconds)

    def then(self, callback: Callback) -> None:
        """Calls ``callback`` once the operation is over, with ``None`` or with its ``SynclineError``.

        Callbacks run one after the other on a thread of their own, so they should not take long. An exception in a
        callback goes to ``threading.excepthook``. If the operation is over already, the callback is called soon.
        """
        completions.begin()
        self._inner.then(callback)

    @property
    def source(self) -> int | None:
        """The rank at the other side of a transfer that has succeeded; ``None`` before that, and for collectives."""
        return self._inner.source()

    def withdraw(self) -> None:
        """Cancels a receive. It fails, unless part of the message has arrived already.

        Sends and collectives cannot be withdrawn.
        """
        self._inner.withdraw()


class Communicator:
    """A rank's handle on a job or group. All ranks must begin the same operations in the same order."""

    def __init__(self, core: _core.Communicator, deadline_s: float, choice: PlanChoice, world: int) -> None:
        self._core = core
        self._choice = choice
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
        """Joins a job, and returns once all its ranks have joined.

        Without ``rank`` and ``world``, those of the environment apply (``RANK``, ``WORLD_SIZE``). Rank 0 coordinates
        the job at ``coordinator`` (``MASTER_ADDR``, default port 29410). The other ranks try all addresses of that
        name; rank 0 listens at all of them that it has, or at ``listen`` (``SYNCLINE_LISTEN``).

        ``interfaces`` are this host's addresses (``SYNCLINE_ADDRESSES``, by default loopback only). Lanes use them in
        turn: each lane listens at its address and connects from it. Give ``ADDRESS@LISTEN`` if other hosts reach the
        interface at ``ADDRESS`` rather than at its own address ``LISTEN``. ``ports`` (``SYNCLINE_PORTS``, such as
        ``29500-29599``) limits the ports at which this rank listens.

        The first of ``rules`` that fits selects the plan of a collective. If none fits, the quickest plan on
        ``network`` runs. ``order`` lists the ranks in the order in which plans number them: it makes them neighbours in
        a ring and members of a group. ``racks`` replaces ``order``: it gives the rack of each rank, as a list, or as a
        file that lists the ranks of one rack in each line. Plans then number the ranks of a rack consecutively, and the
        plan ``two_level`` uses racks as its groups unless its rule gives a group size. ``congestion`` names the TCP
        congestion control; the default is the system's.

        Two ranks share memory if they are on one machine: they listen at the same address or at loopback addresses,
        run as one user in one network namespace, and both allow it (``shared_memory``). All others connect by TCP.
        :attr:`transports` shows the result.

        With ``pin`` each lane's thread gets a CPU to itself, if there are enough: each rank on this machine gets an
        equal share of the CPUs that it may use, and leaves one CPU of its share free. :attr:`cpus` lists the CPUs.

        With port 0, rank 0 listens at any free port and calls ``announce`` with its address (``HOST:PORT``), which the
        caller must pass on to the other ranks. With a ``rendezvous``, ranks find each other through it: at an address
        of rank 0's first interface, unless ``coordinator`` names another. They then share a new key that only this
        group has; with ``tls`` they use certificates instead.

        To join ranks beyond this machine, a job needs one of:

        - ``tls``: certificates of the job's CA, which ranks show each other (a folder that ``syncline hub certs`` made,
          or :class:`~syncline.runtime.Certificates`). Data is encrypted, and cannot be changed on its way.
        - ``key_file``: a key of 32 bytes that ranks prove to share, in a file that only its owner may read. It keeps
          strangers out of the job. Data is neither encrypted nor protected from anyone who can inject packets.
        - ``insecure``: the user's word that neither is needed.

        An ``elastic`` job can go on after it loses ranks, and can take them back: see :meth:`renew`. All ranks must set
        it. A rank that joins such a job late waits until the others begin a new epoch with it; :attr:`ranks` lists the
        ranks that take part.

        A rank that waits for others for more than three seconds logs a warning with their numbers to the logger
        ``syncline``.

        Raises ``SynclineError`` if the ranks do not all join in time (SL1201, exit status 6), or an argument is
        invalid.
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
        choice = PlanChoice(rules, order, None if racks is None else of_ranks(racks, world), network or Network())
        plans = choice.plain(world)
        key = trust.secret(key_file, tls, names=(f"rank-{rank}", "rank"))
        shared = key if isinstance(key, bytes) else None
        if elastic and rendezvous is not None:
            # A rendezvous wipes the key once ranks have met, so a restarted rank could not join.
            raise refusal("an elastic job cannot use a rendezvous", "rendezvous and elastic", "coordinator and elastic")
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
                raise refusal("only rank 0 listens for the others", f"rank={rank}, listen={listen}", "interfaces")
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
                announced = _announced(announce, known)
                core = _core.Communicator.join(json.dumps(member, allow_nan=False), key, announced, LOG.warning)
            except ValueError as error:
                raise refusal("invalid arguments for a rank", str(error), "see Communicator.join") from None
        if rendezvous is not None and rank != 0:
            try:
                meeting.wipe(rendezvous, rank)
            except Exception as error:
                core.close()
                raise meeting.failure(f"rank {rank} cannot wipe its key from the rendezvous: {error}") from error
        return cls(core, (pace or Pace()).deadline_s, choice, world)

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._core.rank

    @property
    def world(self) -> int:
        """The number of ranks that take part."""
        return self._core.world

    @property
    def ranks(self) -> list[int]:
        """For each rank that takes part, in the order of :attr:`rank`: its number when the job began.

        Errors name ranks by these numbers. They differ from :attr:`rank` once an elastic job has lost ranks.
        """
        return self._core.ranks

    @property
    def epoch(self) -> int:
        """The number of the current epoch of an elastic job, from 0."""
        return self._core.epoch

    @property
    def waiting(self) -> list[int]:
        """Ranks that wait for the next epoch, as far as this rank knows, such as restarted ones."""
        return self._core.waiting()

    @property
    def transports(self) -> dict[int, str]:
        """The transport to each other rank: ``shared memory``, ``TCP`` or ``TLS``, and why no faster one is used."""
        return self._core.transports()

    @property
    def cpus(self) -> list[int]:
        """The CPU that each lane's thread has to itself; empty if there are too few, and the system chooses."""
        return self._core.cpus()

    def all_reduce(self, buffer: Any, reduction: str = "sum", *, in_order: bool = False, keep: bool = False) -> Pending:
        """Combines the vectors of all ranks, in place.

        With ``in_order`` contributions are combined in the same order every time, so results are reproducible bit for
        bit. With ``keep`` the buffer is unchanged if the operation fails.
        """
        held = memory(buffer)
        return self._begin("all_reduce", held, held, reduction, in_order=in_order, keep=keep)

    def reduce_scatter(self, input: Any, output: Any, reduction: str = "sum", *, in_order: bool = False) -> Pending:
        """Combines the vectors of all ranks; each gets its block of the result."""
        source, target = _alike(input, output)
        return self._begin("reduce_scatter", source, target, reduction, in_order=in_order)

    def all_gather(self, input: Any, output: Any) -> Pending:
        """Gives every rank the vectors of all ranks, concatenated."""
        source, target = _alike(input, output)
        return self._begin("all_gather", source, target)

    def all_to_all(self, input: Any, output: Any) -> Pending:
        """Sends block ``i`` of each rank's vector to rank ``i``."""
        source, target = _alike(input, output)
        return self._begin("all_to_all", source, target)

    def broadcast(self, buffer: Any, root: int = 0) -> Pending:
        """Gives every rank the vector of ``root``."""
        held = memory(buffer)
        return self._begin("broadcast", held, held, root=root)

    def reduce(self, buffer: Any, root: int = 0, reduction: str = "sum", *, in_order: bool = False) -> Pending:
        """Combines the vectors of all ranks at ``root``, in place; the vectors of the other ranks do not change."""
        held = memory(buffer)
        output = held if self.rank == root else None
        return self._begin("reduce", held, output, reduction, root=root, in_order=in_order)

    def send(self, buffer: Any, to: int, tag: int = 0, *, space: int = 0) -> Pending:
        """Sends the bytes of a buffer to a rank, which must receive the same number under the same tag.

        Messages with one tag are received in the order in which they were sent. Messages of at most 64 KiB are kept for
        a receiver that does not wait for them yet, up to 1 MiB from one rank; their sends do not wait for the receiver.
        Every other send is over once its message has been received. A rank may have 4,096 messages under way to another
        rank that this one has not begun to receive, over all groups and tags; further ones wait behind them. A
        ``space`` other than 0 belongs to one collective of the caller, and contains only messages that match each
        other.

        Messages use the connections and the deadline of collectives. If a rank does not receive a message in time, it
        is at fault and the job fails.
        """
        held = memory(buffer)
        return self._transfer(lambda: self._core.send(held, to, space, tag))

    def receive(self, buffer: Any, source: int | None = None, tag: int = 0, *, space: int = 0) -> Pending:
        """Receives a message that fills the buffer, from ``source`` or from any rank (:attr:`Pending.source`).

        If the message has another size, this operation fails, and so does the send; the job goes on. (In space 0, the
        send of a message of at most 64 KiB may have succeeded before.)
        """
        held = memory(buffer)
        return self._transfer(lambda: self._core.receive(held, source, space, tag))

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
        """Makes a group of some ranks, over the job's connections and threads: it opens none of its own.

        All its members must make it, with the same ranks in the same order and the same ``name``. The name must differ
        from the names of the groups that this rank has open. A name may be used again once its group is closed, if all
        members make the groups of that name in the same order. Members do not wait for each other here: operations of
        the group begin once all members have made it. Ranks of the group are numbered from 0 in the order of ``ranks``;
        ``order`` and ``racks`` use these numbers.

        If a rank is lost or misses a deadline, in any group, the whole job fails. If a member closes a group that the
        others still need, the group fails and nothing else.
        """
        members = [int(rank) for rank in ranks]
        of = None if racks is None else of_ranks(racks, len(members))
        choice = PlanChoice(rules, order, of, self._choice.network)
        deadline_s = self._deadline_s if deadline_s is None else deadline_s
        plans = json.dumps(choice.plain(len(members)))
        try:
            core = self._core.group(_number(name, members), members, plans, deadline_s)
        except (ValueError, OverflowError) as error:
            raise refusal("the group is invalid", str(error), "see Communicator.group") from None
        return type(self)(core, deadline_s, choice, len(members))

    def set_deadline(self, deadline_s: float) -> None:
        """Sets how many seconds operations that begin from now on may take; those under way keep their deadlines.

        Raises ``SynclineError`` (SL0102) unless ``deadline_s`` is greater than 0, and at most ten years.
        """
        self._core.set_deadline(deadline_s)
        self._deadline_s = deadline_s

    @property
    def kept(self) -> dict[str, int]:
        """Bytes that have arrived before this rank needs them.

        ``early`` belong to collectives that other ranks have begun before this one, ``most_early`` is the maximum of
        ``early`` so far, and ``messages`` belong to messages that this rank has not received yet.
        """
        early, most_early, messages = self._core.kept()
        return {"early": early, "most_early": most_early, "messages": messages}

    def barrier(self) -> Pending:
        """Begins a barrier, which is over once every rank has begun it."""
        return self.all_reduce(bytearray(1), "max", keep=True)

    def _begin(
        self,
        kind: str,
        input: Memory,
        output: Memory | None,
        reduction: str = "sum",
        *,
        root: int = 0,
        in_order: bool = False,
        keep: bool = False,
    ) -> Pending:
        try:
            pending = self._core.begin(kind, reduction, root, in_order, input, output, keep)
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
        """Begins a new epoch of an elastic job, with the ranks that are left and those that came back.

        Every rank that goes on must call this at the same step of its work: after an operation has failed; or between
        two steps, to let in the ranks that are :attr:`waiting` or to change plans. Operations under way fail. The call
        waits up to ``wait_s`` for lost ranks to come back; by default it does not wait. If two ranks are both alive but
        cannot reach each other, the lower one stays in the job.

        Afterwards this communicator has only the ranks of the new epoch, numbered from 0 without gaps: see
        :attr:`rank`, :attr:`world` and :attr:`ranks`. ``rules``, ``order`` and ``racks`` are as in :meth:`join`, and
        use the numbers that ranks had when the job began; without them the previous ones stay in force. A rule whose
        plan cannot run on the remaining ranks is skipped with a warning. For example, ``two_level`` cannot use racks as
        groups once two racks have lost ranks and racks differ in size.

        Raises ``SynclineError`` (SL1201, exit status 6) if no new epoch can begin with this rank: rank 0, the
        coordinator, is lost, or this rank was left behind. The rank has left the job then. Raises ``SynclineError``
        (SL0102), and changes nothing, if the job is not elastic, or if an operation failed whose input was not kept
        (``keep=True``).
        """
        before = self._choice
        of: Sequence[int] | None = None if racks is None else of_ranks(racks, self._whole)
        if order is None and of is None:
            order, of = before.order, before.of
        choice = PlanChoice(before.rules if rules is None else rules, order, of, before.network)
        try:
            self._core = self._core.renew(json.dumps(choice.plain(self._whole)), wait_s)
        except ValueError as error:
            remedy = "join with `elastic=True`, and begin operations with `keep=True`"
            raise refusal("no new epoch can begin", str(error), remedy) from None
        self._choice = choice
        self._warn()

    def _warn(self) -> None:
        """Warns about rules that are skipped because their plans cannot run on these ranks."""
        for plan in self._core.left_out:
            message = (
                f"`{plan}` cannot run on {self.world} ranks: the next rule that fits applies, or else the quickest plan"
            )
            warnings.warn(message, stacklevel=3)

    def fault(self) -> SynclineError | None:
        """Returns the error that ended an operation, or would end the next one; ``None`` while operations can begin."""
        return self._core.fault()

    def close(self) -> None:
        """Leaves the job or group. Operations under way fail."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _number(name: str, ranks: Sequence[int]) -> int:
    """Returns the number of a group: the same on all its members, and different for each group."""
    digest = hashlib.sha256(json.dumps([name, list(ranks)]).encode()).digest()
    return int.from_bytes(digest[:8], "little") or 1


def _alike(input: Any, output: Any) -> tuple[Memory, Memory]:
    """Returns the memory of two buffers, which must have the same element type."""
    source, target = memory(input), memory(output)
    if source.element != target.element:
        raise refusal(
            "input and output have different element types", f"{source.element}, {target.element}", "the same"
        )
    return source, target
