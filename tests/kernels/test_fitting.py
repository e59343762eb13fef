"""Fits of kernel models: what they recover, what they promise on kernels that were left out, and what they refuse."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from syncline import SynclineError, _core, kernels

np = pytest.importorskip("numpy")
pytest.importorskip("scipy")

from syncline.kernels.fitting import attention, document, gemm  # noqa: E402
from syncline.kernels.fitting.held_out import held_out  # noqa: E402
from syncline.kernels.fitting.lattices import encode  # noqa: E402
from syncline.kernels.fitting.least_squares import Constant, fit  # noqa: E402
from syncline.kernels.fitting.machines import MACHINES  # noqa: E402
from syncline.kernels.fitting.regression import Errors, Regression  # noqa: E402
from syncline.kernels.fitting.rows import attentions, products, read, to_parquet  # noqa: E402
from syncline.models.accelerators import find  # noqa: E402

VALIDATION = Path(__file__).parents[2] / "validation" / "kernels"
TABLES = sorted(VALIDATION.glob("*.parquet"))


def table(name: str) -> str:
    """The measured kernels of an accelerator."""
    return str(VALIDATION / f"{name}.parquet")


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_shipped_models_are_close_to_the_rows_that_they_were_fitted_to(path: Path) -> None:
    found, models = read([str(path)], None), kernels.load(path.stem)
    for data_type in models.gemm_types:
        rows = products(found.products(data_type))
        times = models.core.gemm_times(data_type, *rows.columns(), corrected=True)
        errors = Errors.of(times, rows.seconds)
        assert errors.median < 1.2, data_type
        assert errors.p90 < 4.5, data_type
    rows = attentions(found.attention("bf16"))
    times = models.core.attention_times(
        "bf16", rows.shapes.tolist(), rows.causal.tolist(), backward=False, corrected=True
    )
    assert Errors.of(times, rows.seconds).median < 1.5


def test_a_fit_to_a_quarter_of_an_h100s_products_predicts_the_rest() -> None:
    # Without a model, linear interpolation of the logarithm of the time (Delaunay) has a median error of 3.0 % on these
    # rows, a mean of 5.1 % and a 90th percentile of 11.5 %.
    rows = products(read([table("H100-SXM5-80GB")], None).products("bf16"))
    found = held_out(rows, partial(gemm.fit_products, MACHINES["H100-SXM5-80GB"], "bf16", casts=False))
    assert found["corrected"]["median_percent"] < 2.4
    assert found["corrected"]["mean_percent"] < 4.0
    assert found["corrected"]["p90_percent"] < 9.5
    # The form alone is worth more than interpolation between few points.
    assert found["constants_only"]["median_percent"] < 4.5
    assert found["constants_only"]["p90_percent"] < 13


def test_a_fit_to_a_quarter_of_an_a100s_attention_predicts_the_rest() -> None:
    rows = attentions(read([table("A100-SXM4-80GB")], None).attention("bf16"))
    fit_attention = partial(attention.fit_attention, MACHINES["A100-SXM4-80GB"], "bf16", prepares=True)
    found = held_out(rows, fit_attention)["corrected"]
    assert found["median_percent"] < 2
    assert found["mean_percent"] < 3.2
    assert found["p90_percent"] < 7.5


def test_constants_are_those_of_the_machine() -> None:
    # What one would measure by hand: the memory's rate within its data sheet, launches of some microseconds.
    for path in TABLES:
        constants = kernels.load(path.stem).document["gemm"]["bf16"]["constants"]
        sheet, machine = find(path.stem), MACHINES[path.stem]
        assert 0.75 < constants["memory_bytes_per_s"] / sheet.memory_bytes_per_s < 0.95
        assert constants["flop_per_s"] <= 1.001 * machine.boost * sheet.peak_flop_per_s["bf16"]
        assert 1e-6 < constants["launch_s"] < 4e-6


def test_a_robust_fit_recovers_constants_despite_outliers() -> None:
    sizes = np.geomspace(1e3, 1e9, 200)
    measured = 5e-6 + sizes / 2e12
    measured[::20] *= 3
    constants = [Constant("launch_s", 1e-6, 3), Constant("bytes_per_s", 1e12, 3)]
    launch, rate = fit(constants, lambda values: values[0] + sizes / values[1], measured)
    assert launch == pytest.approx(5e-6, rel=0.02)
    assert rate == pytest.approx(2e12, rel=0.02)


def test_a_regression_passes_near_its_values_and_forgets_them_far_away() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    regression = Regression(points, np.array([1.0, -1.0, 0.5]), noise=1e-6)
    assert regression(points) == pytest.approx([1.0, -1.0, 0.5], abs=1e-4)
    assert regression(np.array([[50.0, 50.0]])) == pytest.approx([0.0], abs=1e-9)


def test_the_core_reads_lattices_as_they_were_meant() -> None:
    axes = [[16, 64], [8, 64, 512], [32, 4096]]
    values = np.linspace(-0.4, 0.4, 12).reshape(2, 3, 2)
    plain = dict(kernels.load("A100").document)
    section = {**plain["gemm"]["bf16"], "corrections": {"aligned": encode(axes, values)}}
    models = _core.KernelModels.parse(json.dumps({**plain, "gemm": {"bf16": section}}), "test")
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3).T.tolist()
    times = (np.array(models.gemm_times("bf16", *grid, corrected=each)) for each in (True, False))
    corrected, physical = times
    assert np.log(corrected / physical) == pytest.approx(values.ravel(), abs=0.012)


def test_rows_come_back_from_parquet_as_they_were_written(tmp_path: Path) -> None:
    rows = [
        {
            "accelerator": "H100-SXM5-80GB",
            "operation": "gemm",
            "data_type": "bf16",
            "m": 3,
            "n": 4,
            "k": 5,
            "seconds": 1.5e-6,
        },
        {"operation": "attention", "data_type": "bf16", "batch": 2, "heads": 4, "causal": True, "seconds": 2e-6},
    ]
    path = tmp_path / "rows.parquet"
    path.write_bytes(to_parquet(rows))
    found = read([str(path)], None)
    assert found.accelerator == "H100-SXM5-80GB"
    assert [{key: row[key] for key in row if row[key]} for row in found.rows] == rows


def test_tables_of_the_measuring_command_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "# schema: syncline-kernels/1\n# date: 2026-01-31\n# torch: 2.15.0\n"
        "operation,pass,data_type,layout,m,n,k,causal,seconds\n"
        "gemm,backward,fp8_e4m3,tn,64,32,16,,2.5e-06\nrms_norm,forward,bf16,,64,32,,,1e-05\n"
    )
    found = read([str(path)], "H100")
    assert found.accelerator == "H100-SXM5-80GB"
    assert found.rows[0] == {
        "software": "PyTorch 2.15.0",
        "source": "syncline kernels measure, 2026-01-31",
        "operation": "gemm",
        "pass": "backward",
        "data_type": "fp8",
        "layout": "tn",
        "m": 64,
        "n": 32,
        "k": 16,
        "seconds": 2.5e-6,
    }
    assert found.products("fp8") == [found.rows[0]]


def test_attention_of_several_libraries_counts_by_the_fastest(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "# schema: syncline-kernels/1\n"
        "operation,pass,backend,data_type,batch,sequence,heads,kv_heads,head_dim,value_head_dim,causal,seconds\n"
        "attention,forward,flash,bf16,1,512,8,8,128,128,true,3e-05\n"
        "attention,forward,cudnn,bf16,1,512,8,8,128,128,true,2e-05\n"
        "attention,backward,flash,bf16,1,512,8,8,128,128,true,7e-05\n"
        "attention,forward,flash,bf16,1,512,8,8,192,128,true,5e-05\n"
    )
    found = read([str(path)], "H100")
    assert [row["backend"] for row in found.attention("bf16")] == ["cudnn"]
    assert [row["seconds"] for row in found.attention("bf16", "backward")] == [7e-5]


@pytest.mark.parametrize(
    ("text", "accelerator", "message"),
    [
        ("operation,seconds\n", "H100", "the file has no kernel below its header"),
        ("operation,seconds,m\ngemm,1,x\n", "H100", "value not allowed for `m`"),
        ("operation,seconds\ncopy,1\n", None, "a model is of one accelerator"),
        ("operation,seconds\ngemm,1\n", "H100", "a row of gemm without m"),
        ("operation,seconds,batch,sequence\nattention,1,1,1\n", "H100", "a row of attention without heads"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(
    tmp_path: Path, text: str, accelerator: str | None, message: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"# schema: syncline-kernels/1\n{text}")
    with pytest.raises(SynclineError) as refused:
        read([str(path)], accelerator)
    assert refused.value.diagnostics[0]["message"] == message


def test_a_table_of_all_families_becomes_a_file_of_all_models(tmp_path: Path) -> None:
    # A table as `syncline kernels measure` writes it, of an accelerator that behaves like the shipped H100, except that
    # other layouts are slower by 10 and 20 %, grouped products by 30 %, and the memory reaches 3 TB/s.
    h100, random = kernels.load("H100"), np.random.default_rng(1)
    header = "operation,pass,backend,data_type,layout,m,n,k,groups,batch,sequence,heads,kv_heads,head_dim,causal,bytes"
    lines = ["# schema: syncline-kernels/1", f"{header},seconds"]
    for number in range(600):
        m, n, k = (int(size) for size in np.exp(random.uniform(np.log(64), np.log(16384), 3)))
        layout, factor = (("nt", 1.0), ("nn", 1.1), ("tn", 1.2))[number % 3 if number >= 300 else 0]
        time = factor * h100.gemm(m, n, k).seconds
        lines.append(f"gemm,{'forward' if layout == 'nt' else 'backward'},,bf16,{layout},{m},{n},{k},,,,,,,,,{time}")
        if number < 40:
            time = 1.3 * h100.gemm(m, n, k, groups=8).seconds
            lines.append(f"grouped_gemm,forward,grouped_mm,bf16,nt,{m},{n},{k},8,,,,,,,,{time}")
        if number < 240:
            sequence, batch = int(2 ** random.uniform(7, 14)), int(random.integers(1, 9))
            time = h100.attention(batch=batch, sequence=sequence, heads=32, kv_heads=8, head_dim=128).seconds
            shape = f"{batch},{sequence},32,8,128,true"
            lines.append(f"attention,forward,cudnn,bf16,,,,,,{shape},,{time}")
            lines.append(f"attention,backward,cudnn,bf16,,,,,,{shape},,{3 * time}")
            size = int(np.exp(random.uniform(np.log(1e5), np.log(1e10))))
            lines.append(f"rms_norm,forward,,bf16,,,,,,,,,,,,{size},{4e-6 + size / 3e12}")
    path, out = tmp_path / "rows.csv", tmp_path / "own.json"
    path.write_text("\n".join(lines) + "\n")
    out.write_text(document.fit(read([str(path)], "H100")))
    models = kernels.load(str(out))
    section = models.document["gemm"]["bf16"]
    assert section["layouts"] == pytest.approx({"nt": 1.0, "nn": 1.1, "tn": 1.2}, rel=0.03)
    assert section["grouped"] == pytest.approx(1.3, rel=0.05)
    assert models.memory_bound(10**9).seconds == pytest.approx(4e-6 + 1e9 / 3e12, rel=0.02)
    large = models.gemm(8192, 8192, 8192)
    assert large.seconds == pytest.approx(h100.gemm(8192, 8192, 8192).seconds, rel=0.08)
    assert not models.gemm(4096, 4096, 4096, groups=8, layout="tn").extrapolates
    shape = {"batch": 4, "sequence": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}
    forward, backward = models.attention(**shape), models.attention(**shape, backward=True)
    assert backward.seconds / forward.seconds == pytest.approx(3, rel=0.1)
    assert not backward.extrapolates
