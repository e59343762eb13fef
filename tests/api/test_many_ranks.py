"""A warning that many ranks are simulated one by one says what to change, and the change helps."""

from __future__ import annotations

from typing import Any

import syncline


def scenario(latency: str) -> dict[str, Any]:
    return {
        "workload": {"collective": "all_reduce", "bytes": "1GiB"},
        "fabric": {
            "dims": [
                {"name": "near", "shape": "switch", "size": 8, "rate": "100GB/s", "latency": "100ns"},
                {"name": "far", "shape": "switch", "size": 16384, "rate": "50GB/s", "latency": latency},
            ]
        },
        "collectives": {"chunks": 1},
    }


def test_links_without_latency_are_to_have_one():
    (warning,) = syncline.check(scenario("0s"))
    assert warning["code"] == "SL0505"
    assert "shared links have no latency (far)" in warning["message"]
    assert "give links a latency, such as `latency: 100ns`" in warning["help"]
    assert syncline.check(scenario("100ns")) == []
