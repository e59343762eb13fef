"""Starts agents on hosts by a launch command, and talks to them.

A launch command ends in ``python3 -``: a Python on the host that reads its program from stdin. Python would read all
of stdin before it runs a program, and orders could not follow. So the ``-`` becomes ``-q -i -u``, by which Python runs
each line as it comes. One line then reads the agent, of known length, and runs it. Nothing on the command line needs
quotes, so the same command works with and without a shell in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from syncline.codes import Code
from syncline.input.problem import error, raise_errors, shown
from syncline.probing import agent

DEFAULT = "ssh -oBatchMode=yes {host} python3 -"
"""The launch command: ``{host}`` stands for the host's name, and ``{address}`` for its address in the host list."""
OLDEST = (3, 8)
"""The oldest Python that agents run on."""
MAX_LINE = 64 << 20
"""The longest answer, in bytes."""
MAX_NOISE = 200
"""Lines of output that are not the agent's, before it begins."""
KEPT = 4096
"""Bytes kept of what a launch command prints to stderr."""
END_S = 2.0
"""Time that an agent has to end by itself."""

_BOOT = (
    "import os, sys; "
    "_ = os.write(1, ('\\n%s boot %d %d\\n' % (('{token}',) + tuple(sys.version_info[:2]))).encode()); "
    "ORDERS = os.fdopen(0, 'rb', closefd=False); TOKEN = '{token}'; "
    "exec(compile(ORDERS.read({size}), 'agent.py', 'exec'))\n"
)
"""The line that reads and runs the agent. It starts by saying which Python runs it."""
_PROMPT = re.compile(r"^(?:>>> |\.\.\. )+")


class AgentError(Exception):
    """An agent did not start, or is gone; the text says why."""


@dataclass(frozen=True)
class Launch:
    """A launch command."""

    words: tuple[str, ...]

    @classmethod
    def parse(cls, template: str) -> Launch:
        """Parses a launch command.

        :raises SynclineError: it is malformed, or there is no such program.
        """
        allowed = "a command that runs Python on a host, and ends in `python3 -`"
        try:
            words = tuple(shlex.split(template))
        except ValueError as problem:
            raise_errors(error(Code.BAD_VALUE, f"the launch command is malformed: {problem}", key="--launch"))
        if len(words) < 2 or words[-1] != "-":
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "the launch command does not end in `-`",
                    key="--launch",
                    found=shown(template),
                    allowed=allowed,
                    help=f"such as '{DEFAULT}'",
                )
            )
        if shutil.which(words[0]) is None:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "the launch command was not found",
                    key="--launch",
                    found=shown(words[0]),
                    help=f"install {shown(words[0])}, or name another command: --launch '{DEFAULT}'",
                )
            )
        return cls(words)

    def command(self, host: str, address: str | None) -> list[str]:
        """Returns the command that starts Python on a host."""
        filled = [each.replace("{host}", host).replace("{address}", address or host) for each in self.words[:-1]]
        return [*filled, "-q", "-i", "-u"]


@cache
def _program() -> bytes:
    return Path(agent.__file__).read_bytes()


