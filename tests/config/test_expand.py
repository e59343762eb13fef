"""Shorthands and their expansion."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from syncline import _core
from syncline.config.load import Loaded
from syncline.errors import SynclineError

WORKLOAD = "workload: { collective: all_reduce, bytes: 1MiB }\n"
ROOFLINE = "compute: { model: roofline, accelerator: A100 }\n"
FABRIC = "fabric: { shape: Ring(4), rate: 25GB/s }\n"


def dims(loaded: Loaded, *keys: str) -> list[tuple[object, ...]]:
    return [tuple(dim[key] for key in keys) for dim in loaded.resolved["fabric"]["dims"]]


def test_micro_batches_are_resolved_only_if_there_are_several(scenario: Callable[..., Loaded]) -> None:
    def resolved(rest: str) -> dict[str, object]:
        workload: dict[str, object] = scenario(f"workload: {{ model: mlp{rest} }}\n{FABRIC}{ROOFLINE}").resolved[
            "workload"
        ]
        return workload

    assert resolved(", micro_batches: 4")["micro_batches"] == 4
    assert resolved(", micro_batches: 1") == resolved("")
    assert "micro_batches" not in resolved("")


def test_a_shape_takes_one_value_for_all_dimensions_or_one_for_each(scenario: Callable[..., Loaded]) -> None:
    loaded = scenario(
        WORKLOAD + "fabric: { shape: Ring(4)_FC(2)_Switch(8), rate_per_npu: [3GB/s, 2GB/s, 1GB/s], latency: 1us }"
    )
    assert dims(loaded, "name", "shape", "size", "rate_per_npu", "latency") == [
        ("dim1", "ring", 4, "3GB/s", "1us"),
        ("dim2", "fully_connected", 2, "2GB/s", "1us"),
        ("dim3", "switch", 8, "1GB/s", "1us"),
    ]


def test_a_torus_is_local_vertical_horizontal(scenario: Callable[..., Loaded]) -> None:
    """astra2020 III-C: M x N x K is local, horizontal, vertical; local rings run one way."""
    loaded = scenario(
        WORKLOAD + "fabric: { torus: 2x4x8, local: { rings: 2, rate: 200GB/s }, package: { rings: 3, rate: 25GB/s } }"
    )
    assert dims(loaded, "name", "size", "count", "direction", "rate") == [
        ("local", 2, 2, "one-way", "200GB/s"),
        ("vertical", 8, 3, "both", "25GB/s"),
        ("horizontal", 4, 3, "both", "25GB/s"),
    ]


def test_dimensions_of_size_1_are_left_out(scenario: Callable[..., Loaded]) -> None:
    assert dims(scenario(WORKLOAD + "fabric: { torus: 1x8x1, package: { rate: 25GB/s } }"), "name", "size") == [
        ("horizontal", 8)
    ]


def test_the_pair_may_choose_the_switch(scenario: Callable[..., Loaded]) -> None:
    """dlrm2020 III-C.2 has eight NPUs on seven switches."""
    dim = "name: nvlink, shape: switch, size: 8, switches: 7, rate: 25GB/s"
    loaded = scenario(WORKLOAD + f"fabric: {{ dims: [{{ {dim}, spread: pair }}] }}")
    assert dims(loaded, "count", "spread") == [(7, "pair")]
    assert "spread" not in scenario(WORKLOAD + f"fabric: {{ dims: [{{ {dim} }}] }}").resolved["fabric"]["dims"][0]


@pytest.mark.parametrize("key", ["rings: 2", "direction: one-way"])
def test_the_switches_of_an_alltoall_have_no_rings(key: str, refused: Callable[..., str]) -> None:
    fabric = f"fabric: {{ alltoall: 2x3, local: {{ rate: 1GB/s, {key} }}, package: {{ rate: 1GB/s, {key} }} }}"
    text = refused(WORKLOAD + fabric)
    assert text.startswith(f"error[SL0101]: unknown key `{key.split(':')[0]}`")
    assert text.count("error[") == 1
    assert f"note: key `fabric.package.{key.split(':')[0]}`" in text


def test_an_alltoall_has_a_ring_below_its_switches(scenario: Callable[..., Loaded]) -> None:
    loaded = scenario(
        WORKLOAD + "fabric: { alltoall: 2x3, switches: 2, local: { rate: 200GB/s }, package: { rate: 25GB/s } }"
    )
    assert dims(loaded, "name", "shape", "size", "count", "direction") == [
        ("local", "ring", 2, 1, "one-way"),
        ("alltoall", "switch", 3, 2, "both"),
    ]


def test_a_graph_names_vertices_or_numbers_them(scenario: Callable[..., Loaded]) -> None:
    loaded = scenario(
        WORKLOAD
        + """
