"""Published rates of kernels that send tokens to experts: the constants follow from what the sources print."""

import json

import pytest

from syncline.estimate import machine
from syncline.nccl.token_kernels import published

HYBRIDEP = {
    "dispatch": ({8: 764, 16: 707, 24: 666, 32: 642, 36: 632}, 750),
    "combine": ({8: 737, 16: 666, 24: 640, 32: 605, 36: 597}, 684),
}
"""GB/s to each number of ranks with 32 multiprocessors, and to 8 ranks with 16, as HybridEP's authors print them."""


@pytest.mark.parametrize("way", HYBRIDEP)
def test_rates_are_those_that_the_authors_print_without_the_share_that_stays(way: str) -> None:
    rates, with_16 = HYBRIDEP[way]
    found = getattr(published().kernels["hybridep"], way).constants()
    to_others = [rate * (ranks - 1) / ranks for ranks, rate in rates.items()]
    assert found["link_rate"] == pytest.approx(1e9 * sum(to_others) / len(to_others), rel=0.003)
    assert found["sm_rate"] == pytest.approx(1e9 * with_16 * 7 / 8 / 16, rel=0.003)


@pytest.mark.parametrize(
    ("accelerator", "rates"),
    [("GB200", (640e9, 610e9)), ("B300", (640e9, 610e9)), ("H800", (153e9, 158e9)), ("A100", None)],
)
def test_estimates_take_the_kernels_that_an_accelerator_has(
    accelerator: str, rates: tuple[float, float] | None
) -> None:
    found = json.loads(machine(accelerator, nic_bytes_per_s=50e9).cluster())["token_kernels"]
    if rates is None:
        assert found is None
        return
    assert (found["dispatch"]["link_rate"], found["combine"]["link_rate"]) == rates
    # Dispatches send 43 and 44 GB/s to 4 and 8 servers, of 50.
    assert found["network_rate"] == pytest.approx(43e9, rel=0.03)
