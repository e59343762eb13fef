"""Operator models: counts of the papers and of published sizes, and how operators are split."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.models.errors import ModelError
from syncline.models.operators import MODELS, Cluster, OperatorModel, build, resolve
from syncline.models.operators.measured import LONGEST_MS, read
from syncline.models.types import types

FOUR = Cluster(servers=8, accelerators=4, rate="200GB/s", memory=None)


def test_built_graphs_have_the_sizes_of_the_released_ones():
    # facts of TopoOpt's release: dlrm_16 has 40 operators, dlrm_128 88, transformer_16 61.
    small = {"tables": 16, "bottom": 1024, "top": 2048, "embedding": 256}
    assert len(build("dlrm", small).operators) == 40
    assert len(build("dlrm", {}).operators) == 88
    assert len(build("bert", {"blocks": 6, "hidden": 768, "heads": 12, "sequence": 256}).operators) == 61
    # 7 dense layers of 2048 x 2048, 10240 x 4096, 14 of 4096 x 4096 and a classifier, with biases.
    dense = build("dlrm", {"tables": 64, "entries": 1, "embedding": 128}).parameters - 64 * 128
    assert dense == 7 * (2048 * 2048 + 2048) + (10240 * 4096 + 4096) + 14 * (4096 * 4096 + 4096) + 4096 + 1


def test_parameters_of_dlrm_are_its_tables():
    # 64 tables of 10 million vectors of 128 elements: 81.92 billion.
    assert build("dlrm", {}).parameters == pytest.approx(81.92e9, rel=0.01)


def test_names_are_those_of_measured_tables():
    names = {operator.measured for operator in build("dlrm", {}).operators}
    assert names == {
        "Dense_2048_2048",
        "Embed_10000000x128",
        "Concat_1",
        "Dense_10240_4096",
        "Dense_4096_4096",
        "Dense_4096_1",
    }
    assert "Dense_81922_16384" in {operator.measured for operator in build("candle", {}).operators}
    assert {"Dense_8192_4096", "Dense_2048_1", "Dense_4097_1", "ElementBinary_32"} <= {
        operator.measured for operator in build("ncf", {}).operators
    }


@pytest.mark.parametrize("name", [*MODELS, "vgg16", "resnet50"])
@pytest.mark.parametrize("split", [False, True])
def test_the_parts_of_every_split_do_the_whole_work(name: str, split: bool):
    graph = resolve(build(name, {}), FOUR, types("fp32"), split_parameters=split)
    names = [operator["name"] for operator in graph["operators"]]
    assert len(set(names)) == len(names)
    for at, operator in enumerate(graph["operators"]):
        assert all(input_ < at for input_ in operator["inputs"])
        work = set()
        for choice in operator["choices"]:
            parts = choice["samples"] * choice["parameters"]
            assert 8 % parts == 0
            forward = choice["forward"]
            flop = 0 if forward == "none" else int(forward["ops"]["flop"].removesuffix("FLOP"))
            work.add(flop * parts)
        assert len(work) == 1, operator["name"]
    parts = {choice["parameters"] for each in graph["operators"] for choice in each["choices"]}
    assert (max(parts) > 1) == split


def test_updates_follow_the_optimizer():
    def moved(optimizer: str) -> int:
        graph = resolve(build("dlrm", {"tables": 1}), FOUR, types("fp32"), optimizer=optimizer)
        (top,) = (each for each in graph["operators"] if each["name"] == "top1")
        return int(top["choices"][0]["backward"]["ops"]["memory"].removesuffix("B"))

    # In fp32 an update moves 12 bytes of each parameter with SGD, 28 with Adam.
    parameters = 4096 * 4096 + 4096
    assert moved("sgd") - moved("none") == 12 * parameters
    assert moved("adam") - moved("none") == 28 * parameters


def test_embeddings_stay_on_one_server():
    graph = resolve(build("dlrm", {}), FOUR, types("fp32"))
    tables = [each for each in graph["operators"] if each["kind"] == "embedding"]
    assert [len(each["choices"]) for each in tables] == [1] * 64
    assert not any(each["copied"] for each in tables)
    # 128 samples of 4 accelerators of 8 servers, 128 elements of 4 bytes each.
    assert tables[0]["output"] == "512B"
    assert graph["samples"] == 128 * 4 * 8


def test_unknown_models_and_parameters_are_named():
    with pytest.raises(ModelError, match="did you mean dlrm"):
        build("dlrn", {})
    with pytest.raises(ModelError, match="did you mean tables"):
        build("dlrm", {"tabels": 3})
    with pytest.raises(ModelError, match="whole number from 1"):
        build("dlrm", {"tables": 0})


def table(folder: Path, **changes: object) -> str:
    """A measured table with two numbers of parts."""
    rows = [
        {"name": "Dense_8_8", "pc_str": "2-1-1", "fw_time": 8.0, "bw_time": 16.0, "mem_req": 1},
        {"name": "Dense_8_8", "pc_str": "2-1-4", "fw_time": 2.0, "bw_time": 4.0, "mem_req": 1},
    ]
    path = folder / "table.json"
    path.write_text(json.dumps({"batch_size": 64, "ngpus": 4, "measurements": rows, **changes}), "utf-8")
    return str(path)


def test_measured_times_are_interpolated_and_noted(tmp_path: Path):
    from syncline.models.operators.parts import dense

    # 64 samples in 1 part and in 4 parts.
    operator = dense("d", [], 8, 8)
    measured = read(table(tmp_path), interpolate=True)
    assert measured.times(operator, 16, 1) == (2_000_000_000, 4_000_000_000)
    assert measured.times(operator, 64, 1) == (8_000_000_000, 16_000_000_000)
    assert not measured.notes
    # The geometric mean in the middle; in proportion to the samples outside.
    assert measured.times(operator, 32, 1) == (4_000_000_000, 8_000_000_000)
    assert measured.times(operator, 8, 1) == (1_000_000_000, 2_000_000_000)
    assert measured.times(operator, 128, 1) == (16_000_000_000, 32_000_000_000)
    assert measured.notes[0] == "times of Dense_8_8 for 32 samples are interpolated"
    exact = read(table(tmp_path), interpolate=False)
    with pytest.raises(SynclineError, match="no times for this number of samples of `d`"):
        exact.times(operator, 32, 1)
    with pytest.raises(SynclineError, match="no times for `other`"):
        exact.times(dense("other", [], 9, 9), 64, 1)


def test_a_measured_job_uses_the_samples_of_its_parts(tmp_path: Path):
    # 128 samples for each of 4 accelerators of 8 servers, as in a table of 4,096 samples for 8 servers.
    rows = [
        {"name": name, "pc_str": f"2-1-{parts}", "fw_time": 8 / parts, "bw_time": 16 / parts, "mem_req": 1}
        for name in ("Dense_2048_2048", "Concat_1", "Dense_10240_4096", "Dense_4096_4096", "Dense_4096_1")
        for parts in (1, 2, 4, 8)
    ]
    rows.append({"name": "Embed_10000000x128", "pc_str": "2-1-1", "fw_time": 5, "bw_time": 9, "mem_req": 1})
    measured = read(table(tmp_path, batch_size=4096, ngpus=8, measurements=rows), interpolate=False)
    graph = resolve(build("dlrm", {}), FOUR, types("fp32"), measured=measured)
    times = {each["name"]: [choice["forward"]["time"] for choice in each["choices"]] for each in graph["operators"]}
    assert times["table0"] == ["5000000000ps"]
    assert times["bottom1"] == ["8000000000ps", "4000000000ps", "2000000000ps", "1000000000ps"]
    # On half as many servers a part of the whole has half as many samples.
    half = Cluster(servers=4, accelerators=4, rate="200GB/s", memory=None)
    graph = resolve(build("dlrm", {"tables": 1, "bottom_layers": 1, "top_layers": 1}), half, types("fp32"))
    assert graph["samples"] == 2048


ROW: dict[str, object] = {"name": "a", "pc_str": "1-1", "fw_time": 1, "bw_time": 1}


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"measurements": [{"name": "a"}]}, "measurements.0", "missing key `pc_str`"),
        ({"measurements": [ROW, {**ROW, "fw_tme": 1}]}, "measurements.1.fw_tme", "did you mean `fw_time`"),
        ({"measurements": [{**ROW, "pc_str": "x"}]}, "measurements.0.pc_str", "x"),
        ({"measurements": [{**ROW, "fw_time": -1}]}, "measurements.0.fw_time", "above 0"),
        ({"measurements": [{**ROW, "bw_time": LONGEST_MS}]}, "measurements.0.bw_time", "below 1000000000"),
        ({"measurements": [{**ROW, "pc_str": "1-128"}]}, "measurements.0.pc_str", "1 to 64"),
        ({"measurements": [{**ROW, "pc_str": "1-0"}]}, "measurements.0.pc_str", "1 to 64"),
        ({"measurements": 3}, "measurements", "3"),
        ({"batch_size": None}, "batch_size", "whole number"),
    ],
)
def test_errors_in_a_measured_table_name_the_key(
    tmp_path: Path, changes: dict[str, object], key: str, text: str
) -> None:
    path = table(tmp_path, **changes)
    with pytest.raises(SynclineError, match=re.escape(text)) as refused:
        read(path, interpolate=True)
    found = refused.value.diagnostics[0]
    assert found.get("key", "").startswith(key)
    assert found["place"]["file"] == path and found["place"]["line"] == 1


def test_missing_tables_are_refused(tmp_path: Path):
    with pytest.raises(SynclineError, match="no such file"):
        read(str(tmp_path / "none.json"), interpolate=True)


def _decoder() -> OperatorModel:
    sizes = {"layers": 2, "hidden": 64, "heads": 8, "kv_heads": 4, "sequence": 16, "vocabulary": 128, "rotary": True}
    return build("decoder", {**sizes, "gated": True, "norm": "rms", "activation": "silu", "positions": 0})


@pytest.mark.parametrize("name", ["embedding", "block1.qkv", "block1.attention", "block1.output", "block1.mlp1"])
def test_layers_of_a_decoder_are_split_by_features(name: str):
    (operator,) = (each for each in _decoder().operators if each.name == name)
    whole, half = operator.part(4, 1), operator.part(4, 2)
    assert operator.features % 2 == 0
    assert half.parameters * 2 == whole.parameters
    assert half.outputs * 2 == whole.outputs
    assert half.forward.flop * 2 == whole.forward.flop
    # A product reads all of its inputs in every part: Y = X W, with W split by columns.
    tokens, hidden = 4 * 16, 64
    if name == "block1.mlp1":
        columns = 2 * 4 * hidden
        assert whole.forward.moved == tokens * hidden + hidden * columns + columns + tokens * columns
        assert half.forward.moved == tokens * hidden + (hidden * columns + columns + tokens * columns) // 2
        assert half.forward.moved * 2 > whole.forward.moved


def test_norms_need_all_features():
    norms = [each for each in _decoder().operators if each.kind == "norm"]
    assert norms and all(each.features == 1 for each in norms)
    assert {each.kind for each in _decoder().operators} == {"dense", "embedding", "attention", "elementwise", "norm"}
    # Attention is split by heads of keys and values; each part reads the heads that it computes.
    (attention,) = (each for each in _decoder().operators if each.name == "block2.attention")
    assert (attention.features, attention.element_wise) == (4, True)


def test_convolutions_are_split_by_channels():
    by_name = {each.name: each for each in build("resnet50", {}).operators}
    first = by_name["conv1"]
    assert (first.kind, first.features) == ("convolution", 64)
    assert first.part(2, 4).parameters * 4 == first.part(2, 1).parameters