fabric:
  npus: [left, right]
  switches: 1
  links:
    - { from: left, to: switch0, rate: 100Gb/s, latency: 1us }
    - { from: 1, to: 2, rate: 50Gb/s, duplex: false }
    - { from: 2, to: 1, rate: 50Gb/s, duplex: false }
  routing: [[left, switch0, right]]
"""
    )
    graph = loaded.resolved["fabric"]["graph"]
    assert (graph["npus"], graph["switches"]) == (2, 1)
    assert [(link["from"], link["to"]) for link in graph["links"]] == [(0, 2), (2, 0), (1, 2), (2, 1)]
    assert graph["routing"] == {"explicit": [[0, 2, 1]]}


def test_an_edge_list_is_read_from_the_folder_of_the_scenario(scenario: Callable[..., Loaded]) -> None:
    Path("edges.csv").write_text("from,to,rate,latency\n# a comment\nnpu0,npu1,25GB/s,1us\n\nnpu1,npu2,25GB/s,\n")
    graph = scenario(WORKLOAD + "fabric: { file: edges.csv }").resolved["fabric"]["graph"]
    assert graph["npus"] == 3
    assert [(link["from"], link["to"], link["latency"]) for link in graph["links"]] == [
        (0, 1, "1us"),
        (1, 0, "1us"),
        (1, 2, "0s"),
        (2, 1, "0s"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from,to,rate\nnpu0,npu1,25\n", "edges.csv:2:1"),
        ("from,to,rate\nnpu0,npu1,25GB/s\nnpu0,hub,25GB/s\n", "edges.csv:3:6"),
        ("from,to,rte\nnpu0,npu1,25\n", "unknown column `rte`"),
        ("from,to,rate\nnpu0,npu1\n", "2 cells under 3 columns"),
        ('from,to,rate\n"npu0,npu1\n', "not well-formed CSV"),
        ("", "the file is empty"),
    ],
)
def test_errors_in_an_edge_list_name_its_line(text: str, expected: str, refused: Callable[..., str]) -> None:
    Path("edges.csv").write_text(text)
    assert expected in refused(WORKLOAD + "fabric: { file: edges.csv }")


def test_paths_are_relative_to_their_file(
    scenario: Callable[..., Loaded], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from syncline.config.load import load

    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "s.yaml").write_text(
        "workload: { chakra: traces/job, groups: groups.json }\nfabric: { file: edges.yaml }\n"
    )
    (tmp_path / "deep" / "edges.yaml").write_text("npus: 2\nlinks: [{ from: 0, to: 1, rate: 1GB/s }]\n")
    monkeypatch.chdir(tmp_path)
    workload = load("deep/s.yaml").resolved["workload"]
    assert (workload["prefix"], workload["groups"]) == ("deep/traces/job", "deep/groups.json")


def test_a_model_becomes_its_layers(scenario: Callable[..., Loaded]) -> None:
    resolved = scenario(
        "workload: { model: resnet50, batch_per_npu: 8, precision: fp16 }\n"
        + FABRIC
        + "compute: { model: roofline, accelerator: A100 }\n"
    ).resolved
    assert len(resolved["workload"]["layers"]) == 54
    assert resolved["workload"]["types"]["parameters"] == "fp16"
    assert _core.parse_quantity("flop_rate", resolved["compute"]["peak"]) == 312 * 10**12


def test_layers_may_be_given_one_by_one(scenario: Callable[..., Loaded]) -> None:
    text = """
