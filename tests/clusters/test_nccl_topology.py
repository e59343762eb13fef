"""NCCL's topology XML: machines that it describes, and errors that name line and column."""

from __future__ import annotations

import pytest

import syncline
from tests.clusters.conftest import PRINTED

DGX, H100 = "dgx-a100.xml", "hgx-h100.xml"


def changed(name: str, before: str, after: str) -> str:
    text = (PRINTED / name).read_text("utf-8")
    assert before in text
    return text.replace(before, after, 1)


# 12 NVLinks of an A100, 18 of an H100, each of 25 GB/s in one direction: 600 and 900 GB/s in both (their data sheets).
@pytest.mark.parametrize(("name", "rate"), [(DGX, "300GB/s"), (H100, "450GB/s")])
def test_links_to_bridges_lead_to_switches(name, rate, fabric):
    assert fabric(name) == {"switch": {"hosts": 8, "rate": rate}}


def test_links_to_gpus_join_them_directly(fabric):
    (dim,) = fabric("hgx-a100-4.xml")["dims"]
    assert dim == {"name": "nvlink", "shape": "fully_connected", "size": 4, "rate": "100GB/s"}


def test_rates_of_interfaces_and_pcie_are_those_that_are_printed(fabric):
    made = fabric(H100, nodes="32", network="rails")
    assert made["leaf_spine"] == {"leaves": 8, "hosts_per_leaf": 32, "spines": 0, "rate": "50GB/s"}
    # 32 GT/s in 16 lanes, 128 of 130 bits are data.
    assert float(made["nodes"]["pcie_rate"].removesuffix("GB/s")) == pytest.approx(32 * 16 * 128 / 130 / 8, abs=0.0005)
    # What the user gives is what counts.
    given = fabric(H100, nodes="32", nic="200Gb/s", pcie="50GB/s")
    assert (given["switch"]["rate"], given["nodes"]["pcie_rate"]) == ("25GB/s", "50GB/s")


def test_the_same_machine_in_both_texts_has_the_same_fabric(fabric):
    options = {"nodes": "4", "network": "rails", "pcie": "32GB/s"}
    of_matrix = fabric("dgx-a100.txt", nvlink="25GB/s", nic="200Gb/s", **options)
    assert fabric(DGX, **options) == of_matrix


def test_ports_of_one_card_share_its_pcie_link(fabric):
    made = fabric("pcie-4.xml", nodes="2", cpu="20GB/s")
    links = {(link["from"], link["to"]): link["rate"] for link in made["links"]}
    assert links[("node0.mlx5_0", "network")] == links[("node0.mlx5_1", "network")] == "12.5GB/s"
    card = next(end for start, end in links if start == "node0.mlx5_0" and end != "network")
    assert links[("node0.mlx5_1", card)] == links[(card, "node0.cpu0")]
    assert float(links[(card, "node0.cpu0")].removesuffix("GB/s")) == pytest.approx(16 * 16 * 128 / 130 / 8, abs=0.0005)


def test_an_all_reduce_over_rails_takes_as_long_as_the_closed_form(fabric):
    # A ring all-reduce of an eighth of the data on each rail, between reduce-scatter and all-gather in each machine.
    size, machines = 8e9, 4
    made = fabric(DGX, nodes=str(machines), network="rails")
    inside = 2 * 7 / 8 * size / 300e9
    between = 2 * (machines - 1) / machines * size / 8 / 25e9
    scenario = {
        "workload": {"collective": "all_reduce", "bytes": f"{size:.0f}B"},
        "fabric": made,
        "collectives": {
            "all_reduce": "enhanced",
            "chunks": 1,
            "algorithms": {"default": {"all_reduce": "ring", "reduce_scatter": "ring", "all_gather": "ring"}},
        },
        "network": "flow",
    }
    got = syncline.simulate(scenario).summary.total_time_s
    assert got == pytest.approx(inside + between, rel=0.01)


def test_hosts_that_switches_join_are_read_from_one_tree(fabric):
    """A tree of two trays of an NVL72, as NCCL fuses them."""

    def tray(host: int) -> str:
        link = '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>'
        devices = "".join(
            f'<pci busid="000{at}:01:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
            f'<gpu dev="{at}" sm="100" rank="{4 * host + at}">{link}</gpu></pci>'
            f'<pci busid="001{at}:03:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">'
            f'<nic><net name="mlx5_{at}" dev="{at}" speed="400000"/></nic></pci>'
            for at in range(2)
        )
        return f'<cpu host_hash="0x{host}" numaid="0" arch="arm64">{devices}</cpu>'

    made = fabric(f'<system version="2">\n{tray(0)}\n{tray(1)}\n</system>\n', nodes="3")
    assert made["switch"] == {"hosts": 12, "rate": "50GB/s"}
    assert (made["nodes"]["npus"], made["nodes"]["rate"], made["nodes"]["nics"]) == (4, "900GB/s", 4)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (changed(DGX, "</system>", ""), "not well-formed XML: no element found", 139),
        (changed(DGX, "</gpu>", "</gpus>"), "not well-formed XML: mismatched tag", 12),
        (changed(DGX, 'count="2"', 'count="two"'), "not a valid `count`", 6),
        (changed(DGX, 'dev="0" sm', "sm"), "`gpu` has no attribute `dev`", 5),
        (changed(DGX, 'link_width="16"', 'link_width="-1"'), "not a valid `link_width`", 3),
        (changed(DGX, 'speed="200000"', 'speed="fast"'), "not a valid `speed`", 26),
        (changed("hgx-a100-4.xml", "0000:41:00.0", "0000:42:00.0"), "a GPU that the tree does not have", 5),
        (changed("hgx-a100-4.xml", 'count="4"', 'count="3"'), "count the NVLinks between them differently", 19),
        (changed("pcie-4.xml", "0x7d1c3f0e5a2b9c41", "0x1"), "several hosts, and no NVSwitch joins this GPU", 5),
        (changed(DGX, 'dev="1" sm', 'dev="0" sm'), "two GPUs or interfaces are the same", 0),
        ('<system version="1">\n</system>\n', "no element `cpu` in `system`", 1),
        ('<system version="1">\n<cpu numaid="0"/>\n</system>\n', "no element `gpu`", 1),
        ('<system version="1">\n' + "<cpu>" * 70 + "\n", "nested deeper than 64", 2),
    ],
)
def test_a_malformed_tree_is_refused_with_line_and_column(text, message, line, wrong):
    (problem,) = wrong(text, nodes="2")
    assert message in problem["message"]
    assert problem["place"]["column"] > 0
    assert not line or problem["place"]["line"] == line


def test_a_missing_rate_is_asked_for(wrong, fabric):
    text = changed(H100, ' speed="400000"', "")
    (problem,) = wrong(text, nodes="2")
    assert problem["message"] == "missing option --nic: the text does not have the rate of mlx5_0"
    assert fabric(text, nodes="2", nic="400Gb/s")["switch"]["rate"] == "50GB/s"
    (problem,) = wrong(changed(DGX, 'sm="80"', 'sm="87"'))
    assert problem["message"].startswith("missing option --nvlink")
