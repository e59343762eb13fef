"""Errors on machines that cannot run a testbed: no root, no tools, or a kernel that refuses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from syncline.cli.commands import testbed as command
from syncline.errors import SynclineError
from syncline.runtime import congestion_control
from syncline.testbed import kernel

SPEC = "name: nobody\nfabric: { switch: { hosts: 2, rate: 1Gb/s } }\n"


def refused(call):
    """Returns the only diagnostic of the error that a call raises."""
    with pytest.raises(SynclineError) as raised:
        call()
    (problem,) = raised.value.diagnostics
    assert raised.value.exit_status == 2
    assert problem["code"] == "SL1101"
    return problem


@pytest.fixture
def tools(monkeypatch):
    """Returns a function that sets which tools are installed."""

    def having(*there):
        monkeypatch.setattr(shutil, "which", lambda tool: f"/sbin/{tool}" if tool in there else None)

    having("ip", "bridge", "tc")
    return having


@pytest.fixture
def nobody(monkeypatch, tools):
    """Makes this process look like one of an ordinary user, on a machine with all tools."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.parametrize(
    ("there", "missing"),
    [((), "ip, bridge and tc"), (("bridge", "tc"), "ip"), (("ip",), "bridge and tc")],
    ids=lambda given: str(given),
)
def test_missing_tools_are_named(tools, there, missing):
    tools(*there)
    problem = refused(kernel.require)
    assert problem["message"] == f"a testbed needs {missing}"
    assert problem["help"] == "install iproute2: sudo apt-get install iproute2"


def test_a_kernel_without_namespaces_is_reported(monkeypatch):
    monkeypatch.setattr(Path, "exists", lambda path: str(path) != "/proc/self/ns/net")
    assert refused(kernel.require)["message"] == "a testbed needs network namespaces, which only Linux has"


def test_a_machine_with_everything_is_accepted(monkeypatch, tools):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    kernel.require()


@pytest.mark.parametrize(
    "call",
    [
        lambda: command.up("bed.yaml", [], as_json=False, quiet=True),
        lambda: command.run("bed.yaml", ["true"], None, None, []),
        lambda: command.run("nobody", ["true"], None, None, []),
        lambda: command.check("bed.yaml", [], None, as_json=True, quiet=True),
        lambda: command.check("nobody", [], None, as_json=True, quiet=True),
        lambda: command.down(["nobody"], every=False),
        lambda: command.down([], every=True),
        lambda: command.shape("nobody", ["h0"], "1Mb/s", None, None, restore=False, as_json=False, quiet=True),
    ],
    ids=["up", "run file", "run name", "check file", "check name", "down", "down all", "shape"],
)
def test_commands_without_root_are_refused_with_a_remedy(monkeypatch, tmp_path, nobody, call):
    def never(*given, **_):
        pytest.fail(f"started {given}")

    monkeypatch.setattr(kernel.subprocess, "run", never)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bed.yaml").write_text(SPEC, "utf-8")
    problem = refused(call)
    assert problem["message"] == "a testbed needs root: it makes network namespaces, links and queues"
    assert "sudo -E env PATH=$PATH syncline testbed" in problem["help"]
    assert "in a container: --privileged" in problem["help"]


def says(monkeypatch, text, status=1):
    """Makes iproute2 fail with this output."""

    def run(given, **_):
        return subprocess.CompletedProcess(given, status, "", text)

    monkeypatch.setattr(kernel.subprocess, "run", run)


LINES = ["link set lo up", "qdisc add dev eth0 root handle 1: htb default 1", "link set eth0 up"]


def test_the_line_that_failed_is_shown(monkeypatch):
    said = "Error: Specified qdisc kind is unknown.\nCommand failed -:2\n"
    says(monkeypatch, said)
    problem = refused(lambda: kernel.batch("tc", "syncline.bed.h0", LINES))
    assert problem["message"] == "cannot limit the rate of the interface eth0 of host 0 of bed"
    assert problem["found"] == f"tc -n syncline.bed.h0 {LINES[1]}"
    assert problem["notes"] == ["tc says: Error: Specified qdisc kind is unknown."]
    assert problem["help"] == (
        "load the kernel's modules: modprobe -a sch_htb sch_tbf bridge veth; or try the other shaper (`shaper: tbf` or "
        "`shaper: htb`)"
    )


@pytest.mark.parametrize("number", ["0", "4", "x", ""])
def test_an_invalid_line_number_is_ignored(monkeypatch, number):
    says(monkeypatch, f"RTNETLINK answers: Operation not supported\nCommand failed -:{number}\n")
    problem = refused(lambda: kernel.batch("ip", "syncline.bed.h0", LINES))
    assert problem["found"] == f"ip -n syncline.bed.h0 -batch -, 3 lines, the first of which is `{LINES[0]}`"
    assert problem["notes"] == ["ip says: RTNETLINK answers: Operation not supported"]


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("mount --make-shared /run/netns failed: Operation not permitted", "run as root; in a container: --privileged"),
        ("Error: Specified qdisc kind is unknown.", "try the other shaper"),
        ("RTNETLINK answers: No such file or directory", "try the other shaper"),
        ("Error: Unknown device type.", "modprobe -a veth bridge sch_htb sch_tbf"),
        ("RTNETLINK answers: Operation not supported", "CONFIG_IP_MULTIPLE_TABLES"),
        ("mount --make-shared /run/netns failed: Permission denied", "in a container: --privileged"),
        (
            "/bin/sh: 1: cannot create /proc/sys/net/ipv4/ip_forward: Read-only file system",
            "/proc/sys that can be written",
        ),
    ],
)
def test_the_remedy_depends_on_the_kernels_message(monkeypatch, said, remedy):
    says(monkeypatch, f"{said}\n")
    problem = refused(lambda: kernel.add_namespace("syncline.bed.h0"))
    assert problem["found"] == "ip netns add syncline.bed.h0"
    assert remedy in problem["help"]
    assert problem["notes"] == [f"ip says: {said}"]
    assert problem["message"] == "cannot make the network namespace for host 0 of bed"


