"""``nvidia-smi topo -m``: machines that it describes, and errors that name line and column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import syncline
from syncline import _core
from syncline.clusters import recognise
from tests.clusters.conftest import PRINTED

H100 = "hgx-h100-8.txt"


CUT = "X \tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS"


def changed(name: str, line: int, before: str, after: str) -> str:
    """A printed text with a change in one line, counted from 1."""
    lines = (PRINTED / name).read_text("utf-8").split("\n")
    assert before in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(before, after, 1)
    return "\n".join(lines)


def all_reduce_s(fabric: dict, size: float, **more: object) -> float:
    """The time of one all-reduce on a fabric."""
    workload = {"collective": "all_reduce", "bytes": f"{size:.0f}B"}
    return syncline.simulate({"workload": workload, "fabric": fabric, "network": "flow", **more}).summary.total_time_s


def bisection(fabric: dict) -> float:
    """The bisection of a fabric in bytes per second."""
    scenario = {"workload": {"collective": "all_reduce", "bytes": "1MB"}, "fabric": fabric}
    return json.loads(syncline.load(scenario).call(_core.show, "fabric"))["bisection"]["rate_bytes_per_s"]


# A GPU with n NVLinks of 25 GB/s sends 25 n GB/s: 300 GB/s for an A100, 450 GB/s for an H100 (their data sheets).
@pytest.mark.parametrize(
    ("name", "rate"), [("dgx-a100.txt", "300GB/s"), (H100, "450GB/s"), ("hgx-h100-10.txt", "450GB/s")]
)
def test_nvlinks_that_add_up_to_more_than_a_gpu_has_lead_to_switches(name, rate, fabric):
    assert fabric(name, nvlink="25GB/s") == {"switch": {"hosts": 8, "rate": rate}}


def test_four_gpus_with_four_links_to_each_other_need_no_switch(fabric):
    names = ["GPU0", "GPU1", "GPU2", "GPU3"]
    rows = [[name, *("X" if name == other else "NV4" for other in names), "0-31", "0"] for name in names]
    text = "\n".join("\t".join(row) for row in [["", *names, "CPU Affinity", "NUMA Affinity"], *rows]) + "\n"
    (dim,) = fabric(text, nvlink="25GB/s", latency="1us")["dims"]
    assert dim == {"name": "nvlink", "shape": "fully_connected", "size": 4, "rate": "100GB/s", "latency": "1us"}


def test_an_all_reduce_takes_as_long_as_the_closed_form(fabric):
    # A ring all-reduce sends 2 (n - 1) / n of the data through each GPU's links, with no latency.
    size, ring = 2.1e9, {"collectives": {"chunks": 1, "algorithms": {"default": {"all_reduce": "ring"}}}}
    got = all_reduce_s(fabric("dgx-a100.txt", nvlink="25GB/s"), size, **ring)
    assert got == pytest.approx(2 * 7 / 8 * size / 300e9, rel=1e-3)


def test_each_interface_that_is_next_to_a_gpu_becomes_a_rail(fabric, notes):
    options = {"nvlink": "25GB/s", "nic": "200Gb/s", "nodes": "16", "network": "rails"}
    assert fabric("dgx-a100.txt", **options) == {
        "leaf_spine": {"leaves": 8, "hosts_per_leaf": 16, "spines": 0, "rate": "25GB/s"},
        "nodes": {"npus": 8, "rate": "300GB/s", "nics": 8, "rails": True, "forward": True},
    }
    assert notes("dgx-a100.txt", **options) == [
        "A machine of 8 GPUs, with 12 NVLinks from each to NVSwitches, and 12 NICs.",
        "Left out: mlx5_4, mlx5_5, mlx5_10 and mlx5_11; no GPU has one of them nearest.",
    ]


def test_bisection_is_what_the_interfaces_of_half_of_the_machines_send(fabric):
    made = fabric("hgx-h100-10.txt", nvlink="25GB/s", nic="400Gb/s", nodes="8")
    assert made["switch"] == {"hosts": 64, "rate": "50GB/s"}
    # 4 machines of 8 interfaces of 50 GB/s.
    assert bisection(made) == 4 * 8 * 50e9


def test_trays_that_share_switches_are_one_nvlink_domain(fabric):
    nics = "mlx5_0,mlx5_1,mlx5_4,mlx5_5"
    one = fabric("gb200-tray.txt", nvlink="50GB/s", nodes="18", domain="18")
    assert one == {"switch": {"hosts": 72, "rate": "900GB/s"}}
    two = fabric("gb200-tray.txt", nvlink="50GB/s", nodes="36", domain="18", nics=nics, nic="400Gb/s")
    assert two["switch"] == {"hosts": 144, "rate": "50GB/s"}
    assert two["nodes"] == {"npus": 72, "rate": "900GB/s", "nics": 72}


def test_paths_over_pcie_share_the_links_of_switches(fabric):
    made = fabric("pcie-8.txt", pcie="32GB/s", cpu="20GB/s")
    links = {(link["from"], link["to"]): link["rate"] for link in made["links"]}
    # Two GPUs on each of four switches, two switches on each of two processors.
    assert links[("GPU0", "switch0")] == links[("GPU1", "switch0")] == links[("switch0", "cpu0")] == "32GB/s"
    assert [pair for pair in links if pair[1].startswith("cpu")] == [
        ("switch0", "cpu0"), ("switch1", "cpu0"), ("switch2", "cpu1"), ("switch3", "cpu1"), ("cpu0", "cpu1"),
    ]  # fmt: skip
    # Halves are best divided at the link between the processors.
    assert bisection(made) == 20e9
    # All GPUs of a processor send to all others: 2 x 4 x 4 blocks of an eighth of 800 MB over that link, 16 each way.
    workload = {"collective": "all_to_all", "bytes": "800MB"}
    got = syncline.simulate({"workload": workload, "fabric": made, "network": "flow"}).summary.total_time_s
    assert got == pytest.approx(16 * 100e6 / 20e9, rel=0.02)


def test_nvlink_bridges_are_faster_than_pcie_and_lead_no_further(fabric):
    made = fabric("bridges-4.txt", nvlink="25GB/s", pcie="32GB/s", cpu="20GB/s")
    assert made["npus"] == ["GPU0", "GPU1", "GPU2", "GPU3"]
    assert [link for link in made["links"] if link["rate"] == "300GB/s"] == [
        {"from": "GPU0", "to": "GPU1", "rate": "300GB/s"},
        {"from": "GPU2", "to": "GPU3", "rate": "300GB/s"},
    ]
    assert made["forward"] is False


def test_columns_of_other_versions_are_read(fabric):
    text = (PRINTED / H100).read_text("utf-8")
    spaces = "\x1b[4m" + text.replace("\t", "   ").replace("GPU NUMA ID", "").replace("N/A", "") + "\x1b[0m"
    assert fabric("$ nvidia-smi topo -m\n" + spaces, nvlink="25GB/s") == {"switch": {"hosts": 8, "rate": "450GB/s"}}


def test_a_text_of_something_else_is_not_recognised(tmp_path):
    Path(tmp_path / "other.txt").write_text("GPU0 X\nfoo\n", "utf-8")
    assert recognise((tmp_path / "other.txt").as_posix()) is None


@pytest.mark.parametrize(
    ("text", "message", "place", "more"),
    [
        (changed(H100, 3, "NV18", "NVL8"), "unknown relation between GPU1 and GPU0", (3, 6), {"found": "NVL8"}),
        (changed(H100, 3, "NODE", "NODDE"), "unknown relation", (3, 45), {"nearest": "NODE"}),
        (changed(H100, 4, "NV18", "NV12"), "GPU0 and GPU2 are joined in two ways", (4, 6), {"found": "NV12"}),
        (changed(H100, 5, "NV18\t", ""), "X stands where row and column are the same device", (5, 17), {}),
        (changed(H100, 9, "GPU7", "GPU8"), "a row that has no column", (9, 1), {"nearest": "GPU0"}),
        (changed(H100, 9, "GPU7", "GPU6"), "a second row of GPU6", (9, 1), {}),
        (changed(H100, 1, "GPU7", "GPU6"), "a second column of GPU6", (1, 37), {}),
        ("\n".join((PRINTED / H100).read_text("utf-8").split("\n")[:12]), "the matrix is incomplete", (12, 1), {}),
        (changed(H100, 10, CUT, "X \tNODE"), "row of NIC0 ends before the column NIC2", (10, 49), {"allowed": "16"}),
        (changed(H100, 10, "PIX", "NV4").replace("PIX", "NV4", 1), "NVLinks join only", (2, 45), {}),
    ],
)  # fmt: skip
def test_a_malformed_matrix_is_refused_with_line_and_column(text, message, place, more, wrong):
    problem = wrong(text, nvlink="25GB/s")[0]
    assert message in problem["message"]
    assert (problem["place"]["line"], problem["place"]["column"]) == place
    assert {key: problem[key] for key in more} == more


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (H100, {}, "missing option --nvlink: the text has the number of NVLinks, but not their rate"),
        (H100, {"nvlink": "0GB/s"}, "a link needs a rate above zero"),
        (H100, {"nvlink": "25"}, "unit"),
        (H100, {"nvlink": "25GB/s", "nodes": "2"}, "missing option --nic: the text does not have the rate of mlx5_0"),
        (H100, {"nvlink": "25GB/s", "nic": "400Gb/s"}, "--nic changes nothing here"),
        (H100, {"nvlink": "25GB/s", "cpu": "40GB/s"}, "--cpu changes nothing here"),
        (H100, {"nvlink": "25GB/s", "nodes": "0"}, "not a valid number"),
        (H100, {"nvlink": "25GB/s", "nodes": "4", "domain": "3"}, "machines do not fill whole NVLink domains"),
        (H100, {"nvlink": "25GB/s", "nodes": "4", "network": "rail"}, "value not allowed"),
        (H100, {"nvlink": "25GB/s", "nodes": "4", "nics": "mlx5_9"}, "--nics names what the text does not have"),
        ("pcie-8.txt", {}, "missing option --pcie: paths lead over PCIe, and the text does not have its rate"),
        ("pcie-8.txt", {"pcie": "32GB/s"}, "missing option --cpu"),
        ("pcie-8.txt", {"pcie": "32GB/s", "cpu": "40GB/s", "nvlink": "25GB/s"}, "--nvlink changes nothing here"),
    ],
)
def test_a_missing_or_needless_rate_is_named(name, options, message, wrong):
    (problem,) = wrong(name, **options)
    assert message in problem["message"]
    assert "help" in problem or "allowed" in problem


def test_a_scenario_names_the_converted_file(cli):
    done = cli(
        "convert", PRINTED / "dgx-a100.txt", "dgx.yaml", "--nvlink", "25GB/s", "--nodes", "4", "--nic", "200Gb/s"
    )
    assert done.returncode == 0
    assert "Wrote dgx.yaml" in done.stderr
    cli.write("s.yaml", "workload: { collective: all_reduce, bytes: 1MB }\nfabric: { file: dgx.yaml }\n")
    assert "32 NPUs" in cli("show", "fabric", "s.yaml").stdout
    again = cli("convert", PRINTED / "dgx-a100.txt", "dgx.yaml", "--nvlink", "25GB/s")
    assert "the file exists already" in again.stderr


def test_options_of_clusters_are_refused_for_other_files(cli):
    text = "workload: { collective: all_reduce, bytes: 1MB }\nfabric: { shape: Ring(4), rate: 1GB/s }\n"
    done = cli("convert", cli.write("s.yaml", text), "out.json", "--nic", "400Gb/s")
    assert done.returncode == 2
    assert "`--nic` applies only to what a cluster prints" in done.stderr


def matrix(gpus: int) -> str:
    """A machine whose GPUs are all on one PCIe switch."""
    names = [f"GPU{at}" for at in range(gpus)]
    rows = [" ".join([name, *("X" if name == other else "PIX" for other in names)]) for name in names]
    return "\n".join([" ".join(names), *rows]) + "\n"


def test_a_matrix_has_at_most_512_devices(fabric, wrong):
    assert len(fabric(matrix(512), pcie="32GB/s")["npus"]) == 512
    (problem,) = wrong(matrix(513), pcie="32GB/s")
    assert (problem["message"], problem["found"]) == ("too many columns", "513")
