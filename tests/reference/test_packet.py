"""The packet model against ns-3, where nothing is lost: scenarios as a user writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncline

SCENARIOS = Path(__file__).parent / "packet"

NS3_MS = {
    "direct_2MB_32": 0.3279,
    "direct_2MB_32_window": 0.3279,
    "direct_8MB_128": 1.3400,
    "direct_8MB_128_jumbo": 1.2837,
    "dbt_8MB_128": 1.4162,
}
"""What ns-3 3.48-dev took (optimised build, November 2026), in milliseconds; 3.37 the same where it was run."""


@pytest.mark.parametrize("name", NS3_MS)
def test_what_loses_nothing_takes_as_long_as_in_ns3(name: str) -> None:
    summary = syncline.simulate(SCENARIOS / f"{name}.yaml").summary
    assert 1e3 * summary.total_time_s == pytest.approx(NS3_MS[name], rel=0.02)
    assert summary.packets is not None
    assert (summary.packets.dropped, summary.packets.retransmissions, summary.packets.timeouts) == (0, 0, 0)


def test_what_loses_nothing_in_step_is_one_draw_of_many() -> None:
    """Hosts that begin up to a microsecond apart meet at ports, and wait for a time-out of 50 ms in every draw."""
    runs = syncline.ensemble(SCENARIOS / "direct_2MB_32.yaml", seeds=5, set={"jitter": {"start": "1us"}})
    assert min(runs.values("packets.timeouts")) > 0
    spread = runs.spread("total_time_s")
    assert 50e-3 < spread.least < spread.most < 51e-3


def test_every_scenario_has_its_figure() -> None:
    assert {path.stem for path in SCENARIOS.glob("*.yaml")} == set(NS3_MS)
