"""Runs that the tests of the report share."""

from __future__ import annotations

import json
from typing import Any

import syncline
from tests.conftest import ROOT

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
"""A name that would run a script in a page that does not escape it."""

SMALL: dict[str, Any] = {
    "name": HOSTILE,
    "workload": {
        "iterations": 2,
        "layers": [
            {
                "name": name,
                "forward": "20us",
                "input_grad": "10us",
                "weight_grad": "10us",
                "exchanges": [
                    {"when": "after_weight_grad", "axis": "data", "collective": "all_reduce", "bytes": "1MB"}
                ],
            }
            for name in (HOSTILE, "$second ${name}", "third & <b>last</b>")
        ],
    },
    "compute": "given",
    "fabric": {"shape": "Ring(4)_Switch(2)", "rate": "25GB/s", "latency": "1us"},
    "network": "queued",
    "prices": {"list": "hier2021", "components": {"nic": {"usd_per_GBps": 48, "watts": 20}}},
}
"""Three layers with awkward names."""


OF_PACKETS = ("losses", "queues", "round_trips")
"""Charts that only runs with packets have."""

OF_FLOWS = ("contention",)
"""Charts that only runs with flows have."""

OF_STAGES = ("pipeline",)
"""Charts that only runs with pipelines have."""

RARE = (*OF_PACKETS, *OF_FLOWS, *OF_STAGES)
"""Charts that few runs have."""


def flows() -> syncline.Result:
    """Three layers on two racks, with flows that share slow links between the racks."""
    exchanges = [{"when": "after_weight_grad", "axis": "data", "collective": "all_to_all", "bytes": "2MB"}]
    layers = [
        {"name": name, "forward": "5us", "weight_grad": "10us", "exchanges": exchanges}
        for name in (HOSTILE, "second", "third")
    ]
    return syncline.simulate(
        workload={"layers": layers, "iterations": 2},
        compute="given",
        fabric={
            "leaf_spine": {
                "leaves": 2,
                "hosts_per_leaf": 3,
                "spines": 1,
                "rate": "100Gb/s",
                "uplink_rate": "50Gb/s",
                "latency": "1us",
            }
        },
        network="flow",
    )


def stages(max_spans: int = 400_000, **parallel: Any) -> syncline.Result:
    """Four equal stages of thirty layers each, eight micro-batches, and communication that takes almost no time."""
    layers = [
        {
            "name": f"block{block}.{kind}",
            "forward": "10us",
            "input_grad": "10us",
            "weight_grad": "10us",
            "outputs": 1,
            "block": block,
        }
        for block in range(40)
        for kind in ("a", "b", "c")
    ]
    # The gradient of the samples is not needed.
    layers[0] |= {"input_grad": "0us", "weight_grad": "20us"}
    return syncline.simulate(
        workload={"layers": layers, "micro_batches": 8, "parallel": {"pipeline": 4, **parallel}},
        compute="given",
        fabric={"shape": "Switch(4)", "rate": "100TB/s", "latency": "1ns"},
        trace={"ranks": [0, 1, 2, 3], "max_spans": max_spans},
    )


def transformer() -> syncline.Result:
    """A decoder in four stages of two copies, with updates and communication that both take time."""
    return syncline.simulate(
        workload={
            "model": "decoder",
            "hidden": 1024,
            "layers": 8,
            "heads": 8,
            "vocabulary": 1000,
            "sequence": 256,
            "batch_per_npu": 1,
            "micro_batches": 8,
            "parallel": {"data": 2, "pipeline": 4},
        },
        compute={"model": "roofline", "accelerator": "H100"},
        fabric={"shape": "Switch(8)", "rate": "100GB/s", "latency": "1us"},
        network="queued",
        trace={"ranks": [0, 2, 4, 6]},
    )


def resnet() -> syncline.Result:
    """The example that the documentation shows, with prices."""
    return syncline.simulate(ROOT / "examples" / "resnet50-torus" / "scenario.yaml", prices="hier2021")


def packets(**network: Any) -> syncline.Result:
    """Packets on two dimensions of switches, with one slow rank. By default, both dimensions drop packets, and
    connections time out."""
    exchanges = [{"when": "after_weight_grad", "axis": "data", "collective": "all_reduce", "bytes": "500kB"}]
    layer = {"forward": "50us", "weight_grad": "80us", "exchanges": exchanges}
    direct = dict.fromkeys(("all_reduce", "reduce_scatter", "all_gather"), "direct")
    return syncline.simulate(
        workload={"iterations": 3, "layers": [{"name": name, **layer} for name in ("first", "second")]},
        compute="given",
        fabric={
            "shape": "Switch(4)_Switch(4)",
            "names": ["up", "out"],
            "rate": ["400Gb/s", "100Gb/s"],
            "latency": "0.5us",
        },
        collectives={"algorithms": {"default": direct}, "chunks": 4},
        network={"model": "packet", "buffer": "32KiB", "min_timeout": "1ms", **network},
        faults=[{"rank": 3, "factor": 2}],
        prices="hier2021",
    )


def incast(**network: Any) -> syncline.Result:
    """All other NPUs send to NPU 0 at once."""
    return syncline.simulate(
        workload={"collective": "all_reduce", "bytes": "500kB"},
        fabric={"shape": "Switch(16)", "rate": "100Gb/s", "latency": "0.5us"},
        collectives={
            "all_reduce": "baseline",
            "algorithms": {"default": {"all_reduce": "parameter_server(placement=CC)"}},
            "chunks": 1,
        },
        network={"model": "packet", **network},
    )


def embedded(page: str) -> dict[str, Any]:
    """The data embedded in a page."""
    begin = page.index('id="data">') + len('id="data">')
    found: dict[str, Any] = json.loads(page[begin : page.index("</script>", begin)])
    return found
