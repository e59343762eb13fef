"""Sets up namespaces, links and queues in the kernel, through iproute2."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.quantity import listed
from syncline.runtime import congestion_control

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from syncline.testbed.layout import Layout

NAMESPACES = Path("/run/netns")
CONTAINER = (
    "in a container: --privileged; or NET_ADMIN and SYS_ADMIN, apparmor=unconfined, and a /proc/sys that can be written"
)
"""The options that a container needs."""


def require() -> None:
    """Raises :class:`SynclineError` if this machine or user cannot create network namespaces."""
    if not Path("/proc/self/ns/net").exists():
        raise_errors(error(Code.NO_TESTBED, "a testbed needs network namespaces, which only Linux has"))
    missing = [tool for tool in ("ip", "bridge", "tc") if shutil.which(tool) is None]
    if missing:
        raise_errors(
            error(
                Code.NO_TESTBED,
                f"a testbed needs {listed(missing)}",
                help="install iproute2: sudo apt-get install iproute2",
            )
        )
    if os.geteuid() != 0:
        raise_errors(
            error(
                Code.NO_TESTBED,
                "a testbed needs root: it makes network namespaces, links and queues",
                help=f"sudo -E env PATH=$PATH syncline testbed ..; {CONTAINER}",
            )
        )


def require_congestion_control(name: str) -> None:
    """Raises :class:`SynclineError` if the kernel has no congestion control of that name."""
    congestion_control.check(name, key="congestion_control", code=Code.NO_TESTBED)


def namespaces(prefix: str) -> list[str]:
    """Returns the network namespaces whose names begin with ``prefix``."""
    try:
        return sorted(path.name for path in NAMESPACES.iterdir() if path.name.startswith(prefix))
    except FileNotFoundError:
        return []


def own_namespace(names: Iterable[str]) -> str | None:
    """Returns the one of these network namespaces that this process is in, if any."""
    own = Path("/proc/self/ns/net").stat()
    for name in names:
        with contextlib.suppress(OSError):
            if os.path.samestat(own, (NAMESPACES / name).stat()):
                return name
    return None


def add_namespace(name: str) -> None:
    """Makes a network namespace."""
    _run(["ip", "netns", "add", name])


def delete_namespace(name: str) -> None:
    """Removes a network namespace with its links, if it exists."""
    if (NAMESPACES / name).exists():
        _run(["ip", "netns", "delete", name])


def batch(program: str, namespace: str, lines: Sequence[str], remedy: str | None = None) -> None:
    """Runs all of ``lines`` in a namespace by ``ip``, ``bridge`` or ``tc``.

    ``remedy`` replaces the one for the kernel's error.
    """
    if lines:
        _run([program, "-n", namespace, "-batch", "-"], "\n".join(lines) + "\n", lines, remedy)


def settings(namespace: str, values: dict[str, str]) -> None:
    """Sets values of /proc/sys that belong to a namespace."""
    script = "".join(f"echo {value} > /proc/sys/{key} || exit 1\n" for key, value in values.items())
    _run(["ip", "netns", "exec", namespace, "/bin/sh", "-s"], script)


def processes(namespace: str) -> list[int]:
    """Returns the processes in a namespace."""
    done = subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True)  # noqa: S603, S607
    return [int(line) for line in done.stdout.split()]


def prepare(layout: Layout) -> None:
    """Configures hosts before their interfaces are up."""
    for host in layout.everything:
        # If a host has several interfaces on one network, each answers ARP for its own address only.
        per_interface = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "0"}
        values = {f"net/ipv4/conf/all/{key}": value for key, value in per_interface.items()}
        if layout.paths:
            # Hosts forward packets for others, and do not tell these of shorter ways.
            values["net/ipv4/ip_forward"] = "1"
            # Each host on the way counts, and 250 hosts may be one chain.
            values["net/ipv4/ip_default_ttl"] = "255"
            values |= {f"net/ipv4/conf/{which}/send_redirects": "0" for which in ("all", "default")}
            values["net/ipv4/conf/default/rp_filter"] = "0"
        values |= {f"net/ipv6/conf/{which}/disable_ipv6": "1" for which in ("all", "default") if _has_ipv6()}
        settings(layout.namespace(host.number), values)


def _has_ipv6() -> bool:
    return Path("/proc/sys/net/ipv6").exists()


def _run(command: list[str], text: str | None = None, lines: Sequence[str] = (), remedy: str | None = None) -> None:
    """Runs a program of iproute2; raises :class:`SynclineError` if it fails.

    The error says what could not be done, to which interface of which host. The program's output is in its notes.
    """
    # In its own session, the program does not get Ctrl-C. This process does, and then cleans up.
    with _uninterrupted():
        done = subprocess.run(command, check=False, input=text, capture_output=True, text=True, start_new_session=True)  # noqa: S603
    if done.returncode == 0:
        return
    said = (done.stderr or done.stdout).strip().splitlines()
    what = " ".join(command)
    if lines:
        what += f", {len(lines)} lines, the first of which is `{lines[0]}`"
    for each in said:
        # ip and tc name the failed line as "Command failed -:3".
        head, _, number = each.rpartition("-:")
        if head.startswith("Command failed") and number.isdigit() and 0 < int(number) <= len(lines):
            what = f"{' '.join(command[:3])} {lines[int(number) - 1]}"
    words = list(_reasons(said))
    notes = [f"{command[0]} says: {each}" for each in words[:MAX_REASONS]]
    raise_errors(
        error(
            Code.NO_TESTBED,
            f"cannot {_description(what)}",
            found=what,
            help=remedy or (_remedy(" ".join(words)) if words else _remedy_without_words(command[0])),
            notes=notes or [f"{command[0]} {_exit_description(done.returncode)} without any output"],
        )
    )


MAX_REASONS = 3
"""Maximum number of lines of a program's output in an error."""


