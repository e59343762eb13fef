"""Output streams that cannot be written, or that no process reads."""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli

COMMANDS = [
    ["--version"],
    ["--help"],
    ["simulate", "ring.yaml"],
    ["simulate", "ring.yaml", "--json"],
    ["simulate", "none.yaml", "--json"],
    ["check", "ring.yaml"],
    ["show", "fabric", "ring.yaml"],
    ["init", "new", "--force"],
    ["explain", "SL0104"],
    ["explain", "queue_delay_s"],
    ["doctor"],
    ["astra-sim", "--help"],
]


def run(cli: Cli, redirection: str, arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", f'"$@" {redirection}', "bash", sys.executable, "-m", "syncline", *arguments],
        cwd=cli.folder,
        env=cli.environment(**environment),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_is_not_reported_as_a_bug(arguments: list[str], unbuffered: str, cli: Cli, ring: str) -> None:
    done = run(cli, "> /dev/full", arguments, PYTHONUNBUFFERED=unbuffered)
    reason = os.strerror(errno.ENOSPC).lower()
    assert done.returncode == 3
    assert done.stderr.rstrip().endswith(f"error[SL0801]: cannot be written: {reason}\n--> stdout")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_closed_pipe_is_not_an_error(arguments: list[str], cli: Cli, ring: str) -> None:
    done = run(cli, "| exec true", arguments)
    assert done.returncode == 0 or "none.yaml" in arguments
    assert "SL0801" not in done.stderr
    assert "rror:" not in done.stderr


@pytest.mark.parametrize("stream", ["1", "2"])
def test_output_to_a_closed_stream_is_dropped(stream: str, cli: Cli, ring: str) -> None:
    done = run(cli, f"{stream}>&-", ["simulate", ring])
    assert done.returncode == 0
    said = (done.stdout, done.stderr)
    assert [bool(text) for text in said] == [stream == "2", stream == "1"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_exit_status_is_kept_if_stderr_is_full(cli: Cli, ring: str) -> None:
    assert run(cli, "2> /dev/full", ["simulate", ring]).returncode == 0
    assert run(cli, "2> /dev/full", ["simulate", "none.yaml"]).returncode == 3


@pytest.mark.parametrize("columns", [60, 100])
def test_notes_and_help_fit_the_terminal(cli: Cli, columns: int) -> None:
    """Output to a terminal is wrapped between words; output to a file is not wrapped."""
    file = cli.write(
        "large.yaml",
        """\
schema: syncline/1
workload: { collective: all_reduce, bytes: 1000001B }
fabric: { shape: FC(3000), rate: 100GB/s, latency: 1us }
""",
    )
    terminal, other = pty.openpty()
    command = [sys.executable, "-m", "syncline", "check", file]
    environment = cli.environment(COLUMNS=str(columns))
    with subprocess.Popen(command, cwd=cli.folder, env=environment, stderr=other, stdout=subprocess.DEVNULL):
        os.close(other)
        shown = b""
        # Reading fails once no process has the terminal open any more.
        with contextlib.suppress(OSError):
            while part := os.read(terminal, 1 << 16):
                shown += part
    os.close(terminal)
    whole = cli("check", file).stderr

    def help_of(text: str) -> list[str]:
        return text[text.index("= note: ranks are simulated") :].splitlines()

    assert max(map(len, help_of(shown.decode()))) <= columns < max(map(len, help_of(whole)))
    assert " ".join(shown.decode().split()) == " ".join(whole.split())