@dataclass
class Remote:
    """An agent on a host."""

    process: asyncio.subprocess.Process
    transport: asyncio.SubprocessTransport
    token: str
    hello: dict[str, Any] = field(default_factory=dict)
    """The agent's first words: its Python, and the addresses of its host."""
    gone: str | None = None
    """Why it is gone; ``None`` while it runs."""
    _answers: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    _errors: bytearray = field(default_factory=bytearray)
    _noise: list[str] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _orders: int = 0

    @classmethod
    async def start(cls, command: list[str], within_s: float) -> Remote:
        """Starts an agent, and returns once it says hello.

        :raises AgentError: it does not, within ``within_s`` seconds.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=MAX_LINE, loop=loop),
                *command,
                # Ctrl-C is for the coordinator alone. Without a terminal, nothing can ask for a password.
                start_new_session=True,
            )
        except OSError as problem:
            raise AgentError(f"cannot start {command[0]}: {(problem.strerror or str(problem)).lower()}") from None
        made = cls(asyncio.subprocess.Process(transport, protocol, loop), transport, secrets.token_hex(8))
        made._tasks.append(asyncio.create_task(made._keep_errors()))
        try:
            await asyncio.wait_for(made._begin(), within_s)
        except TimeoutError:
            await made.end()
            raise AgentError(f"no answer within {within_s:.3g} s{made._said()}") from None
        except BaseException:
            await made.end()
            raise
        made._tasks.append(asyncio.create_task(made._receive()))
        return made

    async def ask(self, within_s: float, **order: Any) -> dict[str, Any]:
        """Sends an order; returns the answer.

        :raises AgentError: the agent is gone, refuses, or does not answer in time. In the last case it is ended.
        """
        if self.gone is not None:
            raise AgentError(self.gone)
        self._orders += 1
        number = self._orders
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self.tell(id=number, **order)
        try:
            found = await asyncio.wait_for(answer, within_s)
        except TimeoutError:
            self.gone = f"no answer within {within_s:.3g} s"
            await self.end()
            raise AgentError(self.gone) from None
        finally:
            self._answers.pop(number, None)
        if "refused" in found:
            raise AgentError(str(found["refused"]))
        return found

    def tell(self, **order: Any) -> None:
        """Sends an order without waiting for an answer."""
        if self.process.stdin is not None and not self.process.stdin.is_closing():
            self.process.stdin.write(json.dumps(order).encode() + b"\n")

    async def end(self) -> None:
        """Ends the agent: asks it to stop, and kills the launch command if it does not end."""
        stdin = self.process.stdin
        if stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self.tell(order="stop")
                stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), END_S if self.hello else 0.2)
        except TimeoutError:
            # With all processes of its session that it has started.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), END_S)
        self.transport.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.gone is None:
            self.gone = "it was stopped"

    async def _begin(self) -> None:
        """Sends the program, and reads hello."""
        stdin = self.process.stdin
        assert stdin is not None  # noqa: S101 - it was asked for
        program = _program()
        try:
            stdin.write(_BOOT.replace("{token}", self.token).replace("{size}", str(len(program))).encode())
            version = tuple(int(each) for each in (await self._line("boot")).split())
            if version < OLDEST:
                found, oldest = (".".join(map(str, each)) for each in (version, OLDEST))
                raise AgentError(f"its Python is {found}; {oldest} or newer is needed")
            stdin.write(program)
            await stdin.drain()
            self.hello = json.loads(await self._line(""))
        except (OSError, ValueError):
            # The process has closed stdin, or answers with nonsense.
            raise AgentError(await self._why()) from None
        if self.hello.get("hello") != agent.PROTOCOL:
            raise AgentError("something else answers")

    async def _line(self, word: str) -> str:
        """Returns the rest of the first line that starts with the token and ``word``; earlier lines are noise."""
        start = f"{self.token} {word}".strip() + " "
        out = self.process.stdout
        assert out is not None  # noqa: S101 - it was asked for
        for _ in range(MAX_NOISE):
            line = (await out.readline()).decode("utf-8", "replace")
            if not line:
                raise AgentError(await self._why())
            if line.startswith(start):
                return line[len(start) :]
            if line.strip():
                self._noise.append(line.strip())
        raise AgentError(f"it prints something else{self._said()}")

    async def _receive(self) -> None:
        """Gives answers to those who wait for them, until the agent is gone."""
        out = self.process.stdout
        assert out is not None  # noqa: S101 - it was asked for
        while True:
            try:
                line = await out.readline()
            except ValueError:
                self.gone = "an answer is too long"
                break
            if not line:
                self.gone = self.gone or await self._why()
                break
            token, _, rest = line.decode("utf-8", "replace").partition(" ")
            if token != self.token:
                continue
            with contextlib.suppress(ValueError, AttributeError):
                answer = json.loads(rest)
                waiting = self._answers.get(answer.get("id"))
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_result({"refused": self.gone})

    async def _keep_errors(self) -> None:
        """Keeps the start of what the launch command prints to stderr."""
        stream = self.process.stderr
        assert stream is not None  # noqa: S101 - it was asked for
        while chunk := await stream.read(KEPT):
            self._errors += chunk
            if len(self._errors) > 2 * KEPT:
                del self._errors[KEPT:-KEPT]

    async def _why(self) -> str:
        """Says why the process has closed its output."""
        try:
            status = await asyncio.wait_for(self.process.wait(), END_S)
        except TimeoutError:
            return f"it closed its output{self._said()}"
        # What was printed last may still be on its way.
        await asyncio.sleep(0.05)
        ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"the launch command {ended}{self._said()}"

    def _said(self) -> str:
        """The last line that the launch command printed."""
        lines = [_PROMPT.sub("", line).strip() for line in self._errors.decode("utf-8", "replace").splitlines()]
        lines = [line for line in lines if line] or self._noise
        return f": {shown(lines[-1]) if len(lines[-1]) > 200 else lines[-1]}" if lines else ""


def remedy(reasons: str) -> str | None:
    """Returns what to do about the reasons for which agents did not start."""
    for words, help in (
        (
            ("Permission denied", "password", "Password"),
            "log in without a password: ssh-copy-id HOST; or use ssh-agent",
        ),
        (("Host key verification", "authenticity"), "accept the host's key once: ssh HOST true"),
        (
            ("Could not resolve", "Name or service", "No such container", "Cannot open network namespace"),
            "check the host's name; --launch says how hosts are reached",
        ),
        (("Connection refused", "timed out", "No route"), "check that the host is up, and that ssh reaches it"),
        (
            ("not found", "No such file", "status 127"),
            "install Python 3.8 or newer there, or name it: --launch '.. python3.11 -'",
        ),
        (
            ("Python is", "Unknown option", "python -h"),
            "name a newer Python: --launch 'ssh -oBatchMode=yes {host} python3.11 -'",
        ),
        (("no answer within",), "run the launch command by hand, and see what it waits for"),
    ):
        if any(word in reasons for word in words):
            return help
    return None
