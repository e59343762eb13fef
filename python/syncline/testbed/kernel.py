"""The kernel, by way of iproute2: namespaces, links, queues."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.config.problem import error, refuse
from syncline.runtime import congestions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from syncline.testbed.layout import Layout

NAMESPACES = Path("/run/netns")
CONTAINER = (
    "in a container: --privileged; or NET_ADMIN and SYS_ADMIN, apparmor=unconfined, and a /proc/sys that can be written"
)
"""What a container needs."""


def require() -> None:
    """Raises :class:`SynclineError` where this machine cannot have network namespaces."""
    if not Path("/proc/self/ns/net").exists():
        refuse(error("SL1101", "a testbed needs network namespaces, which only Linux has"))
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        refuse(
            error(
                "SL1101",
                f"a testbed needs {' and '.join(missing)}",
                help="install iproute2: sudo apt-get install iproute2",
            )
        )
    if os.geteuid() != 0:
        refuse(
            error(
                "SL1101",
                "a testbed needs root: it makes network namespaces, links and queues",
                help=f"sudo -E env PATH=$PATH syncline testbed ..; {CONTAINER}",
            )
        )


def require_congestion_control(name: str) -> None:
    """Raises :class:`SynclineError` where the kernel has no such congestion control."""
    congestions.check(name, key="congestion_control", code="SL1101")


def namespaces(prefix: str) -> list[str]:
    """Those whose names begin so."""
    try:
        return sorted(path.name for path in NAMESPACES.iterdir() if path.name.startswith(prefix))
    except FileNotFoundError:
        return []


def own_namespace(names: Iterable[str]) -> str | None:
    """Which of these network namespaces this process is in, if it is in one of them."""
    own = Path("/proc/self/ns/net").stat()
    for name in names:
        with contextlib.suppress(OSError):
            if os.path.samestat(own, (NAMESPACES / name).stat()):
                return name
    return None


def add_namespace(name: str) -> None:
    """Makes one."""
    _do(["ip", "netns", "add", name])


def delete_namespace(name: str) -> None:
    """Removes one, with its links; no error where it is gone already."""
    if (NAMESPACES / name).exists():
        _do(["ip", "netns", "delete", name])


def batch(program: str, namespace: str, lines: Sequence[str]) -> None:
    """Has ``ip`` or ``tc`` do all of ``lines`` in a namespace."""
    if lines:
        _do([program, "-n", namespace, "-batch", "-"], "\n".join(lines) + "\n", lines)


def settings(namespace: str, values: dict[str, str]) -> None:
    """Sets values of /proc/sys that belong to a namespace."""
    script = "".join(f"echo {value} > /proc/sys/{key} || exit 1\n" for key, value in values.items())
    _do(["ip", "netns", "exec", namespace, "/bin/sh", "-s"], script)


def processes(namespace: str) -> list[int]:
    """Processes in a namespace."""
    done = subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True)  # noqa: S603, S607
    return [int(line) for line in done.stdout.split()]


def prepare(layout: Layout) -> None:
    """What hosts need before their interfaces are up."""
    for host in layout.hosts:
        # With several interfaces on one network each answers for its own address only.
        per_interface = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "0"}
        values = {f"net/ipv4/conf/all/{key}": value for key, value in per_interface.items()}
        values |= {f"net/ipv6/conf/{which}/disable_ipv6": "1" for which in ("all", "default") if _has_ipv6()}
        settings(layout.namespace(host.number), values)


def _has_ipv6() -> bool:
    return Path("/proc/sys/net/ipv6").exists()


def _do(command: list[str], text: str | None = None, lines: Sequence[str] = ()) -> None:
    """Runs a program of iproute2; raises :class:`SynclineError` where it fails.

    The error says what could not be done to which interface of which host, and has the program's words as notes.
    """
    # A session of its own: Ctrl-C is for us, who then clean up.
    with _uninterrupted():
        done = subprocess.run(command, check=False, input=text, capture_output=True, text=True, start_new_session=True)  # noqa: S603
    if done.returncode == 0:
        return
    said = (done.stderr or done.stdout).strip().splitlines()
    what = " ".join(command)
    if lines:
        what += f", {len(lines)} lines, the first of which is `{lines[0]}`"
    for each in said:
        # ip and tc say "Command failed -:3".
        head, _, number = each.rpartition("-:")
        if head.startswith("Command failed") and number.isdigit() and 0 < int(number) <= len(lines):
            what = f"{' '.join(command[:3])} {lines[int(number) - 1]}"
    words = list(_reasons(said))
    notes = [f"{command[0]} says: {each}" for each in words[:MOST_REASONS]]
    refuse(
        error(
            "SL1101",
            f"cannot {_deed(what)}",
            found=what,
            help=_remedy(" ".join(words)) if words else _remedy_without_words(command[0]),
            notes=notes or [f"{command[0]} {_ending(done.returncode)} and says nothing"],
        )
    )


MOST_REASONS = 3
"""Lines of a program's output that an error repeats."""


