"""Probes hosts: starts an agent on each, drives rounds of disjoint pairs, and collects what they measure.

A host that does not start, or fails later, is left out from then on; the others go on, and what was measured stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import resource
import secrets
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.distances import Measured, Pair
from syncline.input.problem import error, raise_errors
from syncline.probing.budget import PAIR_S, Costs, Plan, Wanted, plan
from syncline.probing.estimates import MIN_SAMPLES, of_samples, rate_of
from syncline.probing.launching import AgentError, Launch, Remote, remedy
from syncline.probing.outcome import HostFailure, Outcome, PairFailure
from syncline.probing.rounds import Turns
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from syncline.distances.hosts import Host
    from syncline.probing.rounds import MakeSchedule, Results

START_S = 20.0
"""Time for an agent to start, or half of the budget if that is less."""
AT_ONCE = 64
"""Agents that are started at the same time."""
PIPES, OTHER_FILES = 4, 256
"""Open files for each agent, at most, and for everything else."""
RESOLVE_S = 2.0
"""Time to look up the names of hosts."""
ALIVE_S, SILENCE_S = 10.0, 60.0
"""Interval of keep-alive orders, and the silence after which an agent ends."""
CONTACT_S = 5.0
"""Time that an agent may take to reach another one, and to find out why it does not, beyond its measurements."""
CLOSE_S = 0.3
"""The part of a budget that is kept for ending agents."""
CANCEL_S = 1.5
"""Time that agents have to answer once their measurement is cancelled."""
EXTRA_S = 5.0
"""Further time for a pair of slow hosts to get the least number of samples."""
STRANGERS = 3
"""A host that could not be measured with this many others, and with none at all, has failed."""
MIN_ECHO_S = 50e-6
"""An echo takes at least this long, most of it in Python."""


def probe(
    hosts: Sequence[Host],
    launch: Launch,
    schedule: MakeSchedule,
    wanted: Wanted,
    *,
    port: int = 0,
    tell: Callable[[float, str], None] = lambda _, __: None,
) -> Outcome:
    """Probes hosts. ``tell`` is called with the fraction done and what is done next.

    ``port`` is the UDP and TCP port at which agents listen; 0 for any free ones. Ctrl-C ends the probe early; the
    outcome then holds what was measured so far.

    :raises SynclineError: fewer than two hosts are given or start, or the budget is too short.
    :raises KeyboardInterrupt: Ctrl-C, before anything was measured.
    """
    if len(hosts) < 2:
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                "a probe needs at least 2 hosts",
                key="HOSTS",
                found=counted(len(hosts), "host"),
                help="name them: syncline probe HOST HOST ..; or list them in a file: --hosts FILE",
            )
        )
    _allow_files(len(hosts))
    coordinator = _Coordinator(list(hosts), launch, schedule, wanted, port, tell)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coordinator.run())
    return _in_a_thread(coordinator)


def _in_a_thread(coordinator: _Coordinator) -> Outcome:
    """Probes where an event loop runs already, as in a notebook."""
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(lambda: asyncio.run(coordinator.run()))
        while True:
            try:
                return outcome.result()
            except KeyboardInterrupt:
                if outcome.done():
                    raise
                coordinator.interrupt()


@dataclass
class _Member:
    """A host whose agent runs."""

    number: int
    """Its number in the host list."""
    host: Host
    remote: Remote
    bound: list[list[Any]] = field(default_factory=list)
    """Where it listens: for each address, the address, the UDP port and the TCP port."""
    own: str | None = None
    """The address that it uses itself, if that is known."""
    reached: str | None = None
    """The address at which others have reached it."""
    strangers: set[int] = field(default_factory=set)
    """Hosts with which nothing could be measured."""
    met: bool = False
    """Whether anything could be measured with any host."""


class _Ended(Exception):  # noqa: N818 - nothing is wrong
    """Ctrl-C, or the end of the budget."""


class _Coordinator:
    """One probe."""

    def __init__(
        self,
        hosts: list[Host],
        launch: Launch,
        schedule: MakeSchedule,
        wanted: Wanted,
        port: int,
        tell: Callable[[float, str], None],
    ) -> None:
        self._hosts = hosts
        self._launch = launch
        self._schedule = schedule
        self._wanted = wanted
        self._port = port
        self._tell = tell
        self._began = time.monotonic()
        budget_s = wanted.budget_s
        self._until = None if budget_s is None else self._began + budget_s - min(CLOSE_S, budget_s / 10)
        self._members: dict[int, _Member] = {}
        self._failures: dict[int, str] = {}
        self._pairs: dict[tuple[int, int], Pair] = {}
        self._missing: dict[tuple[int, int], str] = {}
        self._number = 0
        """Number of the last step. Agents ignore packets of earlier ones."""
        self._clocks: Counter[bool] = Counter()
        self._reordered = self._ignored = self._rounds = 0
        self._samples = 0
        self._interrupted = self._limited = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that probes, once it does."""

    def interrupt(self) -> None:
        """Ends the probe early, as Ctrl-C does. May be called from any thread."""
        self._interrupted = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def run(self) -> Outcome:
        """Probes; leaves nothing behind on hosts."""
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        with self._ctrl_c(), contextlib.suppress(_Ended):
            try:
                # From the start: logins to many hosts may take longer than agents wait for orders.
                beating = asyncio.create_task(self._keep_alive())
                try:
                    await self._start()
                    await self._measure()
                    await self._count_ignored()
                finally:
                    beating.cancel()
            finally:
                self._live()
                await asyncio.gather(*(each.remote.end() for each in self._members.values()))
        if not self._pairs:
            if self._interrupted:
                raise KeyboardInterrupt
            self._raise_nothing()
        return self._outcome()

    @contextlib.contextmanager
    def _ctrl_c(self) -> Iterator[None]:
        """Turns Ctrl-C into an early end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        before = signal.getsignal(signal.SIGINT)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)

    # Start.

    async def _start(self) -> None:
        """Starts agents on all hosts, and tells them the secret."""
        self._tell(0.0, f"starting agents on {counted(len(self._hosts), 'host')}")
        budget = self._wanted.budget_s
        within_s = START_S if budget is None else min(START_S, budget / 2)
        turns = asyncio.Semaphore(AT_ONCE)
        secret = secrets.token_hex(32)
        resolving = self._resolve()

        async def start(number: int, host: Host) -> None:
            async with turns:
                try:
                    remote = await Remote.start(self._launch.command(host.name, host.address), within_s)
                except AgentError as problem:
                    self._failures[number] = str(problem)
                    return
            member = self._members[number] = _Member(number, host, remote)
            addresses = _chosen(host, remote.hello["addresses"], (await resolving).get(host.name, []))
            member.own = addresses[0] if host.address or addresses == [host.name] else None
            try:
                answer = await remote.ask(
                    within_s,
                    order="begin",
                    secret=secret,
                    own=number,
                    addresses=addresses,
                    port=self._port,
                    silence_s=SILENCE_S,
                )
            except AgentError as problem:
                own = ", ".join(remote.hello["addresses"])
                self._failures[number] = f"{problem} (its addresses are {own})" if host.address else str(problem)
                return
            member.bound = answer["bound"]

        await self._unless_stopped(asyncio.gather(*(start(number, host) for number, host in enumerate(self._hosts))))
        if len(self._live()) < 2:
            self._raise_nothing()

    def _resolve(self) -> asyncio.Future[dict[str, list[str]]]:
        """Looks up the names of hosts that are given without an address. Names need not have one here."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[dict[str, list[str]]] = loop.create_future()
        names = [host.name for host in self._hosts if host.address is None and not _is_address(host.name)]
        found: dict[str, list[str]] = {}

        def finish() -> None:
            if not done.done():
                done.set_result(dict(found))

        def look() -> None:
            for name in names:
                with contextlib.suppress(OSError, UnicodeError):
                    got = socket.getaddrinfo(name.rpartition("@")[2], None, type=socket.SOCK_DGRAM)
                    found[name] = list(dict.fromkeys(str(each[4][0]) for each in got))
            with contextlib.suppress(RuntimeError):  # the probe is over
                loop.call_soon_threadsafe(finish)

        # A look-up cannot be interrupted, so nothing waits for this thread.
        threading.Thread(target=look, daemon=True).start()
        loop.call_later(RESOLVE_S, finish)
        return done

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_S)
            for each in self._live():
                each.remote.tell(order="alive")

    def _live(self) -> list[_Member]:
        """Returns the hosts whose agents run, in the order of the host list. Notes those that have failed since."""
        for number, each in self._members.items():
            if each.remote.gone is not None:
                self._failures.setdefault(number, each.remote.gone)
        return [each for number, each in sorted(self._members.items()) if number not in self._failures]

    # Rounds.

    async def _measure(self) -> None:
        """Goes through the rounds of the schedule."""
        members = self._live()
        schedule = self._schedule(len(members))
        turns = Turns(schedule)
        chosen: Plan | None = None
        results: Results = {}
        while (found := turns.next(results)) is not None:
            pairs = [(members[a], members[b]) for a, b in found]
            if chosen is None:
                chosen = plan(self._wanted, schedule.count, await self._try(pairs), self._left_s(), self._spent_s())
                self._samples = chosen.samples
            done = self._rounds / max(schedule.count, self._rounds + 1)
            self._tell(done, f"round {self._rounds + 1} of {max(schedule.count, self._rounds + 1)}")
            left_s = self._left_s()
            share_s = None if left_s is None else left_s / max(schedule.count - self._rounds, 1)
            await self._round(pairs, chosen, share_s)
            self._rounds += 1
            numbers = {member.number: at for at, member in enumerate(members)}
            results = {
                (numbers[a.number], numbers[b.number]): self._pairs[a.number, b.number]
                for a, b in pairs
                if (a.number, b.number) in self._pairs
            }

    async def _try(self, pairs: Sequence[tuple[_Member, _Member]]) -> Costs:
        """Measures the least possible, so that hosts know each other and the costs of the rest can be estimated."""
        self._tell(0.0, "first contact")
        began = time.monotonic()
        answers = await self._step(
            pairs,
            CONTACT_S + 2 * EXTRA_S,
            order="echo",
            count=MIN_SAMPLES,
            least=MIN_SAMPLES,
            time_s=1.0,
            limit_s=2.0,
        )
        whole = time.monotonic() - began
        good = [each for each in answers.values() if each.get("rtt_ns")]
        each_s = [each["took_s"] / (len(each["rtt_ns"]) + each["lost"]) for each in good]
        longest = max((each["took_s"] for each in good), default=0.0)
        # First contact takes longer than later steps, and says nothing of them if a pair had none.
        step_s = max(whole - longest, 0.0) if len(good) == len(pairs) else 0.0
        return Costs(max([MIN_ECHO_S, *each_s]), min(step_s, 0.1) + 0.005)

    async def _round(self, pairs: Sequence[tuple[_Member, _Member]], chosen: Plan, share_s: float | None) -> None:
        """Measures round trips of pairs, and after that rates."""
        if self._wanted.rtt:
            time_s = PAIR_S if share_s is None else max(share_s - chosen.rate_s, 0.01)
            answers = await self._step(
                pairs,
                time_s + EXTRA_S + CONTACT_S,
                order="echo",
                count=chosen.samples,
                least=MIN_SAMPLES,
                time_s=time_s,
                limit_s=time_s + EXTRA_S,
            )
            for (a, b), answer in answers.items():
                self._keep_round_trips(a, b, answer)
        if self._wanted.rate:
            answers = await self._step(
                pairs,
                chosen.rate_s + EXTRA_S + CONTACT_S,
                order="rate",
                time_s=chosen.rate_s,
                limit_s=chosen.rate_s + EXTRA_S,
            )
            for (a, b), answer in answers.items():
                self._keep_rate(a, b, answer)

    async def _step(
        self, pairs: Sequence[tuple[_Member, _Member]], within_s: float, **order: Any
    ) -> dict[tuple[int, int], dict[str, Any]]:
        """Lets all pairs measure at once; returns the answers of those whose two hosts still run."""
        self._number += 1
        number = self._number

        async def ask(a: _Member, b: _Member) -> tuple[tuple[int, int], dict[str, Any]] | None:
            with contextlib.suppress(AgentError):
                return (a.number, b.number), await a.remote.ask(
                    within_s, round=number, peer=b.number, to=b.bound, own=a.own, **order
                )
            return None

        live = {member.number for member in self._live()}
        able = [(a, b) for a, b in pairs if a.number in live and b.number in live]
        asked = asyncio.gather(*(ask(a, b) for a, b in able))
        answers = dict(each for each in await self._unless_stopped(asked) if each is not None)
        live = {member.number for member in self._live()}
        return {pair: answer for pair, answer in answers.items() if live.issuperset(pair)}

    async def _unless_stopped(self, work: asyncio.Future[Any]) -> Any:
        """Waits for work. Ctrl-C and the end of the budget end it early, and then the next work is not begun.

        Raises :class:`_Ended` instead of beginning work, and if work does not end at once.
        """
        if not self._ending():
            stopping = asyncio.ensure_future(self._stop.wait())
            try:
                await asyncio.wait({work, stopping}, timeout=self._left_s(), return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopping.cancel()
            if not work.done():
                self._limited = not self._interrupted
                for each in self._members.values():
                    each.remote.tell(order="cancel")
                # Agents end their measurements, and answer with what they have.
                await asyncio.wait({work}, timeout=CANCEL_S)
            if work.done():
                return work.result()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        raise _Ended

    def _ending(self) -> bool:
        """Returns whether Ctrl-C was pressed, or the budget is spent."""
        if self._until is not None and time.monotonic() >= self._until:
            self._limited = not self._interrupted
        return self._interrupted or self._limited

    def _left_s(self) -> float | None:
        return None if self._until is None else max(self._until - time.monotonic(), 0.001)

    def _spent_s(self) -> float:
        return time.monotonic() - self._began

    # Results.

    def _keep_round_trips(self, a: int, b: int, answer: dict[str, Any]) -> None:
        if "problem" in answer:
            self._miss(a, b, answer["problem"])
            return
        self._met(a, b, answer["address"])
        samples = [each / 1e9 for each in answer["rtt_ns"]]
        self._reordered += answer["reordered"]
        self._ignored += answer["ignored"]
        if samples:
            self._clocks[answer["kernel"]] += 1
        self._pairs[a, b] = of_samples(samples, answer["lost"], answer["duplicates"])
        if not samples:
            self._missing[a, b] = "all echoes were lost"

    def _keep_rate(self, a: int, b: int, answer: dict[str, Any]) -> None:
        if "problem" in answer:
            why = answer.get("why", "")
            self._missing.setdefault((a, b), f"no TCP connection for transfers: {why}")
            return
        rate = rate_of(answer["size"], answer["times_ns"])
        self._met(a, b, None)
        pair = self._pairs.get((a, b), Pair())
        self._pairs[a, b] = replace(pair, rate_bytes_per_s=rate, transfers=len(answer["times_ns"]))

    def _met(self, a: int, b: int, address: str | None) -> None:
        self._missing.pop((a, b), None)
        self._members[a].met = self._members[b].met = True
        self._members[b].reached = address or self._members[b].reached

    def _miss(self, a: int, b: int, problem: str) -> None:
        """Notes that a pair has no contact, and gives up a host that has contact with none."""
        blocked = problem == "udp"
        self._missing[a, b] = (
            "UDP is blocked: no echo came back, but TCP connects"
            if blocked
            else "no echo came back, and no TCP connection"
        )
        for one, other in ((a, b), (b, a)):
            member = self._members[one]
            member.strangers.add(other)
            if not member.met and len(member.strangers) >= min(STRANGERS, len(self._members) - 1):
                ports = ", ".join(f"{address} UDP port {port}" for address, port, _ in member.bound)
                met = [each for each in self._members.values() if each.met]
                # While no host has met any other, nobody knows whose fault it is.
                if met:
                    self._failures.setdefault(
                        one, f"{'UDP is blocked' if blocked else 'others cannot reach it'}: {ports}"
                    )

    async def _count_ignored(self) -> None:
        """Adds the packets that answering agents have ignored."""

        async def ask(member: _Member) -> int:
            with contextlib.suppress(AgentError):
                return int((await member.remote.ask(1.0, order="count"))["ignored"])
            return 0

        self._ignored += sum(await asyncio.gather(*(ask(each) for each in self._live())))

    def _outcome(self) -> Outcome:
        seen = sorted({host for pair in self._pairs for host in pair})
        measured = Measured(tuple(host.name for host in self._hosts), dict(self._pairs)).among(seen)
        missing = {pair: why for pair, why in self._missing.items() if self._failures.keys().isdisjoint(pair)}
        members = self._members.values()
        return Outcome(
            measured=measured,
            samples=self._samples,
            rounds=self._rounds,
            took_s=self._spent_s(),
            clock={0: "none", 1: "kernel" if self._clocks[True] else "user"}.get(len(self._clocks), "mixed"),
            reordered=self._reordered,
            ignored=self._ignored,
            addresses={each.host.name: each.reached for each in members if each.reached},
            several=tuple(each.host.name for each in members if _ambiguous(each)),
            hosts=tuple(HostFailure(self._hosts[at].name, why) for at, why in sorted(self._failures.items())),
            pairs=tuple(
                PairFailure(self._hosts[a].name, self._hosts[b].name, why) for (a, b), why in sorted(missing.items())
            ),
            interrupted=self._interrupted,
            limited=self._limited,
        )

    def _raise_nothing(self) -> None:
        """Raises the error of a probe without any measurement."""
        reasons = [f"{self._hosts[at].name}: {why}" for at, why in sorted(self._failures.items())]
        reasons += [f"{self._hosts[a].name} to {self._hosts[b].name}: {why}" for (a, b), why in self._missing.items()]
        udp = any("UDP is blocked" in why for why in reasons)
        started = len(self._members) - len(self._failures.keys() & self._members.keys())
        message = (
            f"{counted(started, 'host')} of {len(self._hosts)} can be probed, and at least 2 are needed"
            if started < 2
            else "the budget ended before anything was measured"
            if self._limited
            else "no two hosts reach each other"
        )
        raise_errors(
            error(
                Code.HOST_FAILED,
                message,
                help="let UDP pass between the hosts; --port N uses one port alone"
                if udp
                else remedy(" ".join(reasons)),
                notes=[*reasons[:MAX_REASONS], *_more(len(reasons) - MAX_REASONS)],
            )
        )


MAX_REASONS = 8
"""The most reasons that an error lists."""


def _more(count: int) -> list[str]:
    return [f"and {count} more"] if count > 0 else []


def _ambiguous(member: _Member) -> bool:
    """Returns whether a host has other addresses of the family of the one that was used."""
    return sum((":" in address) == (":" in (member.reached or "")) for address, *_ in member.bound) > 1


def _allow_files(hosts: int) -> None:
    """Lets this process open the pipes to all agents.

    :raises SynclineError: the system allows fewer.
    """
    needed = PIPES * hosts + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                f"agents on {hosts:,} hosts need {needed:,} open files",
                key="HOSTS",
                found=f"a limit of {hard:,}",
                help=f"raise the limit as root: ulimit -Hn {needed}",
            )
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _chosen(host: Host, own: Sequence[str], resolved: Sequence[str]) -> list[str]:
    """Returns the addresses at which a host's agent listens, the most likely first.

    That is the address of the host list, or the one that is the host's name. Otherwise these are all of the host's
    addresses; those that the host's name has here come first.
    """
    if host.address:
        return [host.address]
    if _is_address(host.name) and (host.name in own or ipaddress.ip_address(host.name).is_loopback):
        return [host.name]
    first = [each for each in resolved if each in own]
    return list(dict.fromkeys([*first, *own]))
