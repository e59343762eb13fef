"""A case for every key of a scenario: a change of the key that must change the outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.keys.bases import BARE, LINKS, OWN_PRICES, TWO_KINDS


class Gone:
    """Stands for a value and removes the key."""


GONE: Final = Gone()


@dataclass(frozen=True)
class Case:
    """A scenario, and a change of a key that must change its outcome."""

    base: str
    at: str
    """Path of the mapping that contains the key."""
    value: Any
    also: dict[str, Any] = field(default_factory=dict)
    """Changes made to both scenarios."""
    swapped: dict[str, Any] = field(default_factory=dict)
    """Changes made together with the key, such as removing a key that excludes it."""


def _cases(base: str, at: str, /, **values: Any) -> dict[str, Case]:
    """Cases of one mapping. A tuple holds ``value``, ``also`` and ``swapped`` of :class:`Case`."""
    found = {}
    for key, value in values.items():
        parts = value if isinstance(value, tuple) else (value,)
        where = key.removesuffix("_") if key in ("from_", "pass_") else key
        found[where] = Case(base, at, *parts)
    return found


SLOW_LAYER = {"name": "a", "forward": "200ms", "weight_grad": "1us", "parameters": 500_000}


def _optical(direct: str, *components: str) -> dict[str, Any]:
    """A ring of hosts joined directly by priced parts, without switches."""
    priced = {f"prices.components.{name}": {"usd": 4.0} for name in components}
    return {"fabric": {"shape": "Ring(4)", "rate": "50GB/s"}, "prices.direct": direct} | priced


_MANY = {"collectives.chunks": 32}

TABLE: dict[str, dict[str, Case]] = {
    "Scenario": _cases(
        "bare",
        "",
        schema=("syncline/9",),
        name="other",
        workload={"collective": "all_gather", "bytes": "1MiB"},
        fabric={"shape": "Ring(4)", "rate": "10GB/s"},
        placement=[0, 5, 2, 7],
        collectives={"chunks": 2},
        network="packet",
        faults=[{"link": 0, "factor": 9.0}],
        prices="hier2021",
        limits={"sim_time": "1us"},
        trace={"ranks": [3]},
        symmetry=False,
    )
    | _cases("layers", "", jitter={"start": "9us"}, compute={"model": "given", "compute_power": 2.0})
    | _cases("broken_random", "", seed=5)
    | _cases("jobs", "", jobs=[{"name": "one", "workload": {"collective": "reduce", "bytes": "1MiB"}}]),
    "Limits": _cases("bare", "limits", events=5, sim_time="1us", wall="0.000000001s", memory="1KB"),
    "Trace": _cases("bare", "trace", ranks=[3, 5], max_spans=2),
    "Parallel": _cases(
        "tensor_parallel",
        "workload.parallel",
        tensor=["dim2"],
        data="none",
        backward="input_first",
        overlap="none",
    )
    | _cases(
        "decoder",
        "workload.parallel",
        pipeline=1,
        order=["pipeline", "tensor", "data"],
        schedule="gpipe",
        virtual_stages=(
            4,
            {
                "workload.parallel": {"tensor": 2, "pipeline": 2, "schedule": "interleaved", "virtual_stages": 2},
                "workload.layers": 8,
            },
        ),
        zero=3,
        recompute="full",
        divided_checkpoints=(True, {"workload.parallel.recompute": "full"}),
        sequence=True,
        combined=True,
        updates="together",
        messages="block",
    )
    | _cases(
        "exchanges", "workload.parallel", axes={"extra": 2}, meshes={"other": {"tensor": 1, "axes": {"extra": 2}}}
    ),
    "RankMesh": _cases(
        "exchanges",
        "workload.parallel.meshes.other",
        tensor=2,
        data=(4, {"workload.parallel.meshes.other.tensor": GONE}),
        axes={"extra": 4},
        order=["extra", "tensor", "data"],
    ),
    "Types": _cases(
        "decoder",
        "workload.types",
        compute="fp32",
        parameters=("fp32", {"workload.parallel.zero": 3}),
        activations="fp32",
        gradients="bf16",
        optimizer="bf16",
        communication="fp8",
    ),
    "Comm": _cases("switch", "workload.collectives.0", collective="all_gather", bytes="2MiB"),
    "CollectiveWorkload": _cases("switch", "workload", collective="all_gather", bytes="2MiB", iterations=3),
    "CollectivesWorkload": _cases(
        "switch", "workload", collectives=[{"collective": "reduce", "bytes": "1MiB"}] * 2, iterations=3
    ),
    "Product": _cases(
        "systolic", "workload.layers.0.forward.products.0", m=4096, k=4096, n=4096, count=5, memory="80MB"
    ),
    "Ops": _cases("work", "workload.layers.0.forward", flop="90GFLOP", memory="900MB")
    | _cases("systolic", "workload.layers.0.forward", products=[{"m": 4096, "k": 512, "n": 512}])
    | _cases(
        "work",
        "workload.layers.0.forward",
        data_type=("fp16", {"compute": {"model": "roofline", "accelerator": "A100"}}),
    ),
    "Exchange": _cases(
        "exchanges",
        "workload.layers.1.exchanges.0",
        collective="all_gather",
        bytes="2MiB",
        when="before_forward",
        axis=["data"],
        blocks=False,
        each_micro_batch=(True, {"workload.layers.1.exchanges.0.when": "after_weight_grad"}),
    ),
    "Layer": _cases(
        "layers",
        "workload.layers.1",
        name="other",
        forward="50us",
        input_grad="50us",
        weight_grad="50us",
        update="50us",
        parameters=10_000,
        exchanges=[{"when": "after_forward", "axis": "data", "collective": "all_gather", "bytes": "1MiB"}],
        shares=("a", {}, {"workload.layers.1.parameters": GONE}),
    )
    | _cases("exchanges", "workload.layers.1", mesh="other", ranks={"tensor": [0]})
    | _cases("tensor_parallel", "workload.layers.1", inputs=900_000, outputs=900_000, sharding="replicated")
    | _cases(
        "tensor_parallel",
        "workload.layers.1",
        heads=3,
        vocabulary=3,
        tokens=(3, {"workload.parallel.sequence": True}),
    )
    | _cases(
        "layers",
        "workload.layers.0",
        needed_by=("c", {"workload.layers.0.sharding": "exchange"}),
    )
    | _cases(
        "layers",
        "workload.layers.1",
        block=(1, {"workload.parallel": {"data": "all", "recompute": "full"}, "workload.layers.0.block": 1}),
        selective=(
            True,
            {"workload.parallel": {"data": "all", "recompute": "selective"}, "workload.layers.0.selective": True},
        ),
    )
    | _cases(
        "small_memory",
        "workload.layers.1",
        kept=("3GB", {"workload.layers.0.kept": "1MB", "workload.layers.2.kept": "1MB"}),
        kept_selective=(
            "3GB",
            {
                "workload.parallel": {"data": "all", "recompute": "selective"},
                "workload.layers.1.selective": True,
                "workload.layers.0.kept": "1MB",
                "workload.layers.1.kept": "1MB",
                "workload.layers.2.kept": "1MB",
            },
        ),
    ),
    "ModelWorkload": _cases(
        "decoder",
        "workload",
        model="mlp",
        parallel={"tensor": 4},
        iterations=2,
        micro_batches=8,
        global_batch=(64, {}, {"workload.micro_batches": GONE}),
        types={"gradients": "bf16"},
    ),
    "Sample": _cases("work", "workload.sample", tokens=512, model_flop="9GFLOP")
    | _cases("work", "workload.sample", model_flop_unmasked=("12GFLOP", {"workload.sample.model_flop": "9GFLOP"})),
    "LayersWorkload": _cases(
        "work",
        "workload",
        layers=[{"name": "alone", "forward": "5us"}],
        parallel={"tensor": "all"},
        iterations=2,
        micro_batches=2,
        batch_per_npu=8,
        sample={"model_flop": "9GFLOP"},
        global_batch=48,
        precision=("bf16", {"workload.parallel": {"tensor": "all"}}),
        types={"gradients": "bf16"},
        optimizer=("adam", {"compute.memory_capacity": "15MB", "workload.layers.0.kept": "1MB"}),
    ),
    "EfficiencyPoint": _cases("work", "compute.efficiency.0", flop="9GFLOP", efficiency=0.25),
    "Roofline": _cases(
        "work",
        "compute",
        model=("given",),
        accelerator=("H100", {}, {"compute.peak": GONE, "compute.memory": GONE}),
        peak="10TFLOP/s",
        memory="1GB/s",
        efficiency=0.5,
        compute_power=2.0,
        memory_capacity="1MB",
    ),
    "Systolic": _cases(
        "systolic",
        "compute",
        model="given",
        rows=64,
        columns=64,
        clock="2GHz",
        memory="9GB/s",
        dataflow="output_stationary",
        delay="5us",
        compute_power=2.0,
        memory_capacity="1MB",
        vector=(
            "1GFLOP/s",
            {"workload.layers.1.forward": {"flop": "1GFLOP", "memory": "1MB"}},
        ),
    ),
    "Throughput": _cases(
        "throughput",
        "compute",
        model="given",
        rate="20TFLOP/s",
        memory=("1GB/s", {"workload.layers.1.forward": {"flop": "1MFLOP", "memory": "50MB"}}),
        compute_power=2.0,
        memory_capacity="1MB",
    ),
    "MeasuredKernels": _cases(
        "kernels",
        "compute",
        model="roofline",
        accelerator="H100",
        compute_power=2.0,
        memory_capacity="1MB",
    ),
    "Given": _cases("given", "compute", model="throughput", compute_power=2.0, memory_capacity="1MB"),
    "Dim": _cases(
        "dims",
        "fabric.dims.0",
        name="other",
        shape=("ring", {"fabric.dims.0.switches": GONE}),
        size=5,
        switches=1,
        spread="pair",
        rate="10GB/s",
        rate_per_npu=("10GB/s", {}, {"fabric.dims.0.rate": GONE}),
        latency="9us",
        efficiency=0.5,
        tier=(
            "far",
            {"prices": OWN_PRICES | {"tiers": {"far": "none"}}},
        ),
    )
    | _cases("ring", "fabric.dims.0", rings=2, direction="one-way")
    | _cases("full", "fabric.dims.0", links=(2, {"workload.collective": "all_to_all"})),
    "DimsFabric": _cases("dims", "fabric", dims=[{"name": "d", "shape": "ring", "size": 6, "rate": "9GB/s"}]),
    "ShapeFabric": _cases(
        "bare",
        "fabric",
        shape="Ring(8)_Switch(2)",
        names=["near", "far"],
        rate="10GB/s",
        rate_per_npu=("10GB/s", {}, {"fabric.rate": GONE}),
        latency="9us",
        efficiency=0.5,
    ),
    "Links": _cases(
        "torus",
        "fabric.local",
        rate="9GB/s",
        rate_per_npu=("9GB/s", {}, {"fabric.local.rate": GONE}),
        latency="9us",
        efficiency=0.1,
        rings=2,
    )
    | _cases("torus", "fabric.vertical", direction="one-way"),
    "Uplinks": _cases(
        "alltoall",
        "fabric.package",
        rate="9GB/s",
        rate_per_npu=("9GB/s", {}, {"fabric.package.rate": GONE}),
        latency="9us",
        efficiency=0.5,
    ),
    "TorusFabric": _cases(
        "torus",
        "fabric",
        torus="4x2x2",
        local={"rate": "9GB/s"},
        vertical={"rate": "9GB/s"},
        horizontal={"rate": "9GB/s"},
        package=({"rate": "9GB/s"}, {"fabric.vertical": GONE}),
    ),
    "AllToAllFabric": _cases(
        "alltoall", "fabric", alltoall="4x2", switches=3, local={"rate": "1GB/s"}, package={"rate": "9GB/s"}
    ),
    "Link": _cases(
        "graph",
        "fabric.links.4",
        from_="npu0",
        to="npu3",
        rate="1GB/s",
        latency="9us",
        duplex=False,
        count=(3, {"network": "flow", "fabric.routing": "ecmp", "workload.collective": "all_to_all"}),
    ),
    "GraphFabric": _cases(
        "graph",
        "fabric",
        npus=["a", "b", "c", "d"],
        switches=["a", "b"],
        links=[{"from": "npu0", "to": "npu1", "rate": "1GB/s"}],
        routing=(
            [["npu0", "switch0", "switch1", "npu1"]],
            {"workload.collective": "all_to_all"},
        ),
        forward=(
            False,
            {
                "workload.collective": "all_to_all",
                "fabric.links": [
                    *LINKS,
                    {"from": "npu0", "to": "npu1", "rate": "20GB/s"},
                    {"from": "npu1", "to": "npu2", "rate": "20GB/s"},
                ],
            },
        ),
    ),
    "FamilyLinks": _cases("star", "fabric.switch", rate="1Gb/s", latency="9us", efficiency=0.5),
    "FatTree": _cases(
        "fat_tree",
        "fabric.fat_tree",
        k=2,
        oversubscription=2,
        uplink_rate="1GB/s",
        uplink_latency="9us",
        uplink_efficiency=0.1,
        rate="9GB/s",
        latency="9us",
        efficiency=0.5,
    ),
    "LeafSpine": _cases(
        "leaf_spine",
        "fabric.leaf_spine",
        leaves=4,
        hosts_per_leaf=2,
        spines=1,
        pods=1,
        cores=4,
        cables=2,
        uplink_rate="1GB/s",
        uplink_latency="9us",
        uplink_efficiency=0.1,
        core_rate="1GB/s",
        core_latency="9us",
        core_efficiency=0.1,
        rate="9GB/s",
        latency="9us",
        efficiency=0.5,
    ),
    "Dragonfly": _cases(
        "dragonfly",
        "fabric.dragonfly",
        p=1,
        a=3,
        h=2,
        groups=2,
        local_rate="1GB/s",
        local_latency="9us",
        local_efficiency=0.1,
        global_rate="1GB/s",
        global_latency="9us",
        global_efficiency=0.1,
        rate="9GB/s",
        latency="9us",
        efficiency=0.5,
    ),
    "Expander": _cases(
        "expander",
        "fabric.expander",
        degree=4,
        switches=6,
        hosts_per_switch=1,
        seed=9,
        uplink_rate="1GB/s",
        uplink_latency="9us",
        uplink_efficiency=0.1,
        rate="9GB/s",
        latency="9us",
        efficiency=0.5,
    )
    | _cases("hosts", "fabric.expander", hosts=6),
    "UniformTorus": _cases("uniform", "fabric.torus", sizes="2x8", rate="9GB/s", latency="9us", efficiency=0.5),
    "Mesh": _cases(
        "mesh",
        "fabric.mesh",
        sizes="2x8",
        cables=(2, {"network": "flow", "workload.collective": "all_to_all"}),
        rate="9GB/s",
        latency="9us",
        efficiency=0.5,
    ),
    "Hypercube": _cases("hypercube", "fabric.hypercube", dimensions=4, rate="9GB/s", latency="9us", efficiency=0.5),
    "OneSwitch": _cases("star", "fabric.switch", hosts=5, rate="1Gb/s", latency="9us", efficiency=0.5),
    "Nodes": _cases(
        "nodes",
        "fabric.nodes",
        npus=2,
        switches=2,
        rate="9GB/s",
        rate_per_npu=("9GB/s", {}, {"fabric.nodes.rate": GONE}),
        latency="9us",
        efficiency=0.1,
        nics=(2, {"fabric.nodes.pcie_rate": "50GB/s"}),
        pcie_rate="1GB/s",
        pcie_latency=("9us", {"fabric.nodes.pcie_rate": "50GB/s"}),
        pcie_efficiency=(0.1, {"fabric.nodes.pcie_rate": "50GB/s"}),
        rails=True,
        forward=(True, {"fabric.nodes.rails": True, "collectives.logical": [16]}),
    ),
    "Ecmp": _cases("ecmp", "fabric.routing", policy="other", seed=9),
    "BuiltFabric": {
        key: Case(
            base, "fabric", value, {}, {} if base == key or base in ("nodes", "ecmp") else {f"fabric.{old}": GONE}
        )
        for key, base, old, value in (
            ("fat_tree", "fat_tree", "", {"k": 2, "rate": "9GB/s"}),
            ("leaf_spine", "star", "switch", {"leaves": 2, "hosts_per_leaf": 4, "spines": 1, "rate": "9GB/s"}),
            ("dragonfly", "star", "switch", {"p": 2, "a": 2, "h": 1, "rate": "9GB/s"}),
            ("expander", "star", "switch", {"degree": 3, "hosts": 8, "rate": "9GB/s"}),
            ("torus", "star", "switch", {"sizes": "2x4", "rate": "9GB/s"}),
            ("mesh", "star", "switch", {"sizes": "2x4", "rate": "9GB/s"}),
            ("hypercube", "star", "switch", {"dimensions": 3, "rate": "9GB/s"}),
            ("switch", "mesh", "mesh", {"hosts": 8, "rate": "9GB/s"}),
            ("nodes", "nodes", "", {"npus": 2, "rate": "9GB/s"}),
            ("routing", "ecmp", "", "shortest"),
        )
    },
    "SlowRank": _cases("slow", "faults.0", rank=[0, 1], factor=3.0, from_="10us", until="10us"),
    "RandomRanks": _cases("slow_random", "faults.0", random_ranks=2, factor=3.0, from_="10us", until="10us"),
    "BrokenLink": _cases(
        "broken",
        "faults.0",
        link=["NPU 2", "switch 0"],
        factor=3.0,
        one_way=True,
        dead=(True, {}, {"faults.0.factor": GONE}),
    ),
    "RandomLinks": _cases(
        "broken_random",
        "faults.0",
        random_links=2,
        factor=3.0,
        one_way=True,
        dead=(True, {}, {"faults.0.factor": GONE}),
    ),
    "Jitter": _cases("jitter", "jitter", start="50us", compute="30%", seed=2),
    "Job": _cases(
        "jobs",
        "jobs.1",
        name="other",
        workload={"collective": "reduce", "bytes": "1MiB"},
        compute={"model": "given", "compute_power": 2.0},
        placement="4-11",
        start="30us",
        collectives={"chunks": 1},
    ),
    "PlainNetwork": _cases(
        "bare",
        "network",
        model=(
            "queued",
            {
                "network": {"model": "analytical"},
                "fabric": {"shape": "Ring(6)", "rate": "9GB/s"},
                "workload.collective": "all_to_all",
            },
        ),
    ),
    "Flow": _cases(
        "flow",
        "network",
        model="analytical",
        precision=0.2,
        paths=2,
        weights=({"all_to_all": 5}, {"workload.collectives": [{"collective": "all_to_all", "bytes": "1MiB"}]}),
        priority=(["all_reduce"], {"workload": TWO_KINDS}),
    ),
    "Red": _cases("red", "network.mark", from_="1KB", to="200KB", probability=0.1, weight=0.1, drop=True),
    "Dcqcn": _cases(
        "dcqcn",
        "network.dcqcn",
        gain=0.5,
        cnp_interval="5us",
        alpha_timer="5us",
        rate_timer="5us",
        bytes="1KB",
        stages=1,
        additive="1Gb/s",
        hyper=(
            "5Gb/s",
            {
                "workload.bytes": "4MB",
                "network.dcqcn": {"rate_timer": "20us", "bytes": "1KB", "stages": 1, "additive": "1Mb/s"},
            },
        ),
        minimum="5Gb/s",
    ),
    "Packet": _cases(
        "packet",
        "network",
        model="flow",
        mtu="9000B",
        headers="500B",
        framing="point_to_point",
        buffer="unlimited",
        sharing="dynamic",
        alpha=(0.1, {"network.sharing": "dynamic"}),
        forwarding="5us",
        mark=("1KB", {"network.congestion": "dctcp", "network.mark": "30KB"}),
        pfc=True,
        transport="rdma",
        congestion="cubic",
        handshake=True,
        initial_window=2,
        window="3KB",
        min_timeout="1us",
        initial_timeout="1ms",
        segments_per_ack=4,
        delayed_ack=("1us", {"network.segments_per_ack": 4}),
        restart=(True, {"network.buffer": "unlimited", "workload": {"iterations": 3, "layers": [SLOW_LAYER]}}),
        spray=(2, {"fabric": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 4, "spines": 2, "rate": "10Gb/s"}}}),
        dims=(
            {"d": {"mtu": "9000B"}},
            {"fabric": {"dims": [{"name": "d", "shape": "switch", "size": 8, "rate": "10Gb/s"}]}},
        ),
        seed=(
            7,
            {
                "network.mark": {"from": "10KB", "to": "300KB", "probability": 0.5},
                "network.congestion": "dctcp",
                "network.buffer": "4MiB",
            },
        ),
    )
    | _cases("dcqcn", "network", dcqcn={"gain": 0.5}),
    "PricedKind": _cases("prices", "prices.components.switch.by_rate.0", rate="100Gb/s", ports=2, usd=70.0, watts=9.0),
    "Price": _cases(
        "prices",
        "prices.components.nic",
        usd=70.0,
        usd_per_GBps=(2.0, {}, {"prices.components.nic.usd": GONE}),
        watts=9.0,
        watts_per_GBps=(0.5, {}, {"prices.components.nic.watts": GONE}),
        by_rate=([{"rate": "400Gb/s", "usd": 99.0}], {}, {"prices.components.nic": {}}),
        at=("everything", {"fabric": {"shape": "Ring(4)", "rate": "50GB/s"}}),
    )
    | _cases(
        "prices",
        "prices.components.fibre",
        usd_per_m=(3.0, {"prices.components.fibre.length_m": 10.0, "prices.components.fibre.usd_per_m": 1.0}),
        length_m=(30.0, {"prices.components.fibre.length_m": 10.0, "prices.components.fibre.usd_per_m": 1.0}),
    )
    | _cases(
        "prices",
        "prices.components.link",
        each_way=(True, {"fabric": {"shape": "Ring(4)", "rate": "50GB/s"}}),
    ),
    "Components": _cases(
        "prices",
        "prices.components",
        npu={"usd": 5000.0},
        nic={"usd": 70.0},
        switch={"usd": 70.0},
        switch_port={"usd": 70.0},
        link={"usd": 70.0},
        transceiver={"usd": 70.0},
        fibre={"usd": 70.0},
    )
    | _cases(
        "prices",
        "prices.components",
        patch_panel_port=({"usd": 9.0}, _optical("patch_panel", "patch_panel_port")),
        ocs_port=({"usd": 9.0}, _optical("ocs", "ocs_port")),
        optical_switch=({"usd": 9.0}, _optical("look_ahead", "patch_panel_port", "optical_switch")),
    ),
    "PriceList": _cases(
        "prices",
        "prices",
        name="other",
        source="elsewhere",
        year=2020,
        currency="eur",
        components={"link": {"usd": 99.0}},
        tiers={"host-leaf": "none"},
        direct=("ocs", _optical("cable", "ocs_port")),
    ),
    "ChosenPrices": _cases(
        "bare",
        "prices",
        list=("libra2024", {"prices": {"list": "hier2021"}}),
        direct=("ocs", {"prices": {"list": "hier2021"}}),
        components=({"link": {"usd": 99.0}}, {"prices": {"list": "hier2021"}}),
        tiers=({"dim1": "none"}, {"prices": {"list": "hier2021"}}),
    ),
}


def _of_dimension(case: Case) -> dict[str, Any]:
    """The case of a network parameter, applied to a single dimension."""
    return {at.replace("network.", "network.dims.dim1."): value for at, value in case.also.items()}


TABLE["Parameters"] = {
    key: Case("packet_dims", "network.dims.dim1", case.value, _of_dimension(case))
    for key, case in TABLE["Packet"].items()
    if key not in ("model", "dims")
}

TABLE["Parameters"]["spray"] = Case(
    "packet_dims",
    "network.dims.dim1",
    2,
    {
        "fabric.dims": [
            {"name": "low", "shape": "ring", "size": 2, "rate": "10Gb/s"},
            {"name": "dim1", "shape": "switch", "size": 4, "switches": 3, "rate": "10Gb/s"},
        ],
        "collectives.logical": [8],
    },
)

_BY_TREE = {"group": "all", "collective": "all_reduce", "bytes": BARE["bytes"], "phases": ["tree all_reduce"]}
_HAS_TREE = {"collectives.algorithms_of": [_BY_TREE]}
TABLE["AlgorithmsOf"] = _cases(
    "switch",
    "collectives.algorithms_of.0",
    group=("other", _HAS_TREE),
    collective=("all_gather", _HAS_TREE),
    bytes=("2MiB", _HAS_TREE),
    phases=(["ring all_reduce"], _HAS_TREE),
)

_PLANNING = _cases(
    "bare",
    "collectives",
    all_reduce="baseline",
    logical=[2, 8],
)
_PLANNING |= _cases(
    "switch",
    "collectives",
    algorithms={"default": {"all_reduce": "tree"}},
    algorithms_of=[_BY_TREE],
    plans={"all_reduce": "nowhere.json"},
    chunks=3,
    chunks_of={"all_reduce": 2},
    min_chunk="512KiB",
    element="4KiB",
)
_EIGHT = {"dims": [{"name": "node", "shape": "switch", "size": 8, "rate": "450GB/s", "latency": "100ns"}]}
_TOKENS = {"tokens": 1024, "experts": 8, "phase": "dispatch"}
_BY_DEEPEP = {
    "fabric": _EIGHT,
    "workload": {"collective": "all_to_all", "bytes": "64MiB"},
    "collectives": {"nccl": "h100-sxm", "deepep": _TOKENS},
}
TABLE["DeepEp"] = _cases(
    "bare",
    "collectives.deepep",
    tokens=(2048, _BY_DEEPEP),
    experts=(4, _BY_DEEPEP),
    kernels=("low_latency", _BY_DEEPEP),
    sms=(4, _BY_DEEPEP),
    group=("data", _BY_DEEPEP),
    phase=("combine", _BY_DEEPEP),
)
_NODES = {
    "dims": [
        {"name": "node", "shape": "switch", "size": 8, "rate": "450GB/s", "latency": "100ns"},
        {"name": "rail", "shape": "switch", "size": 4, "rate": "50GB/s", "latency": "1us"},
    ]
}
TABLE["Collectives"] = (
    _PLANNING
    | _cases(
        "bare",
        "collectives",
        issue_threshold=(1, {"collectives.issue_batch": 1, **_MANY}),
        issue_batch=(1, {"collectives.issue_threshold": 1, **_MANY}),
        active_chunks=(1, _MANY),
        outstanding=(1, _MANY),
        endpoint_delay="1us",
        injection_latency="1us",
        reduction_rate="10GB/s",
    )
    | _cases("decoder", "collectives", schedulers=("per_rank", {"collectives.issue_threshold": 1, **_MANY}))
    | _cases("layers", "collectives", order=("lifo", {"collectives.chunks": 8}), concurrent=1)
    | _cases("bare", "collectives", nccl="h100-sxm")
    | _cases(
        "bare",
        "collectives",
        sharp=(True, {"collectives.nccl": "h100-sxm", "fabric": _NODES}),
        custom_all_reduce=("vLLM", {"collectives.nccl": "h100-sxm"}),
        deepep=(_TOKENS, {**_BY_DEEPEP, "collectives": {"nccl": "h100-sxm"}}),
    )
    | _cases("ring", "collectives", queues=(1, {"collectives.algorithms": {"default": {"all_reduce": "ring"}}}))
)
TABLE["JobCollectives"] = {
    key: Case(
        "jobs",
        "jobs.0.collectives",
        "64KiB" if key == "element" else case.value,
        {"jobs.0.placement": "linear", "jobs.1": GONE} | case.also,
    )
    for key, case in _PLANNING.items()
}

ELSEWHERE = {
    ("Scenario", "report"): "tests/cli: it decides about a file that the command line writes",
    ("ModuleInput", "*"): "tests/models: needs PyTorch",
    ("ModuleWorkload", "*"): "tests/models: needs PyTorch",
    ("ChakraWorkload", "*"): "tests/config/test_errors.py: paths of files",
    ("OperatorsWorkload", "*"): "tests/design/joint/test_search.py: files that a search writes, and others",
    ("FlexNetWorkload", "*"): "tests/config/test_flexnet.py: paths of files",
    ("AstraTextWorkload", "*"): "tests/config/test_errors.py: paths of files",
    ("FileFabric", "*"): "tests/config/test_edges.py: paths of files, and names in them",
    ("ClusterFabric", "*"): "tests/clusters/test_known.py: fabrics of clusters",
    ("MeasuredFabric", "*"): "tests/config/test_measured.py: a file of measurements",
    ("MeasuredNodes", "*"): "tests/config/test_measured.py: a file of measurements",
    ("Table", "*"): "tests/config/test_compute.py: the path of a file",
}
"""Keys whose effect other test files check."""
