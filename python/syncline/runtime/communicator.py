"""The communicator: joins ranks, and runs collectives between them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from syncline.errors import SynclineError
from syncline.input.problem import bad_value
from syncline.runtime import at_exit, completions, joining, signals, trace
from syncline.runtime.addresses import setting
from syncline.runtime.groups import finder
from syncline.runtime.joining import JoinOptions
from syncline.runtime.memory import Memory, memory
from syncline.runtime.plan_data import for_core, from_core, with_racks
from syncline.runtime.rendezvous import Meeting
from syncline.runtime.security import Security
from syncline.runtime.settings import Plans, Resources, TimeLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline import _core
    from syncline.input.words import Collective, Reduction
    from syncline.runtime.beacon import Beacon
    from syncline.runtime.completions import Callback
    from syncline.runtime.groups import Groups
    from syncline.runtime.settings import Rule
    from syncline.runtime.signals import Connection, OperationTimes
    from syncline.runtime.trace import Recording


MAX_PROPOSAL = 1_000_000
"""Most bytes of plans that are sent to all ranks of a running job."""
_log = logging.getLogger("syncline")


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


@dataclass(frozen=True)
class PlanChange:
    """A change of plans that was decided."""

    edition: int
    """The number of the new plans, from 1."""
    proposer: int
    """The rank that proposed them, by its number when the job began."""
    first: int | None
    """The first operation that runs by them, counting from 1; ``None`` if all ranks keep their plans."""
    refusal: str | None
    """Why all ranks keep their plans; ``None`` if they do not."""


class Communicator:
    """A rank's handle on a job or group. All ranks must begin the same operations in the same order."""

    def __init__(self, core: _core.Communicator, deadline_s: float, plans: Plans, world: int) -> None:
        self._core = core
        self._plans = plans
        self._whole = world
        self._adopted: tuple[int, Plans] | None = None
        self._groups: dict[int, str] = {}
        self._tuned: tuple[Rule, ...] = ()
        """Rules that a tuner has put into the plans in force."""
        self._deadline_s = deadline_s
        self._beacon: Beacon | None = None
        """Keeps an elastic job findable in its rendezvous."""
        at_exit.register(self)
        self._warn()

    @classmethod
    def join(
        cls,
        rank: int | None = None,
        world: int | None = None,
        coordinator: str | None = None,
        *,
        job: str = "job",
        elastic: bool = False,
        meeting: Meeting | None = None,
        security: Security | None = None,
        plans: Plans | None = None,
        groups: Groups | None = None,
        resources: Resources | None = None,
        limits: TimeLimits | None = None,
    ) -> Self:
        """Joins a job, and returns once all its ranks have joined.

        Without ``rank`` and ``world``, those of the environment apply (``RANK``, ``WORLD_SIZE``). Rank 0 coordinates
        the job at ``coordinator`` (``MASTER_ADDR``, default port 29410). The other ranks try all addresses of that
        name. ``job`` is a name that all ranks of the job give.

        Five objects hold the options:

        - ``meeting``: where ranks listen, and how they find each other without the address of rank 0;
        - ``security``: certificates or a key. A job that other machines can reach needs either, or ``insecure=True``;
        - ``plans``: rules that select plans, the network, and the order or racks of ranks;
        - ``resources``: threads, windows, shared memory, CPUs; :attr:`transports` and :attr:`cpus` show the result;
        - ``limits``: how long to wait for ranks and operations.

        With ``groups="probe"``, ranks measure round trips and rates between each other for some seconds, find which of
        them share a rack, simulate plans on the measured network, try the best ones and keep the fastest. That needs
        the extra ``group``. A rank that comes back to an elastic job does not probe. ``groups`` may also be a function,
        which all ranks call with the new communicator.

        An ``elastic`` job can go on after it loses ranks, and can take them back: see :meth:`renew`. All ranks must set
        it. A rank that joins such a job late waits until the others begin a new epoch with it; :attr:`ranks` lists the
        ranks that take part.

        A rank that waits for others for more than three seconds logs a warning with their numbers to the logger
        ``syncline``.

        Raises ``SynclineError`` if the ranks do not all join in time (SL1201, exit status 6), an argument is invalid,
        or ``groups`` needs a package that is not installed (SL0902).
        """
        find_groups = None if groups is None else finder(groups)
        rank = setting(os.environ, "RANK", rank)
        world = setting(os.environ, "WORLD_SIZE", world)
        options = JoinOptions(
            rank=rank,
            world=world,
            coordinator=coordinator,
            job=job,
            elastic=elastic,
            meeting=meeting or Meeting(),
            security=security or Security(),
            plans=with_racks(plans or Plans(), world),
            resources=resources or Resources(),
            limits=limits or TimeLimits(),
        )
        core, beacon = joining.join(options)
        joined = cls(core, options.limits.deadline_s, options.plans, world)
        if beacon is not None:
            joined._beacon = beacon
            beacon.shine(core)
        # A rank that comes back finds the others at work.
        if find_groups is not None and joined.epoch == 0:
            try:
                find_groups(joined)
            except BaseException:
                joined.close()
                raise
        return joined

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
        """The transport to each rank that is connected: ``shared memory``, ``TCP`` or ``TLS``, and why no faster one.

        In a job of more than 32 ranks, ranks connect when they first need it.
        """
        return self._core.transports()

    @property
    def cpus(self) -> list[int]:
        """The CPU that each lane's thread has to itself; empty if there are too few, and the system chooses."""
        return self._core.cpus()

    def all_reduce(
        self, buffer: Any, reduction: Reduction = "sum", *, in_order: bool = False, keep: bool = False
    ) -> Pending:
        """Combines the vectors of all ranks, in place.

        With ``in_order`` contributions are combined in the same order every time, so results are reproducible bit for
        bit. With ``keep`` the buffer is unchanged if the operation fails.
        """
        held = memory(buffer)
        return self._begin("all_reduce", held, held, reduction, in_order=in_order, keep=keep)

    def reduce_scatter(
        self, input: Any, output: Any, reduction: Reduction = "sum", *, in_order: bool = False
    ) -> Pending:
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

    def reduce(self, buffer: Any, root: int = 0, reduction: Reduction = "sum", *, in_order: bool = False) -> Pending:
        """Combines the vectors of all ranks at ``root``, in place; the vectors of the other ranks do not change."""
        held = memory(buffer)
        output = held if self.rank == root else None
        return self._begin("reduce", held, output, reduction, root=root, in_order=in_order)

    def send(self, buffer: Any, to: int, tag: int = 0, *, space: int = 0) -> Pending:
        """Sends the bytes of a buffer to a rank, which must receive the same number under the same tag.

        Messages with one tag are received in the order in which they were sent. Messages of at most 64 KiB are kept for
        a receiver that does not wait for them yet, up to 1 MiB from one rank; their sends do not wait for the receiver.
        Every other send is over once the receiver waits for the message and the last byte has been handed to the
        system, which may still be sending it. A rank may have 4,096 messages under way to another
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
            remedy = "Communicator.send and Communicator.receive describe their arguments"
            raise bad_value("the message is invalid", str(error), help=remedy) from None

    def group(
        self,
        ranks: Sequence[int],
        name: str,
        *,
        plans: Plans | None = None,
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
        plans = with_racks(plans or Plans(), len(members))
        # That of the epoch, which all ranks know alike.
        plans = replace(plans, network=plans.network or self._plans.network)
        deadline_s = self._deadline_s if deadline_s is None else deadline_s
        asked = json.dumps(for_core(plans, len(members)))
        try:
            core = self._core.group(_number(name, members), members, asked, deadline_s)
        except (ValueError, OverflowError) as error:
            raise bad_value(
                "the group is invalid", str(error), help="Communicator.group describes its arguments"
            ) from None
        self._groups[core.id()] = name
        return type(self)(core, deadline_s, plans, len(members))

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

    @property
    def connections(self) -> list[Connection]:
        """The traffic with each other rank on each lane, and what the kernel knows about TCP connections.

        Empty for a group, which uses the connections of its job.
        """
        return signals.connections(self._core.connections())

    def record(self, *, on: bool) -> Recording:
        """Begins to record the collectives of this job and its groups on this rank, or ends it.

        Returns those that were recorded before: at most 1,048,576, each once it has succeeded. See :mod:`.trace`.

        Raises ``SynclineError`` (SL0102) for a group: its job records its collectives, too.
        """
        self.require_job("record collectives")
        now = time.monotonic()
        rows, left_out = self._core.record(on)
        return trace.recording(rows, left_out, self._groups, now)

    def require_job(self, what: str) -> None:
        """Raises ``SynclineError`` (SL0102) if this is a group, which cannot do ``what``."""
        if self._core.id():
            help = "use the communicator of the job"
            raise bad_value(f"a group cannot {what}", "a group", allowed="the communicator of the job", help=help)

    @property
    def operation_times(self) -> list[OperationTimes]:
        """How long the collectives of this job or group took so far, by kind and size."""
        return signals.operation_times(self._core.operation_times())

    def barrier(self) -> Pending:
        """Begins a barrier, which is over once every rank has begun it."""
        return self.all_reduce(bytearray(1), "max", keep=True)

    def _begin(
        self,
        kind: Collective,
        input: Memory,
        output: Memory | None,
        reduction: Reduction = "sum",
        *,
        root: int = 0,
        in_order: bool = False,
        keep: bool = False,
    ) -> Pending:
        try:
            pending = self._core.begin(kind, reduction, root, in_order, input, output, keep)
        except ValueError as error:
            remedy = "each method of Communicator describes its arguments"
            raise bad_value("the operation is invalid", str(error), help=remedy) from None
        return Pending(pending)

    @property
    def plans(self) -> Plans:
        """The plans in force, as far as this rank knows. Racks are a list."""
        known = self._adopted
        edition = self._core.edition()
        if edition and (known is None or known[0] != edition):
            adopted = self._core.adopted_plans()
            # The communicator may have been closed meanwhile.
            known = self._adopted = None if adopted is None else (adopted[0], from_core(json.loads(adopted[1])))
        return known[1] if edition and known is not None else self._plans

    @property
    def edition(self) -> int:
        """The number of the plans in force: 0 when an epoch begins; a change of plans increases it."""
        return self._core.edition()

    @property
    def begun(self) -> int:
        """How many collectives of this job or group this rank has begun, in this epoch."""
        return self._core.begun()

    def change_plans(self, plans: Plans) -> int:
        """Changes the plans of all ranks of this job or group, while operations go on.

        One rank calls this; the others need not. All ranks prepare the new plans, then run operations by them from the
        same operation on: its number, counting from 1, is returned. Operations under way, and those before that number,
        run by the old plans. Connections, threads and memory stay as they are. Without a network of their own, the new
        plans use the present one. Ranks have the numbers with which the job began, or in a group their places in it.
        The call returns once the ranks have decided, which takes two seconds if one does not answer.

        Any rank can watch changes with :attr:`plans` and :attr:`plan_changes`.

        Sums of floats may differ in their last digits between two plans, also with ``in_order``.

        Raises ``SynclineError`` (SL0102, SL0401) if the plans are invalid; and (SL1203, exit status 6) if all ranks
        keep their plans, because a rank cannot run the new ones, did not confirm them within two seconds, or has left;
        or because another proposal is under way.
        """
        plans = with_racks(plans, self._whole)
        plans = replace(plans, network=plans.network or self.plans.network)
        asked = json.dumps(for_core(plans, self._whole))
        if len(asked) > MAX_PROPOSAL:
            found = f"{len(asked) / 1e6:.1f} MB"
            help = "use plans of the library, or give the plan to all ranks when they join"
            raise bad_value("the plans are too long to be sent to all ranks", found, allowed="at most 1 MB", help=help)
        try:
            _, first = self._core.change_plans(asked)
        except (ValueError, OverflowError) as error:
            remedy = "Communicator.change_plans describes its arguments"
            raise bad_value("plans cannot be changed", str(error), help=remedy) from None
        return first

    @property
    def plan_changes(self) -> list[PlanChange]:
        """The last 1,024 proposals of plans on which the ranks decided, the oldest first.

        A proposal made while another one is under way is refused at once, and not listed.
        """
        return [PlanChange(*each) for each in self._core.plan_changes()]

    def renew(self, *, wait_s: float = 0.0, plans: Plans | None = None) -> None:
        """Begins a new epoch of an elastic job, with the ranks that are left and those that came back.

        Every rank that goes on must call this at the same step of its work: after an operation has failed; or between
        two steps, to let in the ranks that are :attr:`waiting` or to change plans. Operations under way fail. The call
        waits up to ``wait_s`` for lost ranks to come back; by default it does not wait. If two ranks are both alive but
        cannot reach each other, the lower one stays in the job.

        Afterwards this communicator has only the ranks of the new epoch, numbered from 0 without gaps: see
        :attr:`rank`, :attr:`world` and :attr:`ranks`. ``plans`` replace those of the job, and use the numbers that
        ranks had when the job began; without them, or without a network of theirs, the previous ones stay in force.
        Plans that :meth:`change_plans` set apply again some operations after the epoch has begun. To change a part of
        them, begin the epoch, and then call :meth:`change_plans` on one rank. A rule whose plan cannot run on the
        remaining ranks is skipped with a warning. For example, ``two_level`` cannot use racks as groups once two racks
        have lost ranks and racks differ in size.

        If the rank that coordinates the job is lost, the lowest rank that is left takes over. If ranks are silent, and
        so may live, only the larger part of the ranks goes on; of two equal parts, the one with the coordinator.

        Raises ``SynclineError`` (SL1201, exit status 6) if no new epoch can begin with this rank: it was left behind,
        or as many ranks as are here may go on elsewhere. The rank has left the job then. Raises ``SynclineError``
        (SL0102), and changes nothing, if the job is not elastic, or if an operation failed whose input was not kept
        (``keep=True``).
        """
        # All ranks begin the epoch with the plans of the program, also those that were restarted or have not heard of
        # the last change. Rank 0 then changes them again.
        self._core.settle_plans()
        adopted = self.plans if plans is None and self.edition else None
        if adopted is not None:
            # A tuner's rule may be that of a trial. The next tuner finds a better one.
            adopted = replace(adopted, rules=[rule for rule in adopted.rules if rule not in self._tuned])
        self._tuned = ()
        plans = self._plans if plans is None else with_racks(plans, self._whole)
        plans = replace(plans, network=plans.network or self._plans.network)
        try:
            self._core = self._core.renew(json.dumps(for_core(plans, self._whole)), wait_s)
        except ValueError as error:
            remedy = "join with `elastic=True`, and begin operations with `keep=True`"
            raise bad_value("no new epoch can begin", str(error), help=remedy) from None
        if self._beacon is not None:
            self._beacon.shine(self._core)
        self._plans, self._adopted = plans, None
        self._warn()
        if adopted is not None and self.rank == 0:
            self._adopt_again(adopted)

    def _adopt_again(self, plans: Plans) -> None:
        """Changes plans to those of the epoch before, without rules that cannot run on the ranks that are left."""
        while True:
            try:
                self.change_plans(plans)
            except SynclineError as problem:
                runnable = [rule for rule in plans.rules if self._runs(replace(plans, rules=[rule]))]
                if len(runnable) == len(plans.rules):
                    _log.warning("The changed plans of the epoch before do not apply any more: %s", problem)
                    return
                _log.warning("Rules of the epoch before do not apply to %d ranks any more", self.world)
                plans = replace(plans, rules=runnable)
            else:
                return

    def _runs(self, plans: Plans) -> bool:
        """Whether the plans can run on these ranks."""
        try:
            self._core.check_plans(json.dumps(for_core(plans, self._whole)))
        except (SynclineError, ValueError):
            return False
        return True

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
        if self._beacon is not None:
            self._beacon.close()
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
        raise bad_value(
            "input and output have different element types", f"{source.element}, {target.element}", allowed="the same"
        )
    return source, target