workload:
  layers:
    - { name: a, forward: 5us, weight_grad: { flop: 1GFLOP, memory: 1MB }, parameters: 1000,
        exchanges: [{ when: after_weight_grad, axis: data, collective: all_gather, bytes: 4kB }] }
  parallel: { tensor: 2, data: [dim1] }
"""
    workload = scenario(text + FABRIC).resolved["workload"]
    (layer,) = workload["layers"]
    assert layer["forward"] == {"time": "5us"}
    assert layer["input_grad"] == "none"
    assert layer["weight_grad"] == {"ops": {"flop": "1GFLOP", "memory": "1MB"}}
    exchange = {"when": "after_weight_grad", "axes": ["data"], "kind": "all_gather", "bytes": "4kB"}
    assert layer["exchanges"] == [exchange]
    assert workload["parallel"] == {"tensor": {"degree": 2}, "data": {"dims": ["dim1"]}, "backward": "weight_first"}


def test_limits_may_be_unlimited(scenario: Callable[..., Loaded]) -> None:
    keys = ("issue_threshold", "issue_batch", "active_chunks", "outstanding", "concurrent")
    text = f"collectives: {{ {', '.join(f'{key}: unlimited' for key in keys)} }}\n"
    loaded = scenario(WORKLOAD + FABRIC + text)
    assert {loaded.resolved["collectives"][key] for key in keys} == {"unlimited"}
    assert loaded.check() == []


@pytest.mark.parametrize("value", ["0", "unlimitd", "-1", "1.5"])
def test_invalid_limits_are_refused(value: str, refused: Callable[..., str]) -> None:
    text = refused(WORKLOAD + FABRIC + f"collectives: {{ active_chunks: {value} }}\n")
    assert "allowed: unlimited, or a whole number of at least 1" in text
    assert ("did you mean `unlimited`" in text) == value.isalpha()


def test_defaults_match_the_core(scenario: Callable[..., Loaded]) -> None:
    resolved = scenario(WORKLOAD + FABRIC + "network: packet\n").resolved
    for section, expected in json.loads(_core.defaults()).items():
        found = resolved[section]
        assert found.keys() == expected.keys(), section
        for key, value in expected.items():
            assert _amount(found[key]) == _amount(value), f"{section}.{key}"


def _amount(value: object) -> object:
    """A value with quantities parsed, so that notations of the same quantity are equal."""
    for kind in ("time", "bytes", "rate"):
        try:
            return (kind if value not in ("0s", "0ps") else "zero", _core.parse_quantity(kind, str(value)))
        except ValueError:
            continue
    return value


def test_a_run_folder_is_a_scenario(tmp_path: Path) -> None:
    import syncline

    first = syncline.simulate(
        workload={"collective": "all_gather", "bytes": "1MiB"}, fabric={"shape": "FC(4)", "rate": "1GB/s"}
    )
    first.save(tmp_path / "run")
    again = syncline.simulate(tmp_path / "run", network="queued")
    assert again.scenario is not None
    assert again.scenario["network"] == {"model": "queued"}
    assert syncline.simulate(tmp_path / "run").summary == first.summary


def test_a_damaged_run_folder_is_refused(tmp_path: Path) -> None:
    import syncline

    (tmp_path / "scenario.resolved.yaml").write_text("schema: syncline/1\nworkload: { source: nowhere }\n")
    with pytest.raises(SynclineError, match="not a resolved scenario"):
        syncline.simulate(tmp_path)