def test_usage_texts_are_left_out(monkeypatch):
    says(
        monkeypatch,
        'Illegal "burst"\nUsage: ... qdisc add ... htb [default N]\n default  minor id\nCommand failed -:2\n',
    )
    problem = refused(lambda: kernel.batch("tc", "syncline.bed.fabric", LINES))
    assert problem["notes"] == ['tc says: Illegal "burst"']
    assert problem["message"] == "cannot limit the rate of the interface eth0 of the switches of bed"


@pytest.mark.parametrize(
    ("program", "line", "deed"),
    [
        ("ip", "link add name h0n0 type veth peer name eth0 netns syncline.bed.h0", "make the interface h0n0"),
        ("ip", "link set eth0 mtu 1500 up", "configure the interface eth0"),
        ("ip", "address add 10.77.0.1/24 dev eth0 noprefixroute", "give an address to the interface eth0"),
        ("ip", "route add 10.77.1.0/24 dev eth1 src 10.77.0.1", "add a route by the interface eth1"),
        ("ip", "rule add pref 1000 from 10.77.0.1 lookup 1000", "add a routing rule"),
        ("tc", "class add dev eth0 parent 1: classid 1:1 htb rate 8bit", "limit the rate of the interface eth0"),
        ("tc", "class change dev eth0 parent 1: classid 1:1 htb rate 8bit", "change the rate of the interface eth0"),
        ("tc", "qdisc change dev eth0 root tbf rate 8bit", "change the rate of the interface eth0"),
    ],
)
def test_the_failed_command_is_described(monkeypatch, program, line, deed):
    says(monkeypatch, "Error: no.\nCommand failed -:1\n")
    problem = refused(lambda: kernel.batch(program, "syncline.bed.h12", [line]))
    assert problem["message"] == f"cannot {deed} of host 12 of bed"


def test_a_failure_without_output_is_reported(monkeypatch):
    says(monkeypatch, "", status=255)
    problem = refused(lambda: kernel.settings("syncline.bed.h0", {"net/ipv4/ip_forward": "0"}))
    assert problem["found"].startswith("ip netns exec syncline.bed.h0")
    assert problem["notes"] == ["ip exited with status 255 without any output"]


@pytest.mark.parametrize(
    ("script", "note", "remedy"),
    [
        ("exit 3", "tc exited with status 3 without any output", "/tc -V` should name iproute2"),
        ("kill -SEGV $$", "tc was killed by signal 11 without any output", "apt-get install --reinstall iproute2"),
        (
            "echo 'RTNETLINK answers: Invalid argument' >&2; exit 2",
            "tc says: RTNETLINK answers: Invalid argument",
            "tbf",
        ),
    ],
)
def test_a_failure_of_tc_is_reported_with_its_input(monkeypatch, tmp_path, script, note, remedy):
    fake = tmp_path / "tc"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    problem = refused(lambda: kernel.batch("tc", "syncline.bed.fabric", LINES))
    assert problem["message"] == "cannot limit the rates of the switches of bed"
    assert problem["found"] == f"tc -n syncline.bed.fabric -batch -, 3 lines, the first of which is `{LINES[0]}`"
    assert problem["notes"] == [note]
    assert remedy in problem["help"]


def test_a_missing_congestion_control_is_reported(monkeypatch, tmp_path):
    listed = tmp_path / "available"
    listed.write_text("reno cubic\n")
    monkeypatch.setattr(congestion_control, "_AVAILABLE", listed)
    kernel.require_congestion_control("cubic")
    problem = refused(lambda: kernel.require_congestion_control("cubik"))
    assert (problem["found"], problem["allowed"], problem["nearest"]) == ("cubik", "reno, cubic", "cubic")
    assert "modprobe tcp_cubik" in problem["help"]
    monkeypatch.setattr(congestion_control, "_AVAILABLE", tmp_path / "none")
    kernel.require_congestion_control("cubik")


def test_the_namespace_of_this_process_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel, "NAMESPACES", tmp_path)
    (tmp_path / "syncline.bed.h0").touch()
    assert kernel.own_namespace(["syncline.bed.h0", "syncline.bed.h1"]) is None
    (tmp_path / "syncline.bed.h1").symlink_to("/proc/self/ns/net")
    assert kernel.own_namespace(["syncline.bed.h0", "syncline.bed.h1"]) == "syncline.bed.h1"


def test_ctrl_c_waits_until_a_program_has_ended(monkeypatch):
    done = []

    def run(given, **_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        done.append(given)
        return subprocess.CompletedProcess(given, 0, "", "")

    monkeypatch.setattr(kernel.subprocess, "run", run)
    with pytest.raises(KeyboardInterrupt):
        kernel.add_namespace("syncline.bed.h0")
    assert done == [["ip", "netns", "add", "syncline.bed.h0"]]