def _exit_description(status: int) -> str:
    """Describes how a process ended; a negative exit status is a signal, as in :mod:`subprocess`."""
    return f"exited with status {status}" if status >= 0 else f"was killed by signal {-status}"


def _remedy_without_words(program: str) -> str:
    """Returns a remedy if a program failed without output: it is broken or not iproute2, which prints its errors."""
    there = shutil.which(program) or program
    return f"`{there} -V` should name iproute2; if it does not: sudo apt-get install --reinstall iproute2"


def _reasons(said: Iterable[str]) -> Iterator[str]:
    """Yields the lines of a program's output, without its usage text."""
    for line in said:
        if line.lstrip().lower().startswith("usage:"):
            return
        if line.strip() and not line.startswith("Command failed"):
            yield line.strip()


_ACTIONS = {
    "netns add": "make the network namespace",
    "netns delete": "remove the network namespace",
    "netns exec": "set kernel parameters",
    "link add": "make the interface",
    "link set": "configure the interface",
    "address add": "give an address to the interface",
    "route add": "add a route by the interface",
    "rule add": "add a routing rule",
    "neigh add": "name the neighbours of the interface",
    "fdb add": "name the hosts behind the interface",
    "qdisc add": "limit the rate of the interface",
    "class add": "limit the rate of the interface",
    "qdisc change": "change the rate of the interface",
    "class change": "change the rate of the interface",
}
"""Descriptions of lines for ``ip``, ``bridge`` or ``tc``, by their first two words."""


def _description(what: str) -> str:
    """Describes a command, such as ``limit the rate of the interface eth0 of host 3 of bed``."""
    words = what.split()[1:]
    inside = ""
    if words[:1] == ["-n"]:
        inside, words = words[1], words[2:]
    elif words[:1] == ["netns"]:
        inside = words[2]
    action = _ACTIONS.get(" ".join(words[:2]), "limit the rates" if what.startswith("tc ") else "set up the network")
    if action.endswith("interface"):
        # The interface's name follows `dev` or `name`, or is the third word.
        named = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("dev", "name")]
        action += f" {(named or words[2:3] or ['?'])[0]}"
    return f"{action} {_place(inside, named=action.endswith('namespace'))}".rstrip()


def _place(namespace: str, *, named: bool) -> str:
    """Describes the part of a testbed that a network namespace belongs to."""
    prefix, _, rest = namespace.partition(".")
    testbed, _, part = rest.rpartition(".")
    if prefix != "syncline" or not testbed:
        return namespace
    kind = {"h": "host", "m": "tenants' machine"}.get(part[:1])
    of = f"{kind} {part[1:]} of {testbed}" if kind and part[1:].isdigit() else f"the switches of {testbed}"
    return f"of {of}" if not named else f"for {of}"


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Defers Ctrl-C until the end of the block, so that what a program has begun to make exists and can be removed."""
    if threading.current_thread() is not threading.main_thread():
        # Python interrupts only the main thread.
        yield
        return
    # Blocking the signal is not enough, because another thread may receive it.
    kept: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: kept.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if kept:
            signal.raise_signal(signal.SIGINT)


def _remedy(said: str) -> str:
    if "permitted" in said:
        return f"run as root; {CONTAINER}"
    # The first is AppArmor's error for mounts, the second that of a container's read-only /proc/sys.
    if "Permission denied" in said or "Read-only file system" in said:
        return CONTAINER
    if "qdisc" in said or "No such file" in said:
        return f"load the kernel's modules: modprobe -a sch_htb sch_tbf bridge veth; or {_OTHER_SHAPER}"
    if "not supported" in said:
        return (
            "hosts with several interfaces need a kernel with CONFIG_IP_MULTIPLE_TABLES; all hosts need veth and bridge"
        )
    return f"load the kernel's modules: modprobe -a veth bridge sch_htb sch_tbf; or {_OTHER_SHAPER}"


_OTHER_SHAPER = "try the other shaper (`shaper: tbf` or `shaper: htb`)"
