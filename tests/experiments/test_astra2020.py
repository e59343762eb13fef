"""Figures 14 to 18 of astra2020 have the compute times and gradients of the workload that ASTRA-sim shipped."""

from __future__ import annotations

import pytest

import syncline
from experiments.astra2020 import training
from tests.conftest import ROOT

TEXT = ROOT.parent / "shared" / "data" / "astra1" / "workload" / "Resnet50_DataParallel.txt"


@pytest.mark.parametrize(("shape", "share"), [("2x2x2", 0.00121), ("2x4x4", 0.0729), ("2x8x8", 0.193)])
def test_the_scenario_takes_as_long_as_the_shipped_workload(shape, share):
    ours = syncline.simulate(training.RESNET50, set={"fabric.torus": shape}).summary
    assert ours.exposed_communication_s / (ours.compute_s + ours.exposed_communication_s) == pytest.approx(
        share, rel=0.01
    )
    if not TEXT.is_file():
        pytest.skip(f"{TEXT.name} is not here, and cannot be held against the scenario")
    workload = {"astra_text": str(TEXT), "iterations": 2}
    shipped = syncline.simulate(
        training.RESNET50, set={"fabric.torus": shape, "workload": workload, "compute": "given"}
    ).summary
    assert ours.total_time_s == shipped.total_time_s
    assert ours.exposed_communication_s == shipped.exposed_communication_s
