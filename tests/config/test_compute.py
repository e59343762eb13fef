"""Compute models: their forms, their files and their errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import syncline
from syncline.config.load import Loaded
from syncline.errors import SynclineError
from syncline.input import limits
from syncline.models import times

FABRIC = "fabric: { shape: Ring(2), rate: 25GB/s }\n"
LAYERS = """\
workload:
  layers:
    - { name: conv1, forward: { flop: 8GFLOP }, weight_grad: { flop: 8GFLOP }, update: { flop: 1kFLOP } }
    - { name: fc, forward: { products: [{ m: 100, k: 200, n: 50 }] }, input_grad: 3us }
"""
TABLE = """\
schema: syncline-times/1
device: a CPU
times:
  - { layer: conv1, pass: forward, time: 1ms, q1: 0.9ms, q3: 1.1ms, repeats: 9 }
  - { layer: conv1, pass: weight_grad, time: 2ms }
  - { layer: conv1, pass: update, time: 0s }
  - { layer: fc, pass: forward, time: 5us }
"""
CSV = """\
layer,pass,time,repeats
# measured by hand
conv1,forward,1ms,9
conv1,weight_grad,2ms,
conv1,update,0s,9
fc,forward,5us,9
"""
FALLING = "[{ flop: 2FLOP, efficiency: 1 }, { flop: 1FLOP, efficiency: 1 }]"


def step(scenario: Callable[..., Loaded], text: str) -> tuple[float, str]:
    """Compute time of a step in seconds, and the name of the compute model."""
    from syncline.api import run

    summary = run(scenario(LAYERS + FABRIC + text)).summary
    return summary.compute_s, summary.compute_model


def test_the_work_of_products_is_derived(scenario: Callable[..., Loaded]) -> None:
    layers = scenario(LAYERS + FABRIC).resolved["workload"]["layers"]
    assert layers[0]["forward"] == {"ops": {"flop": "8GFLOP", "memory": "0B"}}
    moved = 4 * (100 * 200 + 200 * 50 + 100 * 50)
    product = {"m": 100, "k": 200, "n": 50, "count": 1, "memory": f"{moved}B"}
    assert layers[1]["forward"] == {"ops": {"flop": "2000000FLOP", "memory": f"{moved}B", "products": [product]}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("products: [{ m: 0, k: 1, n: 1 }]", "at least 1"),
        ("products: [{ m: 1, k: 1 }]", "missing key `n`"),
        ("flop: 1FLOP, products: [{ m: 1, k: 1, n: 1 }]", "more operations than the pass"),
        ("memory: 11B, products: [{ m: 1, k: 1, n: 1 }]", "more memory traffic than the pass"),
        ("products: [{ m: 2147483648, k: 2147483648, n: 2 }]", "matrix products with too much work"),
    ],
)
def test_invalid_products_are_refused(change: str, expected: str, scenario: Callable[..., Loaded]) -> None:
    text = f"workload: {{ layers: [{{ name: a, forward: {{ {change} }} }}] }}\n{FABRIC}compute: {{ model: roofline, "
    with pytest.raises(SynclineError) as caught:
        loaded = scenario(text + "accelerator: A100 }")
        raise SynclineError(loaded.check())
    assert expected in str(caught.value)
    assert "s.yaml:1" in str(caught.value)


def test_the_systolic_array_has_the_size_of_the_paper(scenario: Callable[..., Loaded]) -> None:
    seconds, label = step(scenario, "compute: { model: systolic, memory: 900GB/s }\n")
    assert label == "systolic 256x256 (weight_stationary at 1GHz, memory 900GB/s, vector 512GFLOP/s)"
    # conv1 has no products: 16 GFLOP forward and backward, and 1 kFLOP, at 2 x 256 x 1 GHz.
    # fc: 2 x 200 + 50 + 100 - 2 cycles forward, and the given time backward.
    assert seconds == pytest.approx(16e9 / 512e9 + 1954e-12 + 548e-9 + 3e-6, abs=1.5e-12)


def test_operations_other_than_products_may_take_no_time(scenario: Callable[..., Loaded]) -> None:
    seconds, label = step(scenario, "compute: { model: systolic, memory: 900GB/s, vector: free, delay: 1us }\n")
    assert label.endswith("vector free, delay 1us)")
    # One delay for each of the four passes with operations.
    assert seconds == pytest.approx(4e-6 + 548e-9 + 3e-6, abs=1e-15)


@pytest.mark.parametrize("power", [0.5, 1, 2, 4])
@pytest.mark.parametrize(
    "model",
    ["roofline, peak: 1TFLOP/s, memory: 1TB/s", "systolic, memory: 900GB/s", "table, file: t.yaml"],
)
def test_compute_power_divides_the_times_of_every_model(
    model: str, power: float, scenario: Callable[..., Loaded]
) -> None:
    Path("t.yaml").write_text(TABLE)
    once, label = step(scenario, f"compute: {{ model: {model} }}\n")
    scaled, said = step(scenario, f"compute: {{ model: {model}, compute_power: {power} }}\n")
    # Each of the five tasks is rounded up to a picosecond.
    assert scaled == pytest.approx(once / power, abs=5e-12)
    assert said == label + (f", compute power {power}" if power != 1 else "")


def test_an_efficiency_curve_is_interpolated(scenario: Callable[..., Loaded]) -> None:
    curve = "efficiency: [{ flop: 1MFLOP, efficiency: 0.1 }, { flop: 1GFLOP, efficiency: 0.5 }]"
    seconds, label = step(scenario, f"compute: {{ model: roofline, peak: 1TFLOP/s, memory: 1TB/s, {curve} }}\n")
    assert "(1TFLOP/s at efficiency 0.1 to 0.5 on a curve of 2 points, memory 1TB/s)" in label
    # 8 GFLOP twice at efficiency 0.5, 1 kFLOP at 0.1, and 2 MFLOP interpolated between 10 us and 2 ms.
    between = 10e-6 + (2e-3 - 10e-6) * (2e6 - 1e6) / (1e9 - 1e6)
    assert seconds == pytest.approx(2 * 16e-3 + 1e-8 + between + 3e-6, abs=3e-12)


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        ("{ model: systolc, memory: 1GB/s }", "did you mean `systolic`?"),
        ("{ model: 3 }", "allowed: given, roofline, systolic, throughput, table"),
        ("{ rows: 3 }", "missing key `model`"),
        ("{ model: systolic }", "missing key `memory`"),
        ("{ model: systolic, memory: 1GB/s, clock: 1GB/s }", "frequency"),
        ("{ model: systolic, memory: 1GB/s, clock: 0Hz }", "a frequency above zero"),
        ("{ model: systolic, memory: 1GB/s, rows: 0 }", "at least 1"),
        ("{ model: systolic, memory: 1GB/s, rows: 1048577 }", "at most 1048576"),
        ("{ model: systolic, memory: 1GB/s, dataflow: weight_stationry }", "did you mean `weight_stationary`?"),
        ("{ model: systolic, memory: 1GB/s, vector: fre }", "allowed: free, or a compute rate"),
        ("{ model: systolic, memory: 1GB/s, vector: 0FLOP/s }", "a rate above zero"),
        ("{ model: given, compute_power: 0 }", "at least 1e-06"),
        ("{ model: given, compute_power: 2000000 }", "at most 1000000"),
        ("{ model: table }", "missing key `file`"),
        ("{ model: roofline, accelerator: A1000 }", "did you mean `A100`?"),
        ("{ model: roofline, accelerator: A100, efficiency: 0 }", "above 0"),
        ("{ model: roofline, accelerator: A100, efficiency: [] }", "at least one entry"),
        ("{ model: roofline, accelerator: A100, efficiency: [{ flop: 1FLOP }] }", "missing key `efficiency`"),
        (
            "{ model: roofline, accelerator: A100, efficiency: " + FALLING + " }",
            "list points by increasing work",
        ),
    ],
)
def test_invalid_compute_models_are_refused(compute: str, expected: str, scenario: Callable[..., Loaded]) -> None:
    with pytest.raises(SynclineError) as caught:
        loaded = scenario(LAYERS + FABRIC + f"compute: {compute}\n")
        raise SynclineError(loaded.check())
    assert expected in str(caught.value)
    assert "s.yaml:6" in str(caught.value)


@pytest.mark.parametrize(("file", "text"), [("t.yaml", TABLE), ("t.csv", CSV)])
def test_measured_times_give_the_compute_time(file: str, text: str, scenario: Callable[..., Loaded]) -> None:
    Path(file).write_text(text)
    seconds, label = step(scenario, f"compute: {{ model: table, file: {file} }}\n")
    assert label == ("measured (t.yaml: a CPU)" if file == "t.yaml" else "measured (t.csv)")
    assert seconds == pytest.approx(3e-3 + 5e-6 + 3e-6, abs=1e-15)


def test_tensor_parallelism_divides_measured_times(scenario: Callable[..., Loaded]) -> None:
    Path("t.yaml").write_text(TABLE)
    from syncline.api import run

    workload = LAYERS + "  parallel: { tensor: all, data: none }\n"
    loaded = scenario(workload + FABRIC + "compute: { model: table, file: t.yaml }\n")
    assert run(loaded).summary.compute_s == pytest.approx((3e-3 + 5e-6 + 3e-6) / 2)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("layer: fc", "layer: fcc"), ["no times for a layer", "found `fc`", "did you mean `fcc`?", "s.yaml:6"]),
        (("pass: update, time: 0s", "pass: input_grad, time: 0s"), ["no time for the update of layer `conv1`"]),
        (("pass: update", "pass: updat"), ["t.yaml:6", "did you mean `update`?"]),
        (("time: 5us", "time: 5"), ["t.yaml:7", "add a unit"]),
        (("pass: update", "pass: forward"), ["t.yaml:6", "forward of layer `conv1` is given twice"]),
        (("device", "devise"), ["t.yaml:2", "did you mean `device`?"]),
        (
            ("device: a CPU", "data_type: fp16"),
            ["s.yaml:6", "a different data_type", "found `fp16`, allowed: fp32", "workload.precision"],
        ),
    ],
)
def test_tables_that_do_not_match_the_layers_are_refused(
    change: tuple[str, str], expected: list[str], scenario: Callable[..., Loaded]
) -> None:
    Path("t.yaml").write_text(TABLE.replace(*change))
    with pytest.raises(SynclineError) as caught:
        loaded = scenario(LAYERS + FABRIC + "compute: { model: table, file: t.yaml }\n")
        raise SynclineError(loaded.check())
    for each in expected:
        assert each in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("layer,pass\n", "missing column `time`"),
        ("layer,pass,tim\n", "unknown column `tim`"),
        ("layer,pass,time\n", "the file has no time below its header"),
        ("layer,pass,time\nconv1,forward,5\n", "t.csv:2:15"),
        ("", "the file is empty"),
    ],
)
def test_invalid_csv_tables_are_refused(text: str, expected: str, refused: Callable[..., str]) -> None:
    Path("t.csv").write_text(text)
    assert expected in refused(LAYERS + FABRIC + "compute: { model: table, file: t.csv }\n")


def test_a_table_of_another_batch_is_refused(refused: Callable[..., str]) -> None:
    Path("t.yaml").write_text(TABLE.replace("device: a CPU", "batch_per_npu: 64"))
    text = refused("workload: { model: vgg16 }\n" + FABRIC + "compute: { model: table, file: t.yaml }\n")
    assert "a different batch_per_npu" in text
    assert "found `64`, allowed: 32" in text


def test_a_job_without_layers_ignores_a_table(tmp_path: Path) -> None:
    table = tmp_path / "t.yaml"
    table.write_text(TABLE)
    # A collective needs no compute model, so the table is not used.
    result = syncline.simulate(
        workload={"collective": "all_reduce", "bytes": "1MB"},
        fabric={"shape": "Ring(2)", "rate": "1GB/s"},
        compute={"model": "table", "file": str(table)},
    )
    assert result.summary.compute_model == "measured (t.yaml: a CPU)"


def test_a_table_that_lacks_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("schema: syncline-times/1\n")
    with pytest.raises(SynclineError, match="add `times` to the table"):
        times.read(str(path))


def test_the_number_of_times_in_a_table_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TIMES", 2)
    monkeypatch.setattr(times, "_FORM", times._FORM.__class__(**{**vars(times._FORM), "max_rows": 2}))
    path = tmp_path / "t.csv"
    path.write_text("layer,pass,time\na,forward,1s\nb,forward,1s\n")
    assert len(times.read(str(path))[0].times) == 2
    path.write_text(path.read_text() + "c,forward,1s\n")
    with pytest.raises(SynclineError, match="more than 2 times"):
        times.read(str(path))


def test_a_run_repeats_from_its_folder_without_the_table(scenario: Callable[..., Loaded], tmp_path: Path) -> None:
    Path("t.yaml").write_text(TABLE)
    from syncline.api import run

    first = run(scenario(LAYERS + FABRIC + "compute: { model: table, file: t.yaml, compute_power: 2 }\n"))
    first.save("out")
    Path("t.yaml").unlink()
    again = syncline.simulate("out")
    assert again.summary == first.summary
