"""Network models agree where they should; the page about models says where they do not."""

from __future__ import annotations

import pytest

import syncline
from tests.docs.fidelity import CASES, HEADERS, LOSSLESS, SENDERS, SIZES, goodput, incast, took

MB = 1_000_000


@pytest.mark.parametrize("size", [1 * MB, 2 * MB, 4 * MB, 16 * MB, 64 * MB])
@pytest.mark.parametrize("parameters", [{}, {"mtu": "9000B"}, {"congestion": "cubic"}], ids=str)
def test_a_single_transfer_fills_its_link_except_for_headers(size, parameters):
    assert 0.97 <= goodput("packet", size, 1, **parameters) <= 1


@pytest.mark.parametrize("senders", SENDERS)
@pytest.mark.parametrize("size", [each for each in SIZES if each >= 64_000])
def test_senders_that_lose_no_packet_fill_the_receivers_link(size, senders):
    packets = incast("packet", size, senders).packets
    if senders * size >= MB and packets.retransmissions == 0:
        assert 0.97 <= goodput("packet", size, senders) <= 1
    # Retransmissions that overlap with other data cost only their own bytes; a time-out costs 50 ms.
    if packets.timeouts == 0 and packets.retransmissions > 0:
        assert 0.95 <= goodput("packet", size, senders) <= 1
    if packets.timeouts > 0:
        assert incast("packet", size, senders).total_time_s > 50e-3


@pytest.mark.parametrize("model", ["analytical", "queued"])
@pytest.mark.parametrize("senders", SENDERS)
def test_faster_models_reach_the_line_rate_and_have_no_headers(model, senders):
    # `queued` stores whole messages at the switch: with 16 chunks, this adds a sixteenth.
    least = 0.93 if model == "queued" else 0.97
    assert least <= goodput(model, 64 * MB, senders) <= 1


@pytest.mark.parametrize("size", [each for each in SIZES if each >= 500_000])
@pytest.mark.parametrize("senders", SENDERS)
def test_models_agree_within_headers_if_no_packet_times_out(size, senders):
    packet = incast("packet", size, senders)
    if packet.packets.timeouts == 0:
        for model in ("analytical", "queued"):
            # A single sender of half a megabyte also waits for its first acknowledgements.
            assert 0.965 * HEADERS <= incast(model, size, senders).total_time_s / packet.total_time_s <= 1.03


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_flow_keeps_the_order_of_messages_as_lossless_packets_do(case):
    assert took(case, "flow") == pytest.approx(took(case, LOSSLESS), rel=case.apart)


def test_dependent_messages_that_share_links_magnify_small_differences():
    tree = CASES[-1]
    rates = [400_000_000_000 + 400 * step for step in range(4)]
    times = [
        syncline.simulate(**{**tree.plan, "fabric": {**tree.plan["fabric"], "rate": f"{rate}b/s"}}, network="flow")
        for rate in rates
    ]
    times = [each.summary.total_time_s for each in times]
    assert 1e-5 < max(times) / min(times) - 1 < 2e-2
