"""Testbeds on this machine: they come up, run commands, keep to their rates, and are always gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from syncline.testbed.check import BUSY, TOLERANCE
from tests.testbed.specs import ALONE, BOX, ONE, RACKS, needs_namespaces

pytestmark = needs_namespaces


@pytest.fixture
def name():
    """Yields the name of a testbed, and takes that testbed down."""
    chosen = f"test-{os.getpid()}"
    yield chosen
    subprocess.run([sys.executable, "-m", "syncline", "testbed", "down", chosen], capture_output=True, check=False)
    assert not left(chosen)


@pytest.fixture
def spec(cli, name):
    """Writes the file of a small testbed, and returns its name."""
    return cli.write("bed.yaml", RACKS.format(name=name))


@pytest.fixture
def bed(cli, spec, name):
    """Brings a testbed up, and returns its name."""
    done = cli("testbed", "up", spec, "--quiet")
    assert done.returncode == 0, done.stderr
    return name


def left(name):
    """Returns the namespaces of a testbed."""
    folder = Path("/run/netns")
    return sorted(each.name for each in folder.glob(f"syncline.{name}.*")) if folder.is_dir() else []


def gone(name, within_s=20.0):
    """Waits until nothing of a testbed is left, and returns whether that is so."""
    until = time.monotonic() + within_s
    while left(name) and time.monotonic() < until:
        time.sleep(0.05)
    return not left(name)


def up(cli):
    """Returns the names of testbeds that are up as a whole."""
    return [layout["name"] for layout in json.loads(cli("testbed", "status", "--json").stdout)["testbeds"]]


def start(cli, *arguments):
    """Starts a command ``syncline testbed``."""
    return subprocess.Popen(
        [sys.executable, "-m", "syncline", "testbed", *arguments],
        cwd=cli.folder,
        env=cli.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes(word):
    """Returns the processes with a word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if word.encode() in command:
            found.append(int(path.parent.name))
    return found


def test_a_testbed_comes_up_and_goes_down(cli, spec, name):
    done = cli("testbed", "up", spec)
    assert done.returncode == 0, done.stderr
    assert f"{name}  4 hosts in 2 racks, 200 Mb/s, 100 Mb/s between switches" in done.stdout
    assert f"syncline.{name}.h3" in done.stdout
    assert f"syncline testbed run {name} -- COMMAND" in done.stderr
    assert len(left(name)) == 5
    again = cli("testbed", "up", spec)
    assert again.returncode == 2
    assert "a testbed of this name is up" in again.stderr
    assert f"{name}  4 hosts in 2 racks" in cli("testbed", "status").stdout
    listed = json.loads(cli("testbed", "status", name, "--json").stdout)["testbed"]
    assert [host["rack"] for host in listed["hosts"]] == [0, 0, 1, 1]
    assert cli("testbed", "down", spec).returncode == 0
    assert not left(name)
    once_more = cli("testbed", "down", name)
    assert once_more.returncode == 2
    assert "there is no such testbed" in once_more.stderr


def test_each_process_gets_its_rank_and_host(cli, bed):
    script = "echo $RANK of $WORLD_SIZE on $SYNCLINE_HOST; cat /proc/net/dev | grep -c eth0 >&2"
    done = cli("testbed", "run", bed, "--hosts", "2,0-1", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] 0 of 3 on 2", "[1] 1 of 3 on 0", "[2] 2 of 3 on 1"]
    assert sorted(done.stderr.splitlines()) == ["[0] 1", "[1] 1", "[2] 1"]


def test_hosts_reach_each_other_with_the_files_congestion_control(cli, bed):
    program = """
import os, socket
rank, peers = int(os.environ["RANK"]), os.environ["SYNCLINE_PEERS"].split(",")
if rank == 0:
    listener = socket.create_server((peers[0], 7000))
    for _ in peers[1:]:
        sock, (address, _) = listener.accept()
        control = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\\0")[0]
        print(address, sock.recv(16).decode(), control.decode())
else:
    for _ in range(200):
        try:
            sock = socket.create_connection((peers[0], 7000))
            break
        except OSError:
            import time; time.sleep(0.05)
    sock.sendall(str(rank).encode())
    sock.recv(1)
"""
    done = cli("testbed", "run", bed, "--timeout", "30s", "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[0] 10.77.0.{rank + 1} {rank} cubic" for rank in (1, 2, 3)]


