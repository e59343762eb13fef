"""Design specs made in Python."""

from __future__ import annotations

import copy
from typing import Any

from syncline.design.bandwidth.candidate import BandwidthRequest, request
from syncline.input.node import from_python
from syncline.input.source import Source

SPEC: dict[str, Any] = {
    "name": "small",
    "workload": {
        "layers": [
            {"name": "first", "parameters": 3_000_000, "forward": "1ms", "input_grad": "1ms", "weight_grad": "1ms"},
            {
                "name": "second",
                "parameters": 6_000_000,
                "inputs": 4_000_000,
                "outputs": 4_000_000,
                "forward": "1ms",
                "input_grad": "1ms",
                "weight_grad": "1ms",
            },
        ],
        "parallel": {"tensor": 4, "overlap": "none"},
    },
    "fabric": {"shape": "Ring(4)_Switch(8)", "latency": "1ns"},
    "budget": {"rate_per_npu": "100GB/s"},
}
"""32 ranks: tensor parallelism along the ring, data parallelism along the switch."""


def asked(**changes: Any) -> BandwidthRequest:
    """The small spec with sections replaced; ``None`` removes a section."""
    spec = copy.deepcopy(SPEC)
    for key, value in changes.items():
        if value is None:
            spec.pop(key, None)
        else:
            spec[key] = value
    return request(Source(from_python(spec)))
