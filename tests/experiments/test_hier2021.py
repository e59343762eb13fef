"""Allocations of hier2021, from scenarios to shares, compared with an independent calculation."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from experiments.harness.runner import Runner
from experiments.hier2021.layers import System

EXPECTED = Path(__file__).parents[3] / "shared" / "data" / "hier2021" / "expected_allocations.csv"
MODELS = {"T-17B": "Transformer-17B", "GPT-3": "GPT-3", "T-1T": "Transformer-1T"}


@pytest.mark.skipif(not EXPECTED.is_file(), reason="the independent calculation is not at hand")
@pytest.mark.timeout(600)
def test_shares_sizes_times_and_costs_match_an_independent_calculation() -> None:
    """Shares, message sizes, times and costs agree within 0.1 %."""
    runner = Runner(quick=True)
    rows = list(csv.DictReader(EXPECTED.read_text("utf-8").splitlines()))
    systems = {
        (model, topology): System(MODELS[model], topology, runner)
        for model, topology in {(row["workload"], row["topology"]) for row in rows}
    }
    for row in rows:
        system = systems[row["workload"], row["topology"]]
        dims = range(1, len(system.dims) + 1)
        for role, name in (("tensor", "MP"), ("data", "DP")):
            sizes = [size / 1e6 for size in system.demand.role(role)] or [0.0] * len(system.dims)
            assert sizes == pytest.approx([float(row[f"M_{name}_dim{at}_MB"]) for at in dims], rel=1e-3, abs=1e-3)
        shares = system.division(row["scheme"]).shares
        assert shares == pytest.approx([float(row[f"share_dim{at}"]) for at in dims], rel=1e-3), row
        rates = [share * 300e9 for share in shares]
        assert 1e3 * system.demand.time(rates) == pytest.approx(float(row["total_ms_300"]), rel=1e-3)
        # A cable counts once.
        assert system.price.usd(rates) / 1024 == pytest.approx(float(row["cost_per_npu_300_alpha1"]), rel=1e-3)
