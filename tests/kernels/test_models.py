"""The shipped models of kernels: what they promise about machines that were measured."""

from __future__ import annotations

import itertools
from pathlib import Path
from statistics import median

import pytest

from syncline import SynclineError, kernels
from syncline.models.accelerators import find

VALIDATION = Path(__file__).parents[2] / "validation" / "kernels"
SIZES = (1, 7, 16, 17, 64, 100, 129, 512, 1000, 2048, 4096, 4100, 8192, 30000)


def tera(models: kernels.KernelModels, m: int, n: int, k: int, data_type: str = "bf16") -> float:
    """FLOP per second of a product, in units of 1e12."""
    return 2e-12 * m * n * k / models.gemm(m, n, k, data_type=data_type).seconds


@pytest.mark.parametrize(("name", "expected"), [("A100", 257), ("H100", 751), ("B200", 1457)])
def test_large_products_reach_the_measured_rates(name: str, expected: float) -> None:
    # Medians of the measured tables over products with m, n, k of at least 4096.
    models = kernels.load(name)
    rates = [tera(models, m, n, k) for m in (4096, 8192) for n in (4096, 8192, 16384) for k in (4096, 8192, 16384)]
    assert median(rates) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("name", kernels.names())
def test_no_kernel_beats_the_data_sheet(name: str) -> None:
    models, sheet = kernels.load(name), find(name)
    for data_type in set(models.gemm_types) & set(sheet.peak_flop_per_s):
        peak = sheet.peak_flop_per_s[data_type] * 1e-12
        assert max(tera(models, m, n, k, data_type) for m in SIZES for n in SIZES for k in SIZES) < 1.02 * peak
    # One row: the weights pass through the memory.
    for size in (8192, 16384):
        assert models.gemm(1, size, size).seconds > 2 * size * size / sheet.memory_bytes_per_s
    assert models.memory_bound(10**10).seconds > 1e10 / sheet.memory_bytes_per_s


@pytest.mark.parametrize("name", kernels.names())
def test_twice_the_work_does_not_take_less_time(name: str) -> None:
    # Libraries switch kernels between sizes, so that a product may take somewhat less time than a smaller one, as was
    # measured. Large ones are not faster than those of half their size.
    models = kernels.load(name)
    sizes = (512, 1000, 2048, 2049, 4096, 6000, 8192)
    for m in sizes:
        for n in sizes:
            for k in sizes:
                time = models.gemm(m, n, k).seconds
                for larger in ((2 * m, n, k), (m, 2 * n, k), (m, n, 2 * k)):
                    assert models.gemm(*larger).seconds > 0.97 * time, (m, n, k, larger)


def test_waves_are_seen_where_tiles_fill_them() -> None:
    # 16 x 8 tiles of 128 x 256 are 128 of 132 multiprocessors; a row more begins a second wave for some of them.
    models = kernels.load("H100")
    full, more = models.gemm(2048, 2048, 8192).seconds, models.gemm(2049, 2048, 8192).seconds
    assert 1.0 < more / full < 2.0


def test_bounds_say_what_takes_the_time() -> None:
    models = kernels.load("H100")
    assert models.gemm(8192, 8192, 8192).bound == "compute"
    assert models.gemm(1, 16384, 16384).bound == "memory"
    assert models.gemm(16, 64, 64).bound == "launch"


def test_shapes_beyond_the_measured_ones_are_extrapolated() -> None:
    models = kernels.load("H100")
    assert not models.gemm(4096, 4096, 4096).extrapolates
    assert models.gemm(10**6, 4096, 4096).extrapolates
    assert models.gemm(4096, 4096, 4096, groups=8).extrapolates
    assert not models.attention(batch=1, sequence=4096, heads=32, head_dim=128).extrapolates
    assert models.attention(batch=1, sequence=10**6, heads=32, head_dim=128).extrapolates
    assert models.attention(batch=1, sequence=4096, heads=32, head_dim=128, causal=False).extrapolates


@pytest.mark.parametrize("name", kernels.names())
def test_attention_grows_with_the_square_of_the_sequence(name: str) -> None:
    models = kernels.load(name)
    short, long = (models.attention(batch=1, sequence=each, heads=32, head_dim=128).seconds for each in (8192, 16384))
    assert 3.4 < long / short < 4.6
    # Half of the scores, at no more than the peak rate.
    flop = 2 * 32 * 16384**2 * 128
    assert flop / long < find(name).peak_flop_per_s["bf16"]


def test_backward_attention_takes_longer_than_forward_by_its_rule() -> None:
    models = kernels.load("A100")
    shape = {"batch": 4, "sequence": 4096, "heads": 32, "head_dim": 128}
    forward, backward = models.attention(**shape), models.attention(**shape, backward=True)
    assert backward.seconds / forward.seconds == pytest.approx(2.5 / 0.86, rel=0.05)
    assert backward.extrapolates


def test_an_h200_is_an_h100_with_a_faster_memory() -> None:
    h100, h200 = kernels.load("H100"), kernels.load("H200")
    ratio = find("H200").memory_bytes_per_s / find("H100").memory_bytes_per_s
    assert h200.document["memory_ratio"] == pytest.approx(ratio, rel=1e-3)
    assert h100.gemm(8192, 8192, 8192).seconds / h200.gemm(8192, 8192, 8192).seconds == pytest.approx(1, abs=0.03)
    moved = h100.gemm(1, 65536, 16384).seconds / h200.gemm(1, 65536, 16384).seconds
    assert moved == pytest.approx(ratio, rel=0.03)


