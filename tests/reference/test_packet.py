"""The packet model, compared with ns-3 in scenarios without losses."""

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
"""Times in milliseconds by ns-3 3.48-dev (optimised build, November 2026); ns-3 3.37 gave the same where it was run."""


@pytest.mark.parametrize("name", NS3_MS)
def test_runs_without_losses_take_as_long_as_in_ns3(name: str) -> None:
    summary = syncline.simulate(SCENARIOS / f"{name}.yaml").summary
    assert 1e3 * summary.total_time_s == pytest.approx(NS3_MS[name], rel=0.02)
    assert summary.packets is not None
    assert (summary.packets.dropped, summary.packets.retransmissions, summary.packets.timeouts) == (0, 0, 0)


def test_runs_without_losses_in_step_lose_packets_when_hosts_start_apart() -> None:
    """If hosts begin up to a microsecond apart, packets meet at ports, and every draw has a time-out of 50 ms."""
    runs = syncline.ensemble(SCENARIOS / "direct_2MB_32.yaml", seeds=5, set={"jitter": {"start": "1us"}})
    assert min(runs.values("packets.timeouts")) > 0
    spread = runs.spread("total_time_s")
    assert 50e-3 < spread.least < spread.most < 51e-3


def test_every_scenario_has_a_reference_time() -> None:
    assert {path.stem for path in SCENARIOS.glob("*.yaml")} == set(NS3_MS)
