"""Small scenarios by name, in which changes of keys have an effect."""

from __future__ import annotations

from typing import Any

RATES = {"rate": "50GB/s", "latency": "500ns"}
SWITCH = {"shape": "Switch(6)", **RATES}
GRID = {"shape": "Ring(4)_Switch(4)", "rate": ["100GB/s", "25GB/s"], "latency": "500ns"}
BARE = {"collective": "all_reduce", "bytes": "1MiB"}
OPS = {"flop": "2GFLOP", "memory": "4MB", "products": [{"m": 512, "k": 512, "n": 512}]}


def layer(name: str, parameters: int, **more: Any) -> dict[str, Any]:
    """A layer of 20 us forward and 10 us backward."""
    return {
        "name": name,
        "forward": "20us",
        "input_grad": "5us",
        "weight_grad": "5us",
        "update": "1us",
        "parameters": parameters,
        "inputs": 60_000,
        "outputs": 60_000,
    } | more


LAYERS = {"layers": [layer("a", 200_000), layer("b", 900_000), layer("c", 300_000)], "iterations": 2}
TWO_KINDS = {
    "layers": [
        layer(kind, 0, exchanges=[{"when": "after_weight_grad", "axis": "data", "collective": kind, "bytes": "4MiB"}])
        for kind in ("all_to_all", "all_reduce")
    ]
}
"""Two collectives under way at the same time."""
WORK = {
    "layers": [layer("a", 200_000, forward=OPS, input_grad=OPS, weight_grad=OPS, update=OPS), layer("b", 900_000)],
    "batch_per_npu": 4,
}
DECODER = {
    "model": "decoder",
    "layers": 4,
    "hidden": 256,
    "heads": 8,
    "sequence": 128,
    "vocabulary": 1000,
    "batch_per_npu": 2,
    "precision": "bf16",
    "micro_batches": 4,
    "parallel": {"tensor": 2, "pipeline": 2},
}
NODE_DIMS = {
    "dims": [
        {"name": "node", "shape": "switch", "size": 2, "rate": "100GB/s", "latency": "500ns"},
        {"name": "rack", "shape": "switch", "size": 2, "rate": "50GB/s", "latency": "1us"},
        {"name": "cluster", "shape": "switch", "size": 4, "rate": "25GB/s", "latency": "2us"},
    ]
}
A100 = {"model": "roofline", "accelerator": "A100"}
LINKS = [
    {"from": "npu0", "to": "switch0", "rate": "10GB/s", "latency": "1us"},
    {"from": "npu1", "to": "switch0", "rate": "10GB/s", "latency": "1us"},
    {"from": "npu2", "to": "switch1", "rate": "10GB/s", "latency": "1us"},
    {"from": "npu3", "to": "switch1", "rate": "10GB/s", "latency": "1us"},
    {"from": "switch0", "to": "switch1", "rate": "10GB/s", "latency": "1us"},
]
INCAST = {"collective": "reduce", "bytes": "400KB"}
DIRECT = {"algorithms": {"default": {"reduce": "direct", "all_to_all": "direct"}}}
STAR = {"switch": {"hosts": 8, "rate": "10Gb/s", "latency": "1us"}}
OWN_PRICES = {
    "source": "a test",
    "year": 2024,
    "components": {
        "link": {"usd": 10.0},
        "switch": {"by_rate": [{"rate": "400Gb/s", "ports": 8, "usd": 900.0}]},
        "transceiver": {"usd": 5.0},
        "nic": {"usd": 7.0, "watts": 3.0},
    },
}


def scenario(workload: Any = BARE, fabric: Any = GRID, **more: Any) -> dict[str, Any]:
    """A scenario."""
    return {"workload": workload, "fabric": fabric, **more}


def packets(**more: Any) -> dict[str, Any]:
    """Seven hosts send to one through a switch with a small buffer."""
    return scenario(INCAST, STAR, collectives=DIRECT, network={"model": "packet", "buffer": "64KiB"} | more)


