"""Joins a rank to a job: finds the other ranks and the key that they share, and connects to them."""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.input.problem import bad_value
from syncline.runtime import congestion_control
from syncline.runtime.addresses import Interface, at_port, listening, port_range, resolve_all, with_port
from syncline.runtime.beacon import Beacon, is_running
from syncline.runtime.plan_data import for_core
from syncline.runtime.rendezvous import Answers, Contact, Meeting, look, meeting_error, wipe
from syncline.runtime.security import KEY_BYTES, Security

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.runtime.rendezvous import Rendezvous
    from syncline.runtime.security import Secret
    from syncline.runtime.settings import Plans, Resources, TimeLimits

PORT = 29_410
"""Default port at which rank 0 listens for the others."""


LOG = logging.getLogger("syncline")


@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """The arguments of ``Communicator.join``, with what the environment adds."""

    rank: int
    world: int
    coordinator: str | None
    job: str
    elastic: bool
    meeting: Meeting
    security: Security
    plans: Plans
    """Racks are a list."""
    resources: Resources
    limits: TimeLimits


@dataclass(frozen=True, kw_only=True)
class _Approach:
    """How a rank gets into contact with the others."""

    coordinator: str | None
    """The address of the coordinator; ``None`` for the one in the environment."""
    coordinator_rank: int
    """The rank in whose process the coordinator runs."""
    listen: str | None
    """The address at which rank 0 listens, if it is not that of the coordinator."""
    announce: Callable[[str], None] | None
    key: Secret | None
    shared: bytes
    """The key that ranks share through the rendezvous; empty without one."""
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class _Member:
    """What the core needs to know of a rank to let it join, beside its resources and time limits."""

    rank: int
    world: int
    job: str
    coordinator: list[str]
    """Addresses with ports at which the coordinator listens, or at which the other ranks try to reach it."""
    coordinator_rank: int
    interfaces: list[tuple[str, str]]
    """For each interface, the address that other ranks connect to, and the one that this rank listens on."""
    ports: tuple[int, int] | None
    elastic: bool
    plans: dict[str, Any]


def join(options: JoinOptions) -> tuple[_core.Communicator, Beacon | None]:
    """Joins a job, and returns once all its ranks have joined.

    Also returns what keeps an elastic job findable in its rendezvous, if it has one. Raises ``SynclineError`` if the
    ranks do not all join in time, or an option is invalid.
    """
    rank, meeting = options.rank, options.meeting
    interfaces = _interfaces(meeting)
    ports = port_range(os.environ.get("SYNCLINE_PORTS") if meeting.ports is None else meeting.ports)
    congestion_control.check(options.resources.congestion)
    plans = for_core(options.plans, options.world)
    key = options.security.secret((f"rank-{rank}", "rank"))
    with ExitStack() as stack:
        approach = _approach(options, interfaces, key, stack)
        known = approach.coordinator or os.environ.get("MASTER_ADDR", "127.0.0.1")
        where = _addresses(rank, approach, known, interfaces)
        member = _Member(
            rank=rank,
            world=options.world,
            job=options.job,
            coordinator=[with_port(host, port) for host, port in where],
            coordinator_rank=approach.coordinator_rank,
            interfaces=[(each.advertised, each.listen) for each in interfaces],
            ports=ports,
            elastic=options.elastic,
            plans=plans,
        )
        limits = replace(options.limits, wait_s=approach.wait_s)
        data = {**asdict(member), **asdict(options.resources), **asdict(limits)}
        announced = _announced(approach.announce, known)
        try:
            options.security.check([*(each.listen for each in interfaces), *(host for host, _ in where)], approach.key)
            core = _core.Communicator.join(json.dumps(data, allow_nan=False), approach.key, announced, LOG.warning)
        except ValueError as error:
            raise bad_value(
                "invalid arguments for a rank", str(error), help="Communicator.join describes its arguments"
            ) from None
    if meeting.rendezvous is None:
        return core, None
    if rank != approach.coordinator_rank:
        try:
            wipe(meeting.rendezvous, rank)
        except Exception as error:
            core.close()
            raise meeting_error(f"rank {rank} cannot wipe its key from the rendezvous: {error}") from error
    if not options.elastic:
        return core, None
    contact = Contact(coordinator=known, rank=approach.coordinator_rank, key=approach.shared)
    return core, Beacon(meeting.rendezvous, rank, options.world, contact)