def test_a_process_that_fails_is_named_and_ends_the_others(cli, bed):
    script = "if [ $RANK = 2 ]; then exit 7; fi; sleep 600"
    began = time.monotonic()
    done = cli("testbed", "run", bed, "--", "sh", "-c", script)
    assert done.returncode == 6
    assert "rank 2 on host 2 ended with status 7" in done.stderr
    assert "3 others failed or were ended after it" in done.stderr
    assert time.monotonic() - began < 30
    done = cli("testbed", "run", bed, "--hosts", "1", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 6
    assert "rank 0 on host 1 was ended by SIGKILL" in done.stderr


def test_a_command_may_time_out(cli, bed):
    done = cli("testbed", "run", bed, "--timeout", "1s", "--", "sh", "-c", "[ $RANK = 1 ] || sleep 600")
    assert done.returncode == 6
    assert "the command timed out after 1 s" in done.stderr
    assert "still running: rank 0, 2, 3" in done.stderr


def test_long_lines_and_invalid_utf8_are_printed(cli, bed):
    program = "import os; os.write(1, b'x' * 200_000 + b'\\n\\xff\\nlast')"
    done = cli("testbed", "run", bed, "--hosts", "0,1", "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    of_first = [line.removeprefix("[0] ") for line in done.stdout.splitlines() if line.startswith("[0]")]
    assert "".join(of_first[:-2]) == "x" * 200_000
    assert of_first[-2:] == ["\N{REPLACEMENT CHARACTER}", "last"]


def test_background_processes_are_not_waited_for(cli, bed):
    # The background process writes faster than its output is read.
    script = "printf first; [ $RANK = 1 ] || (exec yes) & sleep 1"
    done = cli("testbed", "run", bed, "--hosts", "0,1", "--timeout", "40s", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    # The last line has no newline, and a background process keeps the stream open.
    script = "sleep 30 & printf last"
    done = cli("testbed", "run", bed, "--hosts", "0,1", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] last", "[1] last"]


def test_a_testbed_made_for_a_command_is_gone_afterwards(cli, spec, name):
    done = cli("testbed", "run", spec, "--", "sh", "-c", "echo $SYNCLINE_TESTBED")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] {name}" for rank in range(4)]
    assert not left(name)


def test_rates_are_those_of_the_file(cli, spec):
    done = cli("testbed", "check", spec, "--json")
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    rates = {rate["what"]: rate for rate in found["rates"]}
    # Shaping never lets through more than the rate. A busy machine may let through less.
    for rate in rates.values():
        assert rate["measured_bits"] < (1 + TOLERANCE) * rate["expected_bits"], rate
        if rate["cores"] < BUSY * (os.cpu_count() or 1):
            assert rate["measured_bits"] > (1 - TOLERANCE) * rate["expected_bits"], rate
            assert rate["holds"], rate
        else:
            assert rate["measured_bits"] > 0.5 * rate["expected_bits"], rate
    assert rates["one flow across racks"]["expected_bits"] == pytest.approx(100e6 * 1448 / 1514)
    assert [latency["what"] for latency in found["latencies"]] == ["in a rack", "across racks"]
    assert all(0 < latency["least_s"] <= latency["median_s"] < 0.1 for latency in found["latencies"])


def test_check_finds_one_slow_host_of_many(cli, name):
    spec = cli.write("bed.yaml", f"name: {name}\nfabric: {{ switch: {{ hosts: 12, rate: 50Mb/s }} }}\n")
    assert cli("testbed", "up", spec, "--quiet").returncode == 0
    # The slow host lowers the rate of all hosts together by only a thirtieth.
    slower = ["class", "change", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", "rate", "30mbit"]
    subprocess.run(["tc", "-n", f"syncline.{name}.h7", *slower, "burst", "64k", "cburst", "64k"], check=True)
    done = cli("testbed", "check", name, "--json")
    assert done.returncode == 1, done.stderr
    (rate,) = [each for each in json.loads(done.stdout)["rates"] if each["what"] == "all hosts, in a rack"]
    assert not rate["holds"]
    assert [(each["from"], each["to"]) for each in rate["slow"]][:1] == [("host 7", "host 8")]


def test_a_file_with_another_fabric_cannot_use_a_testbed_that_is_up(cli, spec, bed):
    other = cli.write(
        "other.yaml", (cli.folder / spec).read_text("utf-8").replace("hosts_per_leaf: 2", "hosts_per_leaf: 3")
    )
    for command in (["run", other, "--", "true"], ["check", other], ["up", other]):
        done = cli("testbed", *command)
        assert done.returncode == 2
        assert "SL1103" in done.stderr
        assert "a testbed of this name is up with another fabric" in done.stderr
        assert "number of hosts: 4 in the testbed, 6 in the file" in done.stderr
        assert f"syncline testbed down {bed}" in done.stderr
    done = cli("testbed", "run", spec, "--set", "fabric.leaf_spine.rate=100Mb/s", "--", "true")
    assert done.returncode == 2
    assert "rate of eth0 of host 0: 200 Mb/s in the testbed, 100 Mb/s in the file" in done.stderr
    # A file with the same fabric uses the testbed; latencies do not matter, because they are not emulated.
    done = cli("testbed", "run", spec, "--set", "fabric.leaf_spine.latency=1ms", "--", "true")
    assert done.returncode == 0, done.stderr
    assert len(left(bed)) == 5


def test_warnings_name_what_is_not_emulated(cli, spec, name):
    late = "fabric.leaf_spine.latency=10ms"
    done = cli("testbed", "run", spec, "--set", late, "--hosts", "0", "--", "true")
    assert done.returncode == 0, done.stderr
    assert "warning[SL1102]: latencies of links are not emulated" in done.stderr
    assert "up to 10 ms per link" in done.stderr
    done = cli("testbed", "up", spec, "--set", late)
    assert done.returncode == 0, done.stderr
    assert "warning[SL1102]: latencies of links are not emulated" in done.stderr
    done = cli("testbed", "check", spec, "--set", late, "--json")
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert [each["code"] for each in found["diagnostics"]] == ["SL1102"]
    assert [latency["file_s"] for latency in found["latencies"]] == pytest.approx([0.04, 0.08])
    assert all(latency["least_s"] < 0.01 for latency in found["latencies"])


TRANSFER = """
import json, os, socket, sys, threading, time

rank, addresses, size = int(os.environ["RANK"]), sys.argv[1].split(","), 8 << 20
outward = sys.argv[2] == "out"


def counters(which):
    out = {}
    for interface in os.environ["SYNCLINE_INTERFACES"].split(","):
        with open(f"/sys/class/net/{interface}/statistics/{which}_bytes") as file:
            out[interface] = int(file.read())
    return out


def move(sock, send):
    if send:
        sock.sendall(bytes(size))
        sock.shutdown(socket.SHUT_WR)
    while sock.recv(1 << 20):
        pass
    sock.close()


if rank == 0:
    listeners = [socket.create_server((address, 7000)) for address in addresses]
    socks = [listener.accept()[0] for listener in listeners]
    before, began = counters("tx" if outward else "rx"), time.monotonic()
    threads = [threading.Thread(target=move, args=(sock, outward)) for sock in socks]
    for sock in socks:
        sock.sendall(b"!")
else:
    sock = None
    while sock is None:
        try:
            sock = socket.create_connection((addresses[rank - 1], 7000))
        except OSError:
            time.sleep(0.02)
    sock.recv(1)
    threads = [threading.Thread(target=move, args=(sock, not outward))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if rank == 0:
    after, took = counters("tx" if outward else "rx"), time.monotonic() - began
    print(json.dumps({"bits": 8 * 2 * size / took, "bytes": [after[each] - before[each] for each in before]}))
"""
"""Rank 0 sends to two ranks, or they send to it, each through another address; it prints its interfaces' counters."""


@pytest.mark.parametrize("direction", ["out", "in"])
def test_a_hub_sends_and_receives_through_each_of_its_interfaces(cli, name, direction):
    spec = cli.write("bed.yaml", BOX.format(name=name))
    done = cli("testbed", "up", spec, "--json")
    assert done.returncode == 0, done.stderr
    hub = json.loads(done.stdout)["testbed"]["hosts"][0]
    addresses = ",".join(nic["address"] for nic in hub["nics"])
    program = [sys.executable, "-c", TRANSFER, addresses, direction]
    done = cli("testbed", "run", name, "--timeout", "40s", "--", *program)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.removeprefix("[0] "))
    # A single interface would carry only 100 Mb/s and count all bytes.
    assert found["bits"] < 200e6
    assert found["bits"] > 130e6
    for count in found["bytes"]:
        assert 8 << 20 < count < 1.2 * (8 << 20)


SUM = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
vector = torch.full((1000,), float(dist.get_rank() + 1))
dist.all_reduce(vector)
print(dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_RANK"], vector.min().item(), vector.max().item())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("hosts", ["0,2", "0,0,3"])
def test_torchrun_sums_over_hosts(cli, bed, hosts):
    pytest.importorskip("torch", reason="torchrun comes with PyTorch, which is not installed")
    program = cli.write("sum.py", SUM)
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    done = cli("testbed", "run", bed, "--hosts", hosts, "--timeout", "50s", "--", *torchrun, program)
    assert done.returncode == 0, done.stderr
    world = hosts.count(",") + 1
    total = float(sum(range(1, world + 1)))
    lines = sorted(line.partition("] ")[2] for line in done.stdout.splitlines())
    assert lines == [f"{rank} {world} 0 {total} {total}" for rank in range(world)]


def test_ranks_may_share_a_host(cli, bed):
    script = "echo $RANK $LOCAL_RANK of $LOCAL_WORLD_SIZE on $SYNCLINE_HOST"
    done = cli("testbed", "run", bed, "--hosts", "1,0,1", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] 0 0 of 2 on 1", "[1] 1 0 of 1 on 0", "[2] 2 1 of 2 on 1"]


def test_a_testbed_of_another_process_is_left_alone(cli, bed):
    from syncline.errors import SynclineError
    from syncline.testbed import lifecycle
    from syncline.testbed.spec import read

    # A testbed of the same name is up already.
    with (
        pytest.raises(SynclineError, match="a testbed of this name is up"),
        lifecycle.temporary(read(str(cli.folder / "bed.yaml"))),
    ):
        pass
    assert not lifecycle.down(bed, maker=os.getpid())
    assert len(left(bed)) == 5
    assert cli("testbed", "run", bed, "--", "true").returncode == 0


def test_a_testbed_that_replaced_ours_is_left_alone(cli, spec, name):
    from syncline.testbed import lifecycle
    from syncline.testbed.spec import read

    with lifecycle.temporary(read(str(cli.folder / spec))):
        assert cli("testbed", "down", name).returncode == 0
        assert cli("testbed", "up", spec, "--quiet").returncode == 0
    assert len(left(name)) == 5
    assert cli("testbed", "run", name, "--", "true").returncode == 0


def test_a_testbed_cannot_be_taken_down_from_one_of_its_hosts(cli, bed):
    down = [sys.executable, "-m", "syncline", "testbed", "down"]
    for which in (bed, "bed.yaml"):
        done = cli("testbed", "run", bed, "--hosts", "3", "--", *down, which)
        assert done.returncode == 6
        assert "a testbed cannot be taken down from one of its hosts" in done.stderr
        assert f"host 3 of {bed}" in done.stderr
        assert "rank 0 on host 3 ended with status 2" in done.stderr
    assert len(left(bed)) == 5


def test_check_refuses_a_testbed_of_one_host(cli, name):
    done = cli("testbed", "check", cli.write("one.yaml", ONE.format(name=name)), "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["diagnostics"][0]["message"] == "there is nothing to measure"


def test_check_names_an_interface_that_reaches_no_other_host(cli, name):
    done = cli("testbed", "check", cli.write("bed.yaml", ALONE.format(name=name)))
    assert done.returncode in (0, 1), done.stderr
    assert "Not measured: host 1 eth1, which reaches no other host." in done.stdout
    assert "Measuring takes about" in done.stderr


def test_a_host_without_links_is_refused(cli, name):
    file = cli.write("one.yaml", f"name: {name}\nfabric: {{ switch: {{ hosts: 1, rate: 1Gb/s }} }}\n")
    done = cli("testbed", "check", file)
    assert done.returncode == 2
    assert "a host has no links" in done.stderr


def test_ctrl_c_ends_everything(cli, spec, name):
    word = f"for-{name}"
    running = start(cli, "run", spec, "--", "sh", "-c", f"echo {word}; sleep 600")
    assert word in running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "interrupted" in said
    assert gone(name)
    assert not processes(word)


def test_a_killed_run_leaves_no_processes_and_no_testbed(cli, spec, name):
    word = f"for-{name}"
    running = start(cli, "run", spec, "--", "sh", "-c", f"echo {word}; sleep 600")
    assert word in running.stdout.readline()
    running.kill()
    running.communicate(timeout=30)
    assert gone(name)
    assert not processes(word)


def test_a_killed_run_keeps_a_testbed_that_was_up_before(cli, bed):
    word = f"for-{bed}"
    running = start(cli, "run", bed, "--", "sh", "-c", f"echo {word}; sleep 600")
    assert word in running.stdout.readline()
    running.kill()
    running.communicate(timeout=30)
    until = time.monotonic() + 20
    while processes(word) and time.monotonic() < until:
        time.sleep(0.05)
    assert not processes(word)
    assert len(left(bed)) == 5
    assert cli("testbed", "run", bed, "--", "true").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_testbed_that_did_not_come_up(cli, spec, name, number):
    for pause in (0.0, 0.05, 0.15):
        running = start(cli, "up", spec)
        until = time.monotonic() + 30
        while not left(name) and running.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(pause)
        running.send_signal(number)
        running.communicate(timeout=30)
        if running.returncode == 0:
            # The command ended before the signal.
            assert cli("testbed", "down", name).returncode == 0
        elif name in up(cli):
            # The testbed was up, but the command had not ended: it stays, or the cleanup process takes it down now.
            cli("testbed", "down", name)
        assert gone(name), f"left over after {pause} s: {left(name)}"


def test_down_ends_processes_on_hosts(cli, bed):
    word = f"for-{bed}"
    running = start(cli, "run", bed, "--", "sh", "-c", f"echo {word}; trap '' TERM; sleep 600")
    assert word in running.stdout.readline()
    assert cli("testbed", "down", bed).returncode == 0
    assert not left(bed)
    running.communicate(timeout=30)
    assert running.returncode == 6
    assert not processes(word)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "no-such-bed", "--", "true"], "there is no such testbed"),
        (["run", "no-such.yaml", "--", "true"], "no-such.yaml"),
        (["check", "no-such-bed"], "there is no such testbed"),
        (["status", "no-such-bed"], "there is no such testbed"),
        (["down"], "no testbed is named"),
        (["run", "no-such-bed"], "no command is given"),
        (["run", "no-such-bed", "--hosts", "1,x", "--", "true"], "not a list of hosts"),
        (["run", "no-such-bed", "--hosts", "3-1", "--", "true"], "not a list of hosts"),
        (["run", "no-such-bed", "--hosts", "9" * 5000, "--", "true"], "not a list of hosts"),
        (["run", "no-such-bed", "--timeout", "5", "--", "true"], "unit"),
    ],
)
def test_invalid_arguments_are_reported(cli, arguments, words):
    done = cli("testbed", *arguments)
    assert done.returncode in (2, 3)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_invalid_hosts_are_reported_before_a_testbed_comes_up(cli, spec, name):
    for hosts, found in (("0,9", 9), ("0-999999999999", 999999999999), ("1-4", 4)):
        done = cli("testbed", "run", spec, "--hosts", hosts, "--", "true")
        assert done.returncode == 2
        assert "there is no such host" in done.stderr
        assert f"`--hosts`, found `{found}`, allowed: 0 to 3" in done.stderr
    done = cli("testbed", "run", spec, "--hosts", ",".join(["0-3"] * 1025), "--", "true")
    assert done.returncode == 2
    assert "`--hosts`, found `4100 ranks`, allowed: at most 4096" in done.stderr


