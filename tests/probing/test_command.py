"""The command ``syncline probe``: its output, its file and its exit status."""

from __future__ import annotations

import json
import sys

import pytest

from syncline.distances import read

HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
LAUNCH = ("--launch", f"{sys.executable} -")


def test_a_probe_prints_a_summary_and_writes_a_file(cli):
    done = cli("probe", *HOSTS, *LAUNCH, "--samples", "40", "--what", "both")
    assert done.returncode == 0, done.stderr
    first, *_ = done.stdout.splitlines()
    assert first.startswith("3 hosts, 6 of 6 pairs in 6 rounds, ")
    words = " ".join(done.stdout.split())
    assert "10th percentiles of 40 samples a pair, by the kernel's times of receipt" in words
    assert "Of 240 echoes 0.0 % were lost" in words
    assert "rate" in words
    assert "Measurements are in probe.parquet" in done.stderr
    assert "syncline group probe.parquet" in done.stderr
    assert "syncline reorder probe.parquet" in done.stderr
    measured = read(str(cli.folder / "probe.parquet"))
    assert measured.hosts == HOSTS
    assert len(measured.round_trips) == len(measured.rates) == 3


def test_json_holds_the_whole_outcome(cli):
    cli.write("hosts", "127.0.0.2 slots=4\n127.0.0.3 # second\n")
    done = cli("probe", "--hosts", "hosts", *LAUNCH, "--samples", "40", "--out", "few.csv", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["exit_status"], found["file"], found["hosts"]) == (0, "few.csv", list(HOSTS[:2]))
    assert [each["samples"] for each in found["pairs"]] == [40, 40]
    saved = read(str(cli.folder / "few.csv"))
    assert [pair.rtt_s for pair in saved.pairs.values()] == [each["rtt_s"] for each in found["pairs"]]


def test_failed_hosts_give_an_exit_status_unless_they_are_allowed(cli):
    launch = f"sh -c 'test {{host}} != 127.0.0.4 && exec {sys.executable} -q -i -u; echo is down >&2; exit 3' -"
    done = cli("probe", *HOSTS, "--launch", launch, "--samples", "40")
    assert done.returncode == 6
    assert "host 127.0.0.4 failed: the launch command ended with status 3: is down" in done.stderr
    assert read(str(cli.folder / "probe.parquet")).hosts == HOSTS[:2]
    done = cli("probe", *HOSTS, "--launch", launch, "--samples", "40", "--allow-missing", "--force", "--quiet")
    assert done.returncode == 0
    assert "is down" in done.stderr
    assert "Measurements" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        ((), "SL1301", 2),
        (("a",), "SL1301", 2),
        (("a", "a"), "SL1301", 2),
        (("a", "b", "--hosts", "hosts"), "SL0102", 2),
        (("--hosts", "nowhere"), "SL0105", 3),
        (("a", "b", "--budget", "5"), "SL0104", 2),
        (("a", "b", "--samples", "3"), "SL0102", 2),
        (("a", "b", "--what", "rate", "--schedule", "sampled"), "SL0102", 2),
        (("a", "b", "--tls", "certs"), "SL0102", 2),
        (("a", "b", "--job"), "SL0102", 2),
        (("a", "b", "--launch", "no-such-program -"), "SL0102", 2),
        (("a", "b", "--launch", "sh -", "--out", "there.parquet"), "SL0102", 2),
        (("a", "b", "--launch", "sh -", "--out", "no/where.parquet"), "SL0801", 3),
    ],
)
def test_wrong_usage_is_found_before_anything_starts(cli, arguments, code, status):
    cli.write("there.parquet", "")
    done = cli("probe", *arguments)
    assert done.returncode == status
    assert f"error[{code}]" in done.stderr
