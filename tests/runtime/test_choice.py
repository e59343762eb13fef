"""The description of the network, and the choice of plans on it."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Network, Plans
from tests.runtime.test_collectives import run


def test_a_network_is_converted_to_whole_numbers():
    assert Network(gbps=10, latency_us=0.5).as_dict() == {
        "near_bytes_per_s": 1_250_000_000,
        "far_bytes_per_s": 625_000_000,
        "latency_ns": 500,
        "message_ns": 15_000,
        "buffer": 65_536,
    }


@pytest.mark.parametrize(
    "wrong", [{"gbps": 0}, {"far_gbps": float("nan")}, {"latency_us": -1}, {"message_us": float("inf")}, {"buffer": -1}]
)
def test_an_invalid_network_is_refused(wrong):
    with pytest.raises(SynclineError, match="is out of range"):
        Communicator.join(0, 1, "127.0.0.1:0", plans=Plans(network=Network(**wrong)))


def test_ranks_without_rules_run_every_collective_of_every_size():
    """Three ranks use sizes for which different plans are chosen."""
    said = run(
        3,
        """
        with Communicator.join() as ranks:
            for elements in (3, 30_000, 900_000):
                own = array("f", [ranks.rank + 1.0]) * elements
                ranks.all_reduce(own).wait()
                assert own == array("f", [6.0]) * elements
                ranks.broadcast(own, root=1).wait()
                got = array("f", [0.0]) * (3 * elements)
                ranks.all_gather(own, got).wait()
                assert got == array("f", [6.0]) * (3 * elements)
            print("done")
        """,
    )
    assert said == ["done"] * 3