@pytest.mark.parametrize(
    ("name", "ratio", "narrow", "clock"), [("B300", 1, 1.5, 1.032), ("GB300", 1.111, 1.667, 1.119)]
)
def test_blackwell_ultra_follows_from_a_b200(name: str, ratio: float, narrow: float, clock: float) -> None:
    # Data sheets, dense: 13.5 and 15 PFLOP/s in 4 bits over 9, 4.5 and 5 in 8 bits over 4.5; 1,100 and 1,400 W over
    # 1,000, whose cube roots are 1.032 and 1.119. A kernel takes some time whatever the rate of the matrix units.
    old, new = kernels.load("B200"), kernels.load(name)
    assert new.derived_from == "B200-SXM-180GB"
    for data_type, faster in (("bf16", ratio), ("fp8", ratio), ("nvfp4", narrow)):
        large = {"m": 16384, "n": 16384, "k": 16384, "data_type": data_type}
        gained = old.gemm(**large).seconds / new.gemm(**large).seconds
        assert faster * 0.87 < gained < faster * clock * 1.001
        # Products with one row are bound by the memory, which is the same, but for what 4 bits take to unpack.
        if data_type == "nvfp4":
            continue
        row = {"m": 1, "n": 16384, "k": 16384, "data_type": data_type}
        assert new.gemm(**row).seconds == pytest.approx(old.gemm(**row).seconds, rel=0.02)
    long = {"batch": 1, "sequence": 16384, "heads": 32, "head_dim": 128}
    assert ratio < old.attention(**long).seconds / new.attention(**long).seconds < 2 * ratio


def test_an_h800_computes_as_an_h100_and_an_h20_at_a_seventh_of_its_rate() -> None:
    h100, h800, h20 = (kernels.load(name) for name in ("H100", "H800", "H20"))
    for data_type, peak in (("bf16", 148e12), ("fp8", 296e12)):
        large = {"m": 16384, "n": 8192, "k": 8192, "data_type": data_type}
        assert h800.gemm(**large) == h100.gemm(**large)
        assert 0.85 < 2 * 16384 * 8192**2 / h20.gemm(**large).seconds / peak <= 1
    # 78 tiles of 128 x 256 are one wave of an H20.
    assert h20.document["multiprocessors"] == 78
    # One row passes through a memory of 4.0 TB/s, rather than 3.35.
    moved = h100.gemm(1, 65536, 16384).seconds / h20.gemm(1, 65536, 16384).seconds
    assert moved == pytest.approx(4.0 / 3.35, rel=0.06)


def test_measured_models_follow_from_none() -> None:
    found = {name: kernels.load(name).derived_from for name in kernels.names()}
    assert found == {
        "A100-SXM4-80GB": None,
        "B200-SXM-180GB": None,
        "B300-SXM-270GB": "B200-SXM-180GB",
        "GB200-NVL72": "B200-SXM-180GB",
        "GB300-NVL72": "B200-SXM-180GB",
        "H100-SXM5-80GB": None,
        "H20-SXM5-96GB": "H100-SXM5-80GB",
        "H200-SXM-141GB": "H100-SXM5-80GB",
        "H800-SXM5-80GB": "H100-SXM5-80GB",
    }


def test_an_accelerator_without_models_is_named() -> None:
    with pytest.raises(SynclineError) as refused:
        kernels.load("V100")
    [problem] = refused.value.diagnostics
    assert problem["message"] == "no kernels of this accelerator were measured"
    assert "H100-SXM5-80GB" in problem["allowed"]


def test_an_unknown_data_type_is_named() -> None:
    with pytest.raises(SynclineError) as refused:
        kernels.load("A100").gemm(64, 64, 64, data_type="fp8")
    assert refused.value.diagnostics[0]["allowed"] == "bf16"


def test_a_file_that_holds_no_models_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_text('{"schema": "other"}')
    with pytest.raises(SynclineError, match="kernel models"):
        kernels.load(str(path))


def test_a_file_that_is_missing_is_named():
    with pytest.raises(SynclineError, match="no such file"):
        kernels.load("none.json")


def test_the_screen_says_what_its_numbers_mean():
    from syncline.kernels.screen import MEANINGS, screen
    from syncline.terminal.streams import as_text

    for name in ("H100", "GB200"):
        models = kernels.load(name)
        text = as_text(screen(models, 100), 100)
        assert "|predicted / measured - 1|" in text and "extrapolation" in text
        assert "rate of the memory" in text and "TFLOP/s at the highest clock" in " ".join(text.split())
        constants = [
            *models.document["gemm"].values(),
            *(each["forward"] for each in models.document["attention"].values()),
        ]
        assert all(key in MEANINGS for section in constants for key in section["constants"])
    assert "Models of B200-SXM-180GB, with the same memory" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_screen_fits_its_terminal(width):
    from syncline.kernels.screen import screen
    from syncline.terminal.streams import as_text

    assert max(map(len, as_text(screen(kernels.load("B200"), width), width).splitlines())) <= width


def test_no_kernel_is_faster_than_the_peak_of_its_accelerator():
    """By operations and data sheets alone; the clock is at most a tenth above that of the sheet."""

    for name in ("A100", "H100", "H200", "B200", "GB200"):
        models = kernels.load(name)
        peak = 1.1 * find(name).peak_flop_per_s["bf16"]
        for m, n, k in itertools.product((64, 4096, 65536), (512, 8192, 131072), (1024, 28672)):
            assert 2 * m * n * k / models.gemm(m, n, k).seconds <= peak
        for sequence, heads, head_dim, causal, backward in itertools.product(
            (1024, 131072), (8, 128), (64, 128, 256), (True, False), (True, False)
        ):
            shape = {"batch": 1, "sequence": sequence, "heads": heads, "head_dim": head_dim}
            seconds = models.attention(**shape, causal=causal, backward=backward).seconds
            flop = 4 * heads * sequence**2 * head_dim * (0.5 if causal else 1) * (2.5 if backward else 1)
            assert flop / seconds <= peak
