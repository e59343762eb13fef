"""Families of fabrics: their resolved form, and errors that name their key."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from syncline.config.load import Loaded
from syncline.errors import SynclineError

WORKLOAD = "workload: { collective: all_reduce, bytes: 1MiB }\n"


def fabric(loaded: Loaded) -> dict:
    assert loaded.check() == []
    return loaded.resolved["fabric"]


def test_the_resolved_form_contains_parameters_not_links(scenario: Callable[..., Loaded]) -> None:
    given = "fabric: { fat_tree: { k: 64, rate: 100Gb/s, latency: 0.5us, oversubscription: 2 } }"
    assert scenario(WORKLOAD + given).resolved["fabric"] == {
        "built": {"network": {"fat_tree": {"k": 64, "oversubscription": 2, "rate": "100Gb/s", "latency": "0.5us"}}}
    }


def test_nodes_and_routing_are_resolved_beside_the_family(scenario: Callable[..., Loaded]) -> None:
    text = """
fabric:
  leaf_spine: { leaves: 2, hosts_per_leaf: 4, spines: 2, rate: 400Gb/s }
  nodes: { npus: 4, nics: 2, rate_per_npu: 450GB/s, pcie_rate: 64GB/s }
"""
    built = fabric(scenario(WORKLOAD + text))["built"]
    assert built["nodes"]["nics"] == 2
    assert "routing" not in built
    for routing, resolved in [
        ("ecmp", {"ecmp": {}}),
        ("{ policy: ecmp, seed: 3 }", {"ecmp": {"seed": 3}}),
        ("shortest", "shortest"),
        (
            "[[npu0, NIC 0, leaf 0, NIC 2, NPU 5]]",
            {"explicit": [["npu0", "NIC 0", "leaf 0", "NIC 2", "NPU 5"]]},
        ),
    ]:
        assert fabric(scenario(WORKLOAD + f"{text}  routing: {routing}\n"))["built"]["routing"] == resolved


@pytest.mark.parametrize(
    ("given", "dims"),
    [
        ("torus: { sizes: 4x2x8x3, rate: 1GB/s, latency: 1us }", [("ring", 4), ("ring", 2), ("ring", 8), ("ring", 3)]),
        ("hypercube: { dimensions: 3, rate: 1GB/s, latency: 1us }", [("fully_connected", 2)] * 3),
        ("switch: { hosts: 24, rate: 1GB/s, latency: 1us }", [("switch", 24)]),
    ],
)
def test_regular_families_are_dimensions(
    given: str, dims: list[tuple[str, int]], scenario: Callable[..., Loaded]
) -> None:
    found = fabric(scenario(f"{WORKLOAD}fabric: {{ {given} }}"))["dims"]
    assert [(dim["shape"], dim["size"]) for dim in found] == dims
    assert [dim["name"] for dim in found] == [f"dim{number}" for number in range(1, len(dims) + 1)]
    with_nodes = f"{WORKLOAD}fabric: {{ {given}, nodes: {{ npus: 2, rate: 9GB/s }} }}"
    assert "built" in fabric(scenario(with_nodes))


def test_the_torus_of_astra_sim_is_given_as_text(scenario: Callable[..., Loaded]) -> None:
    names = [
        dim["name"] for dim in fabric(scenario(WORKLOAD + "fabric: { torus: 1x8x1, package: { rate: 1GB/s } }"))["dims"]
    ]
    assert names == ["horizontal"]


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        (
            "fat_tree: { k: 5, rate: 1GB/s }",
            "fabric.fat_tree.k",
            "the switches of a fat-tree have an even number of ports",
        ),
        (
            "fat_tree: { k: 8, oversubscription: 3, rate: 1GB/s }",
            "fabric.fat_tree.oversubscription",
            "`oversubscription` must divide the 4 uplinks of a switch",
        ),
        ("fat_tree: { k: 8, rate: 0GB/s }", "fabric.fat_tree.rate", "a link needs a rate above zero"),
        ("fat_tree: { k: 4294967294, rate: 1GB/s }", "fabric.fat_tree", "the fabric is too large"),
        ("expander: { hosts: 7, degree: 3, rate: 1GB/s }", "fabric.expander.degree", "7 hosts of odd degree"),
        ("torus: { sizes: 4x4, rate: 0GB/s }", "fabric.torus.rate", "a link needs a rate above zero"),
        ("torus: { sizes: 70000x70000, rate: 1GB/s }", "fabric", "a fabric has too many NPUs"),
        (
            "leaf_spine: { leaves: 2, hosts_per_leaf: 2, spines: 0, rate: 1GB/s }",
            "fabric.leaf_spine",
            "no path leads from NPU 0 to NPU 2",
        ),
        (
            "switch: { hosts: 9, rate: 1GB/s }, nodes: { npus: 4, rate: 1GB/s }",
            "fabric.nodes",
            "the 9 hosts of the network do not make a whole number of nodes",
        ),
        (
            "mesh: { sizes: 2x2, rate: 1GB/s }, routing: [[npu0, npu9]]",
            "fabric.routing.0.1",
            "no such vertex",
        ),
        (
            "fat_tree: { k: 4, rate: 1GB/s }, routing: dimension_order",
            "fabric.routing",
            "this fabric does not support dimension-order routing",
        ),
    ],
)
def test_errors_of_the_core_have_a_place(given: str, key: str, message: str, scenario: Callable[..., Loaded]) -> None:
    (problem,) = scenario(f"{WORKLOAD}fabric: {{ {given} }}").check()
    assert problem["message"].startswith(message)
    assert (problem["key"], problem["place"]["line"]) == (key, 2)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("fat_tree: { k: 4 }", "missing key `rate`"),
        ("fat_tree: { k: 4, rate: 100 }", "a number without a unit"),
        ("fat_tree: { k: 0, rate: 1GB/s }", "at least 1"),
        ("fat_tree: { k: 4, rate: 1GB/s, oversubscribtion: 2 }", "did you mean `oversubscription`?"),
        ("fat_tree: { k: 4, rate: 1GB/s }, mesh: { sizes: 4x4, rate: 1GB/s }", "2 families are given"),
        ("fat_tree: { k: 4, rate: 1GB/s }, node: { npus: 4 }", "did you mean `nodes`?"),
        ("fat_treee: { k: 4, rate: 1GB/s }", "did you mean `fat_tree`?"),
        ("mesh: { sizes: 4*4, rate: 1GB/s }", "must be sizes above zero joined by `x`"),
        ("mesh: { sizes: 4x0, rate: 1GB/s }", "must be sizes above zero joined by `x`"),
        (f"mesh: {{ sizes: {'x'.join(['1'] * 17)}, rate: 1GB/s }}", "too many dimensions"),
        ("mesh: { sizes: 4294967296, rate: 1GB/s }", "value not allowed"),
        ("mesh: { sizes: 4x4294967296, rate: 1GB/s }", "a size is too large"),
        ("expander: { degree: 3, rate: 1GB/s }", "missing key `switches`"),
        ("expander: { degree: 3, switches: 8, rate: 1GB/s }", "missing key `hosts_per_switch`"),
        ("expander: { degree: 3, switches: 8, hosts: 8, rate: 1GB/s }", "either switches or hosts as its vertices"),
        ("switch: { hosts: 8, rate: 1GB/s }, nodes: { npus: 4 }", "give either `rate` or `rate_per_npu`"),
        ("switch: { hosts: 8, rate: 1GB/s }, nodes: { npus: 4, rate: 1GB/s, rate_per_npu: 1GB/s }", "both `rate`"),
        ("switch: { hosts: 8, rate: 1GB/s }, routing: ecmp", "a switch without nodes supports only dimension-order"),
        ("hypercube: { dimensions: 25, rate: 1GB/s }", "at most 24"),
        ("torus: 4x4", "must be 3 sizes joined by `x`"),
        ("torus: { sizes: 4x4, rate: 1GB/s, local: { rate: 1GB/s } }", "unknown key `local`"),
        ("fat_tree: 4", "a mapping"),
        ("fat_tree: null", "no family is given"),
    ],
)
def test_errors_in_the_form_of_a_fabric_are_reported(given: str, expected: str, refused: Callable[..., str]) -> None:
    assert expected in refused(f"{WORKLOAD}fabric: {{ {given} }}").replace("\n          ", " ")


def test_tiers_may_have_their_own_efficiencies(scenario: Callable[..., Loaded]) -> None:
    text = """
