"""The command ``syncline hub``."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from array import array

import pytest

from syncline.errors import SynclineError
from syncline.hub import Hub, HubResources, Service
from syncline.hub import status as hub_status
from syncline.hub.metrics import serve as serve_metrics
from syncline.runtime import TimeLimits
from tests.runtime.jobs import free_port

COMMAND = [sys.executable, "-m", "syncline", "hub"]


@contextlib.contextmanager
def served(*arguments):
    """Runs ``syncline hub serve``, and yields its process and address."""
    port = free_port()
    command = [*COMMAND, "serve", "--port", str(port), "--log", "json", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            event = {}
            while event.get("event") != "listening":
                line = process.stderr.readline()
                assert line, "it listens"
                event = json.loads(line)
                process.metrics = event.get("address", getattr(process, "metrics", None))
            yield process, f"127.0.0.1:{port}"
        finally:
            process.kill()


def run(*arguments, status=0):
    found = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60)
    assert found.returncode == status, found.stderr
    assert "Traceback" not in found.stderr
    return found


def events(process):
    out, err = process.communicate(timeout=30)
    assert not out
    return [json.loads(line) for line in err.splitlines()]


def test_sigterm_ends_a_hub_after_its_jobs():
    with served("--cores", "2") as (process, address):
        with Hub.join(address, {"w": ("f32", 1000)}, rank=0, world=1, job="mine") as hub:
            process.send_signal(signal.SIGTERM)
            while json.loads(process.stderr.readline())["event"] != "draining":
                pass
            late = run("bench", address, "--world", "1", status=6)
            assert "takes no new jobs" in late.stderr
            vector = array("f", [3.0]) * 1000
            assert hub.push_pull("w", vector).wait()
        reported = events(process)
        assert process.returncode == 0
    kinds = [event["event"] for event in reported]
    assert kinds[-3:] == ["rank_left", "job_ended", "ended"], reported
    assert all(event["job"] == "mine" for event in reported if event["event"] == "job_ended")


def test_jobs_are_cut_off_when_the_drain_time_is_over():
    with served("--drain", "0.3") as (process, address):
        hub = Hub.join(address, {"w": ("f32", 10)}, rank=0, world=1)
        process.send_signal(signal.SIGTERM)
        assert events(process)[-1]["event"] == "ended"
        assert process.returncode == 6
        hub.close()


def test_status_shows_each_job_and_its_bytes():
    with Service(port=0, resources=HubResources(cores=2)) as service:
        address = service.addresses[0]
        assert "no jobs" in run("status", address).stdout
        with Hub.join(address, {"w": ("f32", 100_000)}, rank=0, world=1, job="resnet") as hub:
            for _ in range(3):
                hub.push_pull("w", array("f", [0.0]) * 100_000).wait()
            shown = run("status", address).stdout
            found = json.loads(run("status", address, "--json").stdout)["hub"]
    assert "resnet" in shown
    assert "1 active" in shown
    assert "1.2 MB" in shown
    job = found["jobs"][0]
    assert (job["chunks"], job["steps"], sum(job["bytes_in"])) == (13, 39, 1_200_000)


def test_bench_reports_its_measurements():
    with Service(port=0, resources=HubResources(cores=2)) as service:
        found = run("bench", service.addresses[0], "--world", "3", "--size", "1MB", "--steps", "5", "--json")
        measured = json.loads(found.stdout)
        assert (measured["ranks"], measured["bytes"], measured["steps"], measured["chunk"]) == (3, 1_000_000, 5, 32768)
        assert 0 < measured["median_s"] <= measured["p95_s"]
        text = run("bench", service.addresses[0], "--world", "2", "--size", "64KiB", "--steps", "3").stdout
        assert "exchanges/s" in text
    for option, text, words in (
        ("--size", "much", "`--size`, found `much`"),
        ("--size", "0B", "a multiple of 4B"),
        ("--size", "7B", "a multiple of 4B"),
        ("--size", "100000GB", "`--size`, found `100000GB`"),
        ("--chunk", "xx", "`--chunk`, found `xx`"),
        ("--chunk", "0B", "`--chunk`, found `0B`, allowed: 64 B to 64 MiB"),
        ("--chunk", "63B", "`--chunk`, found `63B`"),
        ("--chunk", "67108865B", "`--chunk`, found `67108865B`"),
        ("--chunk", "100000GB", "`--chunk`, found `100000GB`"),
    ):
        assert words in run("bench", option, text, status=2).stderr
    many = run("bench", "--world", "1", "--size", "268435460B", "--chunk", "64B", status=2).stderr
    assert "`--chunk`, found `64B`" in many
    assert "at most 4194304 chunks; this size makes 4194305" in many


def test_refused_connections_are_logged(tmp_path):
    key = tmp_path / "job.key"
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    with served("--cores", "1", "--key-file", str(key)) as (process, address):
        host, _, port = address.rpartition(":")
        for _ in range(3):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(4096))
                with contextlib.suppress(ConnectionResetError):
                    while stranger.recv(4096):
                        pass
        time.sleep(1.5)
        process.send_signal(signal.SIGTERM)
        refusals = [event for event in events(process) if event["event"] == "connection_refused"]
    assert len(refusals) == 3
    assert refusals[-1]["refused"] == 3
    assert all(event["from"].startswith("127.0.0.1:") and event["why"] for event in refusals)


def test_jobs_use_no_more_memory_than_the_hub_is_given():
    with served("--cores", "2", "--memory", "1MB") as (_, address):
        # A value, and the sums of two steps, of seven chunks of 32 KiB or eight; and four for the rank at each core.
        with Hub.join(address, {"w": ("f32", 57_344)}, rank=0, world=1, job="fits"):
            (job,) = hub_status(address)["jobs"]
            assert (3 * 7 + 2 * 4) * 32_768 <= job["memory"] <= 1_000_000
        with pytest.raises(SynclineError, match=r"job `large` needs 0\.001 GB of the hub's memory"):
            Hub.join(address, {"w": ("f32", 58_000)}, rank=0, world=1, job="large", limits=TimeLimits(wait_s=60.0))


def test_a_job_waits_for_memory_that_other_jobs_hold():
    with served("--cores", "2", "--memory", "1MB") as (process, address):
        one = {"w": ("f32", 57_344)}
        with concurrent.futures.ThreadPoolExecutor() as threads:
            with Hub.join(address, one, rank=0, world=1, job="first"):
                second = threads.submit(
                    Hub.join, address, one, rank=0, world=1, job="second", limits=TimeLimits(wait_s=60.0)
                )
                while json.loads(process.stderr.readline())["event"] != "rank_refused":
                    pass
                with pytest.raises(SynclineError, match=r"refused: job `third` needs .*, where other jobs have"):
                    Hub.join(address, one, rank=0, world=1, job="third", limits=TimeLimits(wait_s=3.0))
            second.result().close()


def test_doctor_finds_a_readable_key_a_taken_port_and_an_absent_hub(tmp_path):
    key = tmp_path / "job.key"
    key.write_bytes(b"x" * 32)
    key.chmod(0o644)
    with Service(port=0, resources=HubResources(cores=1)) as service:
        address = service.addresses[0]
        found = json.loads(run("doctor", address, "--json").stdout)
        assert any(row["what"] == f"hub {address}" and row["state"] == "ok" for row in found["findings"])
        port = address.rpartition(":")[2]
        taken = run("doctor", "--listen", "127.0.0.1", "--port", port, "--key-file", str(key), status=1).stdout
    assert "others may read the key" in taken
    assert "Address already in use" in taken
    assert "cannot be reached" in " ".join(run("doctor", "127.0.0.1:1", status=1).stdout.split())


def test_metrics_without_their_package_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with Service(["127.0.0.1"], port=0) as service, pytest.raises(SynclineError, match="pip install") as caught:
        serve_metrics(service, "127.0.0.1:0")
    assert (caught.value.diagnostics[0]["code"], caught.value.exit_status) == ("SL0902", 2)


def test_metrics_are_served_to_prometheus():
    pytest.importorskip("prometheus_client", reason="the extra `metrics` is not installed")
    with served("--metrics", "127.0.0.1:0") as (process, address):
        with Hub.join(address, {"w": ("f32", 1000)}, rank=0, world=1, job="mine") as hub:
            hub.push_pull("w", array("f", [0.0]) * 1000).wait()
            for _ in range(100):
                text = urllib.request.urlopen(f"http://{process.metrics}/metrics", timeout=10).read().decode()
                if 'syncline_hub_chunk_steps_total{job="mine"} 1.0' in text:
                    break
                # The hub updates its status a few times a second.
                time.sleep(0.05)
        assert 'syncline_hub_ranks{job="mine",state="active"} 1.0' in text
        assert 'syncline_hub_chunk_steps_total{job="mine"} 1.0' in text
        # The totals still include a job's bytes after the job is gone.
        for _ in range(100):
            text = urllib.request.urlopen(f"http://{process.metrics}/metrics", timeout=10).read().decode()
            if 'job="mine"' not in text:
                break
            time.sleep(0.05)
        assert 'job="mine"' not in text
        assert "syncline_hub_all_chunk_steps_total 1.0" in text
        assert "syncline_hub_all_bytes_received_total 4000.0" in text


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["serve", "--listen", "192.0.2.1"], 2, "anybody who reaches this address"),
        (["serve", "--listen", "192.0.2.1", "--insecure"], 6, "cannot listen"),
        (["serve", "--key-file", "no.such.key"], 2, "the key cannot be read"),
        (["serve", "--congestion", "cubik"], 2, "did you mean `cubic`?"),
        (["serve", "--listen", ""], 2, "the address has no host"),
        (["serve", "--memory", "lots"], 2, "`--memory`, found `lots`"),
        (["serve", "--memory", "0GB"], 2, "too little memory for a hub"),
        (["status", "foo:bar"], 2, "the port is not valid"),
        (["status", "foo:70000"], 2, "the port is not valid"),
        (["serve", "--port", "70000"], 2, "less than or equal to 65535"),
        (["status", "127.0.0.1:1"], 6, "cannot be reached"),
        (["status", "nowhere.invalid"], 2, "the host's address cannot be found"),
    ],
)
def test_invalid_arguments_are_reported(arguments, status, words):
    assert words in run(*arguments, status=status).stderr