def test_missing_hosts_and_commands_are_reported(cli, bed):
    done = cli("testbed", "run", bed, "--hosts", "0,9", "--", "true")
    assert done.returncode == 2
    assert "there is no such host" in done.stderr
    done = cli("testbed", "run", bed, "--", "no-such-command")
    assert done.returncode == 6
    assert "rank" in done.stderr


def test_an_unknown_congestion_control_is_refused(cli, spec, name):
    done = cli("testbed", "up", spec, "--set", "congestion_control=cubik")
    assert done.returncode == 2
    assert "this kernel has no such congestion control" in done.stderr
    assert not left(name)


ONE_PACKET = """
import os, socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for _ in range(100):
        sender.sendto(bytes(1000), (os.environ["SYNCLINE_PEERS"].split(",")[1], 7000))
"""


@needs_namespaces
def test_packets_go_only_to_their_host_even_if_it_never_sends(cli, name):
    cli.write("bed.yaml", RACKS.format(name=name))
    assert cli("testbed", "up", "bed.yaml", "--quiet").returncode == 0

    def sent():
        command = ["ip", "-n", f"syncline.{name}.fabric", "-s", "-j", "link", "show"]
        shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return {each["ifname"]: each["stats64"]["tx"]["packets"] for each in shown}

    before = sent()
    assert cli("testbed", "run", name, "--hosts", "0,3", "--", sys.executable, "-c", ONE_PACKET).returncode == 0
    more = {port: count - before[port] for port, count in sent().items()}
    assert more["h3n0"] >= 100
    # A flood would be 100. Hosts look for their neighbours now and then: the more often, the longer this takes.
    assert more["h1n0"] < 50 and more["h2n0"] < 50