def _interfaces(meeting: Meeting) -> list[Interface]:
    """Returns the interfaces of this host that the rank uses."""
    own = os.environ.get("SYNCLINE_ADDRESSES", "127.0.0.1").split(",")
    return [Interface.read(each) for each in (own if meeting.interfaces is None else meeting.interfaces) if each]


def _approach(options: JoinOptions, interfaces: Sequence[Interface], key: Secret | None, stack: ExitStack) -> _Approach:
    """Returns how the rank gets into contact, which it learns from the rendezvous if there is one.

    Rank 0 answers the others through the rendezvous until ``stack`` ends, unless it is to join a job that runs.
    """
    rank, meeting, rendezvous = options.rank, options.meeting, options.meeting.rendezvous
    approach = _Approach(
        coordinator=options.coordinator,
        coordinator_rank=0,
        listen=os.environ.get("SYNCLINE_LISTEN") if meeting.listen is None and rank == 0 else meeting.listen,
        announce=meeting.announce,
        key=key,
        shared=b"",
        wait_s=options.limits.wait_s,
    )
    if rendezvous is None:
        return approach
    if options.security.key_file is not None:
        raise bad_value("a rendezvous brings its own key", "rendezvous and key_file", allowed="one of them")
    began = time.monotonic()
    if rank != 0 or (options.elastic and _runs(rendezvous, options.limits.silence_s)):
        contact = look(rendezvous, rank, approach.wait_s, rings=options.elastic)
        return replace(
            approach,
            coordinator=contact.coordinator,
            coordinator_rank=contact.rank,
            listen=meeting.listen if rank != 0 else None,
            key=key or contact.key,
            shared=contact.key,
            wait_s=max(approach.wait_s - (time.monotonic() - began), 1.0),
        )
    shared = secrets.token_bytes(KEY_BYTES)
    answers = stack.enter_context(Answers(rendezvous, options.world, shared))
    approach = replace(approach, announce=answers.begin, key=key or shared, shared=shared)
    if approach.coordinator:
        return approach
    first = interfaces[0] if interfaces else Interface("127.0.0.1", "127.0.0.1")
    listen = approach.listen or with_port(first.listen, 0)
    return replace(approach, coordinator=with_port(first.advertised, 0), listen=listen)


def _runs(rendezvous: Rendezvous, silence_s: float) -> bool:
    try:
        return is_running(rendezvous, silence_s)
    except Exception as error:
        raise meeting_error(f"rank 0 cannot use the rendezvous: {error}") from error


def _addresses(
    rank: int, approach: _Approach, coordinator: str, interfaces: Sequence[Interface]
) -> list[tuple[str, int]]:
    """Returns the addresses at which the coordinator listens, or at which the other ranks try to reach it."""
    if rank == approach.coordinator_rank:
        return listening(coordinator, PORT, interfaces, approach.listen)
    if approach.listen is not None:
        found = f"rank={rank}, listen={approach.listen}"
        raise bad_value("only rank 0 listens for the others", found, help="give it `interfaces` instead")
    return resolve_all(coordinator, PORT)


def _announced(announce: Callable[[str], None] | None, known: str) -> Callable[[list[str]], None] | None:
    """Wraps ``announce``: replaces the host of rank 0's address by the name under which others know it."""
    if announce is None:
        return None

    def call(addresses: list[str]) -> None:
        announce(at_port(known, int(addresses[0].rpartition(":")[2])))

    return call
