"""Clusters by name: their networks against published ones, and what scenarios and searches make of them."""

from __future__ import annotations

import pytest

import syncline
from syncline.clusters.known import clusters, find, read_clusters
from syncline.clusters.size import fabric as part_of
from syncline.errors import SynclineError
from tests.clusters.test_smi import bisection


def family(name: str, npus: int | None) -> dict:
    return part_of(find(name), npus, "0s", "0s")


def switches(made: dict) -> tuple[int, int]:
    """Numbers of leaves and spines."""
    levels = made["leaf_spine"]
    pods = levels.get("pods", 1)
    return pods * levels["leaves"], pods * levels["spines"]


# NVIDIA DGX SuperPOD reference architecture for DGX B200, table of larger SuperPODs: scalable units of 32 systems,
# leaves, spines.
@pytest.mark.parametrize(
    ("units", "leaves", "spines"),
    [(2, 16, 8), (4, 32, 16), (8, 64, 32), (16, 128, 128), (32, 256, 256), (64, 512, 512)],
)
def test_superpods_have_the_published_numbers_of_switches(units, leaves, spines):
    made = family("dgx-b200", units * 256)
    assert switches(made) == (leaves, spines)
    levels = made["leaf_spine"]
    assert levels["hosts_per_leaf"] == 32
    # As many cables lead up from leaves as down.
    assert leaves * levels["spines"] * levels["cables"] == units * 256


def test_a_fabric_without_oversubscription_has_full_bisection():
    assert bisection({"cluster": "dgx-h100", "npus": 512}) == 256 * 50e9


def test_pods_of_grand_teton_are_oversubscribed_seven_to_one():
    # Llama 3, 3.3.1: 16 GPUs a rack, 192 racks a pod of 3,072 GPUs, 8 pods, 1:7 above.
    made = family("grand-teton", None)["leaf_spine"]
    assert (made["hosts_per_leaf"], made["leaves"], made["pods"]) == (16, 192, 8)
    up = made["spines"] * float(made["core_rate"].removesuffix("Tb/s")) * 1e12
    assert 3072 * 400e9 / up == pytest.approx(7)


def test_a_rack_is_one_domain_and_several_are_joined():
    assert family("gb200-nvl72", 72) == {"switch": {"hosts": 72, "rate": "900GB/s", "latency": "0s"}}
    assert family("gb200-nvl72", 144)["nodes"]["npus"] == 72
    assert family("gb300-nvl72", 144)["switch"]["rate"] == "100GB/s"


# Accelerators of the whole clusters, as published.
@pytest.mark.parametrize(
    ("name", "count"),
    [("selene", 4480), ("eos", 4608), ("grand-teton", 24576), ("alps", 10752), ("jean-zay-h100", 1456)],
)
def test_a_cluster_has_as_many_accelerators_as_published(name, count):
    cluster = find(name)
    assert cluster.hosts * cluster.host == count
    with pytest.raises(SynclineError, match="the cluster has fewer accelerators"):
        family(name, count + cluster.host)


# Both directions of all links of an accelerator, as data sheets print them.
@pytest.mark.parametrize(
    ("name", "both"),
    [("dgx-a100", 600), ("dgx-h100", 900), ("dgx-h200", 900), ("dgx-b200", 1800), ("gb200-nvl72", 1800)],
)
def test_scale_up_rates_are_those_of_data_sheets(name, both):
    assert 2 * find(name).scale_up_bits_per_s == both * 8e9


def test_every_cluster_makes_a_fabric_and_has_a_source():
    for name, cluster in clusters().items():
        assert cluster.source, name
        npus = cluster.domain * 2
        levels = family(name, npus)
        loaded = syncline.load(
            {"workload": {"collective": "all_reduce", "bytes": "1MB"}, "fabric": {"cluster": name, "npus": npus}}
        )
        assert not loaded.check(), levels


