"""``syncline astra-sim``: flags, results folder, native runs."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli

NETWORK = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 50,
}
SCENARIO = "workload: { collective: all_reduce, bytes: 1MiB }\nfabric: { shape: Ring(4), rate: 50GiB/s }\n"


@pytest.fixture
def flags(cli: Cli) -> list[str]:
    """The flags that ASTRA-sim needs, except the remote memory."""
    cli.write("traces/x", "")
    assert cli("convert", cli.write("job.yaml", SCENARIO), "traces/w.et").returncode == 0
    return [
        "--workload-configuration=traces/w",
        f"--system-configuration={cli.write('system.json', json.dumps(SYSTEM))}",
        f"--network-configuration={cli.write('network.yml', NETWORK)}",
    ]


def memory(cli: Cli, kind: str) -> str:
    values = {"memory-type": kind, "remote-mem-latency": 100, "remote-mem-bw": 50}
    return f"--remote-memory-configuration={cli.write('memory.json', json.dumps(values))}"


@pytest.mark.parametrize("native", [[], ["--native"]])
@pytest.mark.parametrize("kind", [None, "NO_MEMORY_EXPANSION"])
def test_a_run_without_remote_memory_succeeds(kind: str | None, native: list[str], cli: Cli, flags: list[str]) -> None:
    done = cli("astra-sim", *flags, *native, *([memory(cli, kind)] if kind else []))
    assert done.returncode == 0
    assert "Results are in runs/traces-w\n" in done.stderr


def test_native_refuses_a_remote_memory(cli: Cli, flags: list[str]) -> None:
    done = cli("astra-sim", *flags, "--native", memory(cli, "PER_NPU_MEMORY_EXPANSION"))
    assert done.returncode == 2
    assert "error[SL0702]: remote memory is not modelled with --native\n --> memory.json:1:2" in done.stderr
    assert cli("astra-sim", *flags, memory(cli, "PER_NPU_MEMORY_EXPANSION")).returncode == 0


def test_native_reads_the_memory_file(cli: Cli, flags: list[str]) -> None:
    done = cli("astra-sim", *flags, "--native", memory(cli, "NO_MEMORY_EXPANSON"))
    assert done.returncode == 2
    assert "did you mean `NO_MEMORY_EXPANSION`?" in done.stderr


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [
        ("traces/job", "runs/traces-job"),
        ("/data/a/w", "runs/a-w"),
        ("w", "runs/w"),
        ("../w", "runs/w"),
        ("all_reduce/all_reduce", "runs/all_reduce"),
        ("../..", "runs/scenario"),
    ],
)
def test_jobs_of_the_same_name_have_different_folders(prefix: str, folder: str) -> None:
    from syncline.cli.commands.folder import of_traces

    assert of_traces(prefix) == folder


def test_a_folder_with_other_files_is_not_replaced(cli: Cli, flags: list[str]) -> None:
    cli.write("runs/traces-w/notes.txt", "mine")
    done = cli("astra-sim", *flags)
    assert done.returncode == 3
    assert "SL0801" in done.stderr
    assert (cli.folder / "runs/traces-w/notes.txt").read_text() == "mine"