def _ending(status: int) -> str:
    """How a process with this exit status ended; a negative one is a signal, as in :mod:`subprocess`."""
    return f"ends with status {status}" if status >= 0 else f"is killed by signal {-status}"


def _remedy_without_words(program: str) -> str:
    """iproute2 says what it fails at, so a program that says nothing is another one, or broken."""
    there = shutil.which(program) or program
    return f"`{there} -V` should name iproute2; if it does not: sudo apt-get install --reinstall iproute2"


def _reasons(said: Iterable[str]) -> Iterator[str]:
    """What a program says, without its usage text."""
    for line in said:
        if line.lstrip().lower().startswith("usage:"):
            return
        if line.strip() and not line.startswith("Command failed"):
            yield line.strip()


_DEEDS = {
    "netns add": "make the network namespace",
    "netns delete": "remove the network namespace",
    "netns exec": "set kernel parameters",
    "link add": "make the interface",
    "link set": "configure the interface",
    "address add": "give an address to the interface",
    "route add": "add a route by the interface",
    "rule add": "add a routing rule",
    "qdisc add": "limit the rate of the interface",
    "class add": "limit the rate of the interface",
}
"""What is done, by the first two words of a line for ``ip`` or ``tc``."""


def _deed(what: str) -> str:
    """What a command does to what, in words: ``limit the rate of the interface eth0 of host 3 of bed``."""
    words = what.split()[1:]
    inside = ""
    if words[:1] == ["-n"]:
        inside, words = words[1], words[2:]
    elif words[:1] == ["netns"]:
        inside = words[2]
    deed = _DEEDS.get(" ".join(words[:2]), "limit the rates" if what.startswith("tc ") else "set up the network")
    if deed.endswith("interface"):
        # Named after the word that says so, or as the third word.
        named = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("dev", "name")]
        deed += f" {(named or words[2:3] or ['?'])[0]}"
    return f"{deed} {_place(inside, named=deed.endswith('namespace'))}".rstrip()


def _place(namespace: str, *, named: bool) -> str:
    """Which part of which testbed a network namespace is."""
    prefix, _, rest = namespace.partition(".")
    testbed, _, part = rest.rpartition(".")
    if prefix != "syncline" or not testbed:
        return namespace
    host = part.removeprefix("h")
    of = f"host {host} of {testbed}" if host.isdigit() else f"the switches of {testbed}"
    return f"of {of}" if not named else f"for {of}"


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keeps Ctrl-C until the end: what a program has begun to make is there by then, and can be removed."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread is ever interrupted.
        yield
        return
    # To block the signal is not enough, as any other thread may take it.
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
    # AppArmor denies mounts in the first way, and a container's own /proc/sys says the second.
    if "Permission denied" in said or "Read-only file system" in said:
        return CONTAINER
    if "qdisc" in said or "No such file" in said:
        return f"load the kernel's modules: modprobe -a sch_htb sch_tbf bridge veth; or {_OTHER_SHAPER}"
    if "not supported" in said:
        return "hosts of several interfaces need a kernel with CONFIG_IP_MULTIPLE_TABLES; all need veth and bridge"
    return f"load the kernel's modules: modprobe -a veth bridge sch_htb sch_tbf; or {_OTHER_SHAPER}"


_OTHER_SHAPER = "try the other shaper (`shaper: tbf` or `shaper: htb`)"