def test_an_all_reduce_in_a_domain_takes_as_long_as_the_closed_form():
    scenario = {
        "workload": {"collective": "all_reduce", "bytes": "7.2GB"},
        "fabric": {"cluster": "gb200-nvl72", "npus": 72},
        "collectives": {"chunks": 1, "algorithms": {"default": {"all_reduce": "ring"}}},
        "network": "flow",
    }
    got = syncline.simulate(scenario).summary.total_time_s
    assert got == pytest.approx(2 * 71 / 72 * 7.2e9 / 900e9, rel=1e-6)


def test_latencies_are_those_of_the_scenario():
    made = part_of(find("eos"), 512, "2us", "300ns")
    assert (made["leaf_spine"]["latency"], made["nodes"]["latency"]) == ("2us", "300ns")
    quick, slow = (
        syncline.simulate(
            workload={"collective": "all_reduce", "bytes": "1KB"},
            fabric={"cluster": "dgx-h100", "npus": 16, **latencies},
        ).summary.total_time_s
        for latencies in ({}, {"latency": "5us", "scale_up_latency": "1us"})
    )
    assert slow > quick + 10e-6


@pytest.mark.parametrize(
    ("fabric", "message", "key"),
    [
        ({"cluster": "eoss", "npus": 8}, "no such cluster", "fabric.cluster"),
        ({"cluster": "eos", "npus": 500}, "not a whole number of servers", "fabric.npus"),
        ({"cluster": "gb200-nvl72", "npus": 100}, "not a whole number of scale-up domains", "fabric.npus"),
        ({"cluster": "dgx-h100"}, "missing key `npus`", "fabric.npus"),
    ],
)
def test_a_part_that_cannot_be_is_named(fabric, message, key):
    with pytest.raises(SynclineError) as caught:
        syncline.load({"workload": {"collective": "all_reduce", "bytes": "1MB"}, "fabric": fabric})
    (problem,) = caught.value.diagnostics
    assert message in problem["message"]
    assert problem["key"] == key


@pytest.mark.parametrize(
    ("name", "near"), [("h100", "dgx-h100"), ("GB200", "gb200-nvl72"), ("eoss", "eos"), ("", None)]
)
def test_the_nearest_cluster_has_the_name_in_its_own(name, near):
    with pytest.raises(SynclineError) as caught:
        find(name, "do this")
    (problem,) = caught.value.diagnostics
    assert (problem.get("nearest"), problem["help"]) == (near, "do this")


def test_names_and_aliases_are_unique(tmp_path):
    file = tmp_path / "clusters.yaml"
    one = "{ accelerator: H100, domain: 8, host: 8, nic_rate: 400Gb/s, nic: x, source: y, aliases: [b] }"
    file.write_text(f"a: {one}\nb: {one}\n", "utf-8")
    with pytest.raises(SynclineError, match="two clusters have the same name"):
        read_clusters(file.as_posix())


MODEL = """{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}"""


def test_a_search_takes_the_network_of_a_cluster(cli):
    model = cli.write("config.json", MODEL)
    named = cli("design", "parallel", model, "--gpus", "64", "--cluster", "jean-zay-a100", "--json")
    given = cli("design", "parallel", model, "--gpus", "64", "--accelerator", "A100", "--nic-rate", "50Gb/s", "--json")
    assert named.returncode == 0
    assert named.stdout == given.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "8192", "--cluster", "eos"], "`eos` has fewer accelerators"),
        (["--gpus", "64", "--cluster", "eos", "--accelerator", "A100"], "`--cluster` has its own accelerators"),
        (["--gpus", "64", "--cluster", "alps"], "no kernels of this accelerator were measured"),
    ],
)
def test_a_search_that_a_cluster_cannot_answer_is_refused(options, message, cli):
    done = cli("design", "parallel", cli.write("config.json", MODEL), *options)
    assert done.returncode == 2
    assert message in done.stderr