BASES: dict[str, dict[str, Any]] = {
    "bare": scenario(),
    "switch": scenario(fabric=SWITCH),
    "ring": scenario(fabric={"dims": [{"name": "d", "shape": "ring", "size": 6, **RATES}]}),
    "full": scenario(fabric={"dims": [{"name": "d", "shape": "fully_connected", "size": 6, **RATES}]}),
    "dims": scenario(
        {"collective": "all_to_all", "bytes": "1MiB"},
        {"dims": [{"name": "d", "shape": "switch", "size": 6, "switches": 3, **RATES}]},
    ),
    "layers": scenario(LAYERS, SWITCH),
    "work": scenario(WORK, SWITCH, compute={"model": "roofline", "peak": "100TFLOP/s", "memory": "1TB/s"}),
    "tensor_parallel": scenario(LAYERS | {"parallel": {"tensor": ["dim1"]}}),
    "exchanges": scenario(
        LAYERS
        | {
            "layers": [
                layer("a", 200_000),
                layer(
                    "b",
                    900_000,
                    exchanges=[
                        {"when": "after_forward", "axis": "tensor", "collective": "all_reduce", "bytes": "1MiB"}
                    ],
                ),
                layer("c", 300_000, mesh="other"),
            ],
            "micro_batches": 2,
            "parallel": {"tensor": 2, "meshes": {"other": {"tensor": 4, "axes": {"extra": 2}}}},
        },
        NODE_DIMS,
    ),
    "decoder": scenario(DECODER, NODE_DIMS, compute=A100),
    "systolic": scenario(WORK, SWITCH, compute={"model": "systolic", "memory": "900GB/s"}),
    "throughput": scenario(WORK, SWITCH, compute={"model": "throughput", "rate": "10TFLOP/s", "memory": "600GB/s"}),
    "kernels": scenario(DECODER, NODE_DIMS, compute={"model": "measured", "accelerator": "A100"}),
    "given": scenario(LAYERS, SWITCH, compute={"model": "given"}),
    "graph": scenario(fabric={"npus": 4, "switches": 2, "links": LINKS}),
    "flow": scenario(
        {"collectives": [{"collective": "all_to_all", "bytes": "1MiB"}, BARE]},
        {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 4, "spines": 2, **RATES}},
        network={"model": "flow"},
    ),
    "packet": packets(),
    "red": packets(buffer="4MiB", congestion="dctcp", mark={"from": "10KB", "to": "30KB"}),
    "dcqcn": packets(buffer="16MiB", transport="rdma", mark={"from": "5KB", "to": "50KB"}, dcqcn={}),
    "packet_dims": packets()
    | {
        "fabric": {"dims": [{"name": "dim1", "shape": "switch", "size": 8, "rate": "10Gb/s", "latency": "1us"}]},
        "network": {"model": "packet", "dims": {"dim1": {"buffer": "64KiB"}}},
    },
    "small_memory": scenario(LAYERS, SWITCH, compute={"model": "given", "memory_capacity": "1GB"}),
    "torus": scenario(
        fabric={
            "torus": "2x4x2",
            "local": {"rate": "200GB/s"},
            "package": {"rate": "25GB/s", "latency": "1us"},
            "vertical": {"rate": "20GB/s"},
            "horizontal": {"rate": "22GB/s"},
        }
    ),
    "alltoall": scenario(
        {"collective": "all_to_all", "bytes": "1MiB"},
        {"alltoall": "2x4", "local": {"rate": "200GB/s"}, "package": {"rate": "25GB/s"}},
    ),
    "fat_tree": scenario(fabric={"fat_tree": {"k": 4, **RATES}}, network="flow"),
    "leaf_spine": scenario(
        {"collective": "all_to_all", "bytes": "1MiB"},
        {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 4, "spines": 2, "pods": 2, "cores": 2, **RATES}},
        network="flow",
    ),
    "dragonfly": scenario(
        {"collective": "all_to_all", "bytes": "1MiB"},
        {"dragonfly": {"p": 2, "a": 2, "h": 1, **RATES}},
        network="flow",
    ),
    "expander": scenario(
        fabric={"expander": {"degree": 3, "switches": 8, "hosts_per_switch": 2, "seed": 1, **RATES}}, network="flow"
    ),
    "hosts": scenario(fabric={"expander": {"degree": 3, "hosts": 8, **RATES}}, network="flow"),
    "uniform": scenario(fabric={"torus": {"sizes": "4x4", **RATES}}),
    "mesh": scenario(fabric={"mesh": {"sizes": "4x4", **RATES}}),
    "hypercube": scenario(fabric={"hypercube": {"dimensions": 3, **RATES}}),
    "star": scenario(fabric=STAR),
    "nodes": scenario(
        {"collective": "all_to_all", "bytes": "1MiB"},
        {
            "leaf_spine": {"leaves": 4, "hosts_per_leaf": 4, "spines": 2, **RATES},
            "nodes": {"npus": 4, "rate": "200GB/s", "latency": "300ns"},
        },
        network="flow",
    ),
    "ecmp": scenario(
        {"collective": "all_to_all", "bytes": "1MiB"},
        {"fat_tree": {"k": 4, **RATES}, "routing": {"policy": "ecmp", "seed": 1}},
        network="flow",
    ),
    "slow": scenario(LAYERS, SWITCH, faults=[{"rank": 1, "factor": 2.0}]),
    "slow_random": scenario(LAYERS, SWITCH, faults=[{"random_ranks": 1, "factor": 2.0}]),
    "broken": scenario(fabric=SWITCH, faults=[{"link": ["NPU 1", "switch 0"], "factor": 2.0}]),
    "broken_random": scenario(
        fabric={"shape": "Ring(6)", **RATES}, network="queued", faults=[{"random_links": 1, "factor": 2.0}]
    ),
    "jitter": scenario(LAYERS, SWITCH, jitter={"start": "5us", "compute": 0.1, "seed": 1}),
    "jobs": {
        "jobs": [
            {"name": "one", "workload": BARE, "placement": "0-7"},
            {"name": "two", "workload": LAYERS, "placement": "8-15"},
        ],
        "fabric": GRID,
        "network": "queued",
    },
    "prices": scenario(
        fabric={"leaf_spine": {"leaves": 2, "hosts_per_leaf": 4, "spines": 2, **RATES}}, prices=OWN_PRICES
    ),
}
