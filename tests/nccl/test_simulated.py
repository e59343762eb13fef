"""Simulations with a calibrated NCCL take the times of the calibrated model, on every machine of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline import nccl
from syncline.errors import SynclineError
from syncline.report.html.page import report
from tests.conftest import Cli

NVLINK = {
    "a100": 300,
    "h100": 450,
    "h800": 200,
    "h200": 450,
    "b200": 900,
    "b300": 900,
    "gb200": 900,
    "gb300": 900,
    "gh200": 450,
}
"""GB/s that a GPU sends over NVLink (NVIDIA's data sheets)."""
SIZES = [1 << exponent for exponent in range(10, 31, 4)]
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def node_gpus(machine: nccl.Machine) -> int:
    network = machine.content.network
    return 8 if network is None else min(network.gpus, 8)


def fabric(machine: nccl.Machine, gpus: int, nodes: int = 1) -> dict[str, Any]:
    """Links as fast as those of the machine."""
    dims = [{"name": "nvlink", "shape": "switch", "size": gpus, "rate_per_npu": f"{nvlink(machine)}GB/s"}]
    network = machine.content.network
    if nodes > 1 and network is not None:
        rate = network.nic_rate if network.nics == network.gpus else "50Gb/s"
        dims.append({"name": "rail", "shape": "switch", "size": nodes, "rate_per_npu": rate})
    for dim in dims:
        dim["latency"] = "100ns"
    return {"dims": dims}


def nvlink(machine: nccl.Machine) -> int:
    return NVLINK[machine.name.split("-")[0]]


def simulated(machine: str, operation: str, nbytes: int, fabric: dict[str, Any], **more: Any) -> syncline.Result:
    return syncline.simulate(
        {
            "workload": {"collective": operation, "bytes": f"{nbytes}B"},
            "fabric": fabric,
            "collectives": {"nccl": machine, "element": "2B"},
            "report": False,
            **more,
        }
    )


def known(machine: nccl.Machine) -> list[str]:
    return [operation for operation in OPERATIONS if getattr(machine.content.in_node, operation) is not None]


IN_NODE = [(name, operation) for name in nccl.names() for operation in known(nccl.load(name))]
BETWEEN = [(name, operation) for name, operation in IN_NODE if nccl.load(name).content.network is not None]


@pytest.mark.parametrize(("name", "operation"), IN_NODE)
def test_a_collective_alone_in_a_node_takes_the_time_of_the_model(name: str, operation: str) -> None:
    machine = nccl.load(name)
    gpus = node_gpus(machine)
    for size in SIZES:
        expected = machine.time(operation, size, gpus_per_node=gpus)
        assert expected is not None
        found = simulated(name, operation, size, fabric(machine, gpus))
        assert found.summary.step_time_s == pytest.approx(expected.seconds, rel=1e-3), size


@pytest.mark.parametrize(("name", "operation"), BETWEEN)
@pytest.mark.parametrize("nodes", [2, 6, 16])
def test_a_collective_alone_between_nodes_takes_the_time_of_the_model(name: str, operation: str, nodes: int) -> None:
    machine = nccl.load(name)
    network = machine.content.network
    assert network is not None
    if network.gpus > 8:
        pytest.skip("a node of 72 GPUs is tested by itself")
    for size in SIZES:
        expected = machine.time(operation, size, gpus_per_node=network.gpus, nodes=nodes)
        assert expected is not None
        found = simulated(name, operation, size, fabric(machine, network.gpus, nodes))
        assert found.summary.step_time_s == pytest.approx(expected.seconds, rel=1e-3), size


def test_a_node_of_72_gpus_takes_the_time_of_the_model() -> None:
    machine = nccl.load("gb200")
    for size in SIZES:
        expected = machine.time("all_reduce", size, gpus_per_node=72)
        assert expected is not None
        found = simulated("gb200", "all_reduce", size, fabric(machine, 72))
        assert found.summary.step_time_s == pytest.approx(expected.seconds, rel=1e-3)


@pytest.mark.parametrize("network", ["flow", "packet"])
def test_other_network_models_add_contention_and_take_nothing_away(network: str) -> None:
    machine = nccl.load("h100-sxm")
    for size in (4096, 1 << 20, 64 << 20):
        expected = machine.time("all_gather", size, gpus_per_node=8)
        assert expected is not None
        found = simulated("h100-sxm", "all_gather", size, fabric(machine, 8), network=network)
        assert expected.seconds * 0.999 < found.summary.step_time_s < expected.seconds * 1.02


def test_the_table_of_collectives_says_what_nccl_chooses() -> None:
    machine = nccl.load("h100-sxm")
    for size, algorithm, protocol, channels in (
        (1024, "ring", "LL", "fewer"),
        (1 << 20, "ring", "LL128", "all"),
        (1 << 30, "nvls", "Simple", "all"),
    ):
        found = simulated("h100-sxm", "all_reduce", size, fabric(machine, 8)).table("collectives")
        chosen = [found[f"nccl_{column}"][0] for column in ("algorithm", "protocol", "channels")]
        assert chosen == [algorithm, protocol, channels]
        assert found["nccl_s"][0] == pytest.approx(found["duration_s"][0], rel=1e-3)


def test_links_carry_what_the_protocol_adds() -> None:
    """LL sends 4 bytes of flags with each 4 bytes of data; NVLS sends (1 + 1/8) times the vector instead of 7/4."""
    machine = nccl.load("h100-sxm")
    for size, factor in ((4096, 2 * 7 / 4), (1 << 30, 1 + 1 / 8)):
        found = simulated("h100-sxm", "all_reduce", size, fabric(machine, 8)).table("links")
        # A rank sends over one link to the switch.
        assert max(found["carried_bytes"]) == pytest.approx(size * factor, rel=0.01)


def test_results_say_by_what_they_are_calibrated() -> None:
    machine = nccl.load("h100-sxm")
    alone = simulated("h100-sxm", "all_reduce", 1 << 20, fabric(machine, 8)).summary.calibrated
    assert alone.startswith("collectives by h100-sxm (NCCL 2.29.2, 2026-")
    errors = machine.content.in_node.all_reduce.errors
    assert f"median {100 * errors.median:.1f} %, 90th percentile {100 * errors.p90:.1f} %" in alone
    # What is measured includes sums.
    assert simulated("h100-sxm", "all_reduce", 1 << 20, fabric(machine, 8)).summary.notes == ()
    both = simulated("h100-sxm", "all_reduce", 1 << 20, fabric(machine, 8, 2)).summary.calibrated
    assert both.endswith("between nodes not measured")
    plain = {"workload": {"collective": "all_reduce", "bytes": "1MiB"}, "fabric": fabric(machine, 8), "report": False}
    assert syncline.simulate(plain).summary.calibrated == "no"


def test_screen_and_report_show_the_choices(tmp_path: Path) -> None:
    found = simulated("h100-sxm", "all_reduce", 1 << 20, fabric(nccl.load("h100-sxm"), 8))
    assert "ring LL128" in str(found)
    page = report(found).decode()
    assert "What NCCL chooses" in page
    assert "<td>LL128</td>" in page


def test_a_file_of_syncline_calibrate_is_named_by_its_path(tmp_path: Path) -> None:
    nccl.load("h100-sxm").save(tmp_path / "ours.yaml")
    (tmp_path / "scenario.yaml").write_text(
        "workload: { collective: all_reduce, bytes: 1MiB }\n"
        "fabric: { shape: Switch(8), rate: 450GB/s, latency: 100ns }\n"
        "collectives: { nccl: ours.yaml, element: 2B }\n"
    )
    found = syncline.simulate(tmp_path / "scenario.yaml")
    expected = nccl.load("h100-sxm").time("all_reduce", 1 << 20, gpus_per_node=8)
    assert expected is not None
    assert found.summary.step_time_s == pytest.approx(expected.seconds, rel=1e-3)


def test_a_folder_of_results_is_simulated_again_with_the_same_constants(tmp_path: Path) -> None:
    first = simulated("h100-sxm", "all_reduce", 1 << 20, fabric(nccl.load("h100-sxm"), 8))
    first.save(tmp_path / "run")
    assert syncline.simulate(tmp_path / "run").summary.step_time_s == first.summary.step_time_s


def diagnostic(scenario: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(SynclineError) as caught:
        syncline.simulate(scenario)
    found: dict[str, Any] = dict(caught.value.diagnostics[0])
    return found


def scenario(**collectives: Any) -> dict[str, Any]:
    return {
        "workload": {"collective": "all_reduce", "bytes": "1MiB"},
        "fabric": fabric(nccl.load("h100-sxm"), 8, 2),
        "collectives": collectives,
    }


def test_an_unknown_machine_is_named_with_the_nearest() -> None:
    found = diagnostic(scenario(nccl="h100-smx"))
    assert found["found"] == "h100-smx"
    assert "h100-sxm" in str(found)


def test_a_machine_with_other_gpus_than_the_compute_model_is_refused() -> None:
    other = scenario(nccl="h100-sxm") | {"compute": {"model": "roofline", "accelerator": "A100"}}
    found = diagnostic(other)
    assert found["key"] == "collectives.nccl"
    assert found["allowed"] == "a100-sxm, a100-sxm-4x100g, a100-sxm-vtrain"
    alike = scenario(nccl="h100-sxm") | {"compute": {"model": "roofline", "accelerator": "H200"}}
    assert syncline.simulate(alike).summary.calibrated.startswith("collectives by h100-sxm")


def test_the_command_line_names_a_machine(cli: Cli) -> None:
    cli.write(
        "plain.yaml",
        "workload: { collective: all_reduce, bytes: 1MiB }\nfabric: { shape: Switch(8), rate: 450GB/s }\n",
    )
    nccl.load("h100-sxm").save(cli.folder / "ours.yaml")
    for machine in ("h100-sxm", "ours.yaml"):
        found = cli("simulate", "plain.yaml", "--nccl", machine, "--json", "--no-report")
        assert found.returncode == 0
        assert "collectives by h100-sxm" in found.stdout


def test_a_file_that_does_not_exist_is_named() -> None:
    assert "nowhere.yaml" in str(diagnostic(scenario(nccl="nowhere.yaml")))


def test_groups_that_a_machine_cannot_have_are_refused() -> None:
    several = scenario(nccl="h100-sxm-2.23")
    several["workload"]["collective"] = "all_gather"
    found = diagnostic(several)
    assert found["message"] == "`h100-sxm-2.23` has no constants for a network between nodes"
    assert "16 GPUs on 2 nodes of 8 GPUs" in found["found"]
    uneven = scenario(nccl="h100-sxm")
    uneven["fabric"] = fabric(nccl.load("h100-sxm"), 12)
    found = diagnostic(uneven)
    assert "spread unevenly" in found["message"]
    assert "12 ranks on 2 nodes, 4 or 8 on each" in found["found"]


def test_what_nccl_decides_may_not_be_given() -> None:
    found = diagnostic(scenario(nccl="h100-sxm", chunks=4))
    assert found["key"] == "collectives.chunks"
    assert found["message"] == "NCCL decides `chunks` itself"


def test_a_fabric_slower_than_the_machine_is_named() -> None:
    slow = scenario(nccl="h100-sxm")
    slow["workload"]["bytes"] = "1GiB"
    slow["fabric"]["dims"][1]["rate_per_npu"] = "100Gb/s"
    [warning] = [each for each in syncline.check(slow) if "slower than the machine" in each["message"]]
    assert "all_reduce" in warning["found"]


def test_collectives_without_times_are_named() -> None:
    unknown = scenario(nccl="gh200-alps")
    unknown["workload"]["collective"] = "all_gather"
    unknown["fabric"]["dims"][0]["size"] = 4
    [warning] = [each for each in syncline.check(unknown) if "no times" in each["message"]]
    assert warning["message"] == "`gh200-alps` has no times of all_gather"


def test_messages_between_stages_take_at_least_the_time_of_a_send() -> None:
    machine = nccl.load("h100-sxm")
    layer = {"name": "a", "forward": "1us", "outputs": 1 << 20, "parameters": 0}
    pipeline = {
        "workload": {
            "layers": [{**layer, "name": name} for name in "ab"],
            "parallel": {"pipeline": 2},
            "batch_per_npu": 1,
        },
        "fabric": fabric(machine, 2),
        "report": False,
    }
    plain = syncline.simulate(pipeline).summary.step_time_s
    paced = syncline.simulate({**pipeline, "collectives": {"nccl": "h100-sxm"}}).summary.step_time_s
    assert paced > plain


def test_one_rank_stands_for_many_with_rings() -> None:
    machine = nccl.load("h100-sxm")
    found = simulated("h100-sxm", "all_reduce", 1 << 30, fabric(machine, 8, 128))
    assert found.summary.simulated_ranks == 1
    assert found.summary.ranks == 1024


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("NVLS", "NCCL chooses algorithm and protocol itself"),
        ("nvls_tree", "NCCL chooses algorithm and protocol itself"),
        ("CollNet", "`sharp: true`"),
        ("one-shot", "`custom_all_reduce: vLLM`"),
        ("vLLM", "`custom_all_reduce: vLLM`"),
        ("DeepEP", "`deepep: {"),
    ],
)
def test_an_algorithm_or_a_library_is_no_machine(name, remedy):
    with pytest.raises(syncline.SynclineError) as caught:
        syncline.load(
            workload={"collective": "all_reduce", "bytes": "1MiB"},
            fabric={"switch": {"hosts": 8, "rate": "400Gb/s", "latency": "1us"}},
            collectives={"nccl": name},
        )
    (problem,) = caught.value.diagnostics
    assert problem["key"] == "collectives.nccl" and problem["found"] == name
    assert remedy in problem["help"] and "h100-sxm" in problem["allowed"]