fabric:
  leaf_spine: { leaves: 2, hosts_per_leaf: 4, spines: 2, rate: 400Gb/s, efficiency: 0.9, uplink_efficiency: 0.8 }
  nodes: { npus: 4, rate_per_npu: 450GB/s, efficiency: 0.7 }
"""
    built = fabric(scenario(WORKLOAD + text))["built"]
    assert (built["network"]["leaf_spine"]["efficiency"], built["nodes"]["efficiency"]) == (0.9, 0.7)
    assert built["network"]["leaf_spine"]["uplink_efficiency"] == 0.8
    # A regular family becomes dimensions, which also have an efficiency.
    dims = fabric(scenario(WORKLOAD + "fabric: { torus: { sizes: 4x2, rate: 1GB/s, efficiency: 0.5 } }"))["dims"]
    assert [dim["efficiency"] for dim in dims] == [0.5, 0.5]


@pytest.mark.parametrize("value", ["0", "1.5", "-1"])
def test_an_efficiency_is_a_fraction(value: str, scenario: Callable[..., Loaded]) -> None:
    given = f"fabric: {{ fat_tree: {{ k: 4, rate: 1GB/s, uplink_efficiency: {value} }} }}"
    with pytest.raises(SynclineError) as caught:
        scenario(WORKLOAD + given)
    assert "uplink_efficiency" in caught.value.diagnostics[0]["key"]
