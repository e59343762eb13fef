"""The parts of the reference that are generated from the code: the text between ``<!-- generated: NAME -->`` and
``<!-- end -->`` in a page."""

from __future__ import annotations

import itertools
import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

from tests.docs import accuracy, fidelity, public
from tests.docs import faults as tried
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MARKED = re.compile(r"(<!-- generated: ([\w-]+)(?: ([\w.-]+))? -->\n).*?(<!-- end -->)", re.S)

SCHEMA = json.loads((ROOT / "syncline.schema.json").read_text("utf-8"))
TESTBED = json.loads((ROOT / "syncline-testbed.schema.json").read_text("utf-8"))
DESIGN = json.loads((ROOT / "syncline-design.schema.json").read_text("utf-8"))
JOB = json.loads((ROOT / "syncline-job.schema.json").read_text("utf-8"))
JOINT = json.loads((ROOT / "syncline-joint.schema.json").read_text("utf-8"))

QUANTITIES = {
    "0.5us": "time",
    "60s": "time",
    "64MiB": "size",
    "100Gb/s": "rate",
    "4.1GFLOP": "operations",
    "312TFLOP/s": "compute rate",
    "1GHz": "frequency",
    "2%": "percentage",
    "llama/config.json": "path of a file",
}
"""Names of quantities, by their example in the schema."""

PARTS = {
    "Given": ("Given", "object `model: given`"),
    "Roofline": ("Roofline", "roofline"),
    "EfficiencyPoint": ("Efficiency curves", "point"),
    "Systolic": ("Systolic array", "systolic array"),
    "Throughput": ("Throughput", "throughput"),
    "Table": ("Measured times", "table"),
    "MeasuredKernels": ("Measured kernels", "measured kernels"),
    "PlainNetwork": ("Network", "object with `model`"),
    "Flow": ("Flow", "flows"),
    "Packet": ("Packets", "packets"),
    "Parameters": ("Packets of a dimension", "packets of a dimension"),
    "Red": ("Early marks", "early marks"),
    "Dcqcn": ("DCQCN", "DCQCN"),
    "Collectives": ("Collectives", "mapping"),
    "DeepEp": ("DeepEP", "DeepEP"),
    "AlgorithmsOf": ("Algorithms of single collectives", "single collectives"),
    "SlowRank": ("Slow ranks", "slow ranks"),
    "RandomRanks": ("Random ranks", "random ranks"),
    "BrokenLink": ("Broken links", "broken links"),
    "RandomLinks": ("Random links", "random links"),
    "Jitter": ("Jitter", "mapping"),
    "PriceList": ("A price list", "price list"),
    "ChosenPrices": ("A changed list", "changed list"),
    "Components": ("Components", "components"),
    "Price": ("A price", "price"),
    "PricedKind": ("A price", "kind"),
    "Limits": ("Limits", "mapping"),
    "Trace": ("Trace", "mapping"),
    "Parallel": ("Parallelism", "parallelism"),
    "RankMesh": ("Further meshes", "mesh of ranks"),
    "Job": ("Several jobs", "job"),
    "JobCollectives": ("Collectives of a job", "mapping"),
    "ModelWorkload": ("A model by its name", "model"),
    "ModuleWorkload": ("A PyTorch module", "PyTorch module"),
    "ModuleInput": ("A PyTorch module", "input"),
    "LayersWorkload": ("Layers", "layers"),
    "Sample": ("Layers", "sample"),
    "Types": ("Element types", "element types"),
    "Layer": ("One layer", "layer"),
    "Ops": ("Work", "operations"),
    "Product": ("Matrix products", "matrix product"),
    "Exchange": ("Exchanges of a layer", "exchange"),
    "CollectiveWorkload": ("One collective", "collective"),
    "CollectivesWorkload": ("Several collectives", "collectives"),
    "Comm": ("Several collectives", "collective"),
    "ChakraWorkload": ("Chakra traces", "Chakra traces"),
    "OperatorsWorkload": ("Operators on servers", "operators"),
    "FlexNetWorkload": ("FlexNet task graphs", "task graph"),
    "AstraTextWorkload": ("ASTRA-sim 1 text workloads", "ASTRA-sim 1 file"),
    "DimsFabric": ("Dimension by dimension", "dimensions"),
    "Dim": ("Dimension by dimension", "dimension"),
    "ShapeFabric": ("By shape", "shape"),
    "TorusFabric": ("Torus", "torus"),
    "AllToAllFabric": ("Hierarchical alltoall", "alltoall"),
    "Links": ("Links of rings", "links"),
    "Uplinks": ("Links to switches", "links"),
    "GraphFabric": ("Link by link", "graph"),
    "Link": ("Link by link", "link"),
    "Ecmp": ("Equal-cost multi-path", "policy"),
    "FileFabric": ("From a file", "file"),
    "ClusterFabric": ("A known cluster", "cluster"),
    "MeasuredFabric": ("As measured", "measurements"),
    "MeasuredNodes": ("Several NPUs in a measured host", "nodes"),
    "BuiltFabric": ("Families", "family"),
    "FatTree": ("Fat-tree", "fat-tree"),
    "LeafSpine": ("Leaf-spine", "leaf-spine"),
    "Dragonfly": ("Dragonfly", "dragonfly"),
    "Expander": ("Expander", "expander"),
    "UniformTorus": ("Uniform torus", "torus"),
    "Mesh": ("Mesh", "mesh"),
    "Hypercube": ("Hypercube", "hypercube"),
    "OneSwitch": ("One switch", "switch"),
    "Nodes": ("Nodes", "nodes"),
}
"""For each part of the schema, its heading on the page and its name in tables."""

DESIGN_PARTS = {
    "Shapes": ("Shapes", "shapes"),
    "Budget": ("Budget", "budget"),
    "Bounds": ("Bounds", "bounds"),
    "WeightedJob": ("Several jobs", "job"),
}
"""The same for the schema of design specs."""

JOINT_PARTS = {
    "Module": ("PyTorch modules", "module"),
    "ModuleInput": ("Inputs of a module", "input"),
    "Reconfiguration": ("Circuits that change", "circuits that change"),
    "Server": ("Servers", "server"),
    "Search": ("How to search", "search"),
}
"""The same for the schema of specs for strategy and topology."""

JOB_PARTS = {
    "JobCluster": ("Cluster", "cluster"),
    "JobParallel": ("Parallel", "axes"),
    "JobBatch": ("Batch", "batch"),
    "JobOffload": ("Offload", "offload"),
    "Overlap": ("Overlap", "overlap"),
    "Decoder": ("Model", "sizes"),
    "Latent": ("Latent attention", "latent attention"),
    "Window": ("Window", "window"),
    "ExpertSizes": ("Experts", "experts"),
}
"""The same for the schema of job files."""

TESTBED_PARTS = {
    "OnOffTenant": ("On-off sources", "on-off sources"),
    "PoissonTenant": ("Poisson arrivals", "Poisson arrivals"),
    "TenantHosts": ("Ends of flows", "host"),
    "TenantRacks": ("Ends of flows", "rack"),
}
"""The same for the schema of testbeds."""

SOURCES = {
    "Collectives.all_reduce": "astra2020 III-D, hier2021 III-B, dlrm2020 Table II",
    "Collectives.algorithms": "hier2021 Table I (default)",
    "Collectives.logical": "astra2020 IV-B",
    "Collectives.chunks": "astra2020 `preferred-set-splits`",
    "Collectives.order": "astra2020 IV-B, dlrm2020 III-C.1 (`priority`)",
    "Collectives.issue_threshold": "T of astra2020 IV-B",
    "Collectives.issue_batch": "P of astra2020 IV-B",
    "Collectives.queues": "LSQ of astra2020 IV-B",
    "Collectives.outstanding": "dlrm2020 III-C (64)",
    "Collectives.endpoint_delay": "astra2020 `endpoint-delay`",
    "Collectives.injection_latency": "dlrm2020 III-C",
    "Dim.rate_per_npu": "hier2021 Eq. 8",
    "Dim.tier": "LIBRA `CostDimension`",
    "Price.usd_per_GBps": "hier2021 Table II",
    "Price.by_rate": "topoopt2022 Table 3",
    "Price.at": "hier2021 V-B (`switches`)",
    "Price.each_way": "LIBRA",
    "PriceList.direct": "topoopt2022 4, Fig. 10 (`look_ahead`, `ocs`)",
    "Dim.spread": "dlrm2020 III-C.2 (`pair`)",
    "Dim.shape": "hier2021 Fig. 6, astra2020 Fig. 3",
    "ShapeFabric.shape": "hier2021 III-A",
    "ShapeFabric.rate_per_npu": "hier2021 Eq. 8",
    "TorusFabric.torus": "astra2020 III-C",
    "AllToAllFabric.alltoall": "astra2020 III-C",
    "Layer.sharding": "astra2020 III-A; Shoeybi et al. 2019 (`column`, `row`); dlrm2020 III-A (`exchange`)",
    "Layer.needed_by": "dlrm2020 Fig. 3",
    "Parallel.tensor": "hier2021 III (filling the lowest dimensions)",
    "Parallel.order": "Megatron-LM (the default)",
    "Parallel.backward": "ASTRA-sim 1.0 `Workload.cc`",
    "Parallel.schedule": "Huang et al. 2019 (`gpipe`), Narayanan et al. 2021, 2.2",
    "Parallel.virtual_stages": "Narayanan et al. 2021, 2.2.2",
    "Parallel.zero": "Rajbhandari et al. 2020",
    "Parallel.recompute": "Chen et al. 2016 (`full`), Korthikanti et al. 2022, 5 (`selective`)",
    "Parallel.divided_checkpoints": "Rajbhandari et al. 2020, 6.1; hier2021",
    "Parallel.sequence": "Korthikanti et al. 2022, 4.2.2",
    "Parallel.overlap": "hier2021 VI (`none`)",
    "Parallel.combined": "DeepSeek-V3 report, 3.2.1; Megatron Core's combined 1F1B",
    "Parallel.updates": "Megatron Core (`together`)",
    "Parallel.messages": "Narayanan et al. 2021, 2.2; Megatron-LM without `--overlap-p2p-communication` (`block`)",
    "Layer.heads": "Shoeybi et al. 2019",
    "Layer.kept": "Korthikanti et al. 2022, 4.1",
    "LayersWorkload.optimizer": "Rajbhandari et al. 2020, 3.1",
    "Roofline.efficiency": "Williams et al., CACM 2009 (the model)",
    "Systolic.rows": "astra2020 IV-A",
    "Systolic.columns": "astra2020 IV-A",
    "Systolic.memory": "astra2020 IV-A (stalls)",
    "Systolic.dataflow": "Samajdar et al., ISPASS 2020 (the cycles)",
    "Systolic.delay": "astra2020 IV-A (other operators)",
    "Systolic.compute_power": "astra2020 Fig. 18",
    "Throughput.rate": "dlrm2020 Table IV",
    "FatTree.k": "Al-Fares et al., SIGCOMM 2008",
    "FatTree.oversubscription": "topoopt2022 5.1 (uplinks are omitted)",
    "Dragonfly.p": "Kim et al., ISCA 2008",
    "Dragonfly.a": "Kim et al., ISCA 2008",
    "Dragonfly.h": "Kim et al., ISCA 2008",
    "Dragonfly.groups": "Kim et al., ISCA 2008",
    "Expander.degree": "Singla et al., NSDI 2012",
    "Nodes.forward": "Wang et al. 2023 (rail-only)",
}


def build(page: Path) -> str:
    """The page with its generated parts replaced."""

    def made(found: re.Match[str]) -> str:
        lines = GENERATORS[found[2]](*([found[3]] if found[3] else []))
        return f"{found[1]}\n" + "\n".join(lines) + f"\n\n{found[4]}"

    return MARKED.sub(made, page.read_text("utf-8"))


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table; columns that are empty in every row are left out."""
    used = [index for index in range(len(head)) if any(row[index] for row in rows)]
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(_cell(line[index]) for index in used) + " |" for line in lines]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def keys(name: str) -> list[str]:
    """The keys of one part of the schema."""
    return _keys(SCHEMA if name == "Scenario" else SCHEMA["definitions"][name], name)


def design(name: str) -> list[str]:
    """The keys of one part of a design spec."""
    return _keys(DESIGN if name == "Spec" else DESIGN["definitions"][name], name)


def job(name: str) -> list[str]:
    """The keys of one part of a job file."""
    return _keys(JOB if name == "JobFile" else JOB["definitions"][name], name)


def frameworks() -> list[str]:
    """What frameworks lack, by keys of a job file."""
    from syncline.estimate.frameworks import FEATURES, NAMES

    def cells(each: Any) -> list[str]:
        lacking = [f"`{name}`" for name in NAMES if name in each.lacking]
        able = [f"`{name}`" for name in NAMES if name not in each.lacking]
        said = f"all but {', '.join(able)}" if len(lacking) > len(able) else ", ".join(lacking)
        values = each.values if " " in each.values.replace(", ", "") or each.values == "any" else None
        shown = values or ", ".join(f"`{value}`" for value in each.values.split(", "))
        return [f"`{each.key}`", shown, said]

    return table(["key", "values", "frameworks that have no such thing"], [cells(each) for each in FEATURES])


def joint(name: str) -> list[str]:
    """The keys of one part of a spec for strategy and topology."""
    return _keys(JOINT if name == "Joint" else JOINT["definitions"][name], name)


def faults(part: str) -> list[str]:
    """Faults that tests cause, and their consequences."""
    # A part named by two words is given here by one of them.
    parts = {each.replace(" ", ""): each for each, _ in tried.PLACES.values()}
    rows = [[each.what, each.follows, each.tried, f"`{each.test}`"] for each in tried.read(parts[part])]
    return table(["what happens", "what follows", "tried on", "test"], rows)


def testbed(name: str) -> list[str]:
    """The keys of a testbed's file."""
    return _keys(TESTBED if name == "Spec" else TESTBED["definitions"][name], name)


OF_MODELS = ("model", "parallel", "iterations", "micro_batches", "global_batch", "types")
"""Keys of a model's workload that are not parameters of the model."""


def _keys(part: dict[str, Any], name: str) -> list[str]:
    required = part.get("required", [])
    rows = []
    for key, entry in part["properties"].items():
        if name == "ModelWorkload" and key not in OF_MODELS:
            continue
        default = "required" if key in required else _default(entry)
        rows.append([f"`{key}`", _type(entry), default, entry.get("description", ""), SOURCES.get(f"{name}.{key}", "")])
    return table(["key", "value", "default", "meaning", "source"], rows)


def _default(entry: dict[str, Any]) -> str:
    default = entry.get("default")
    if default is None:
        return "none"
    if isinstance(default, dict) and default:
        own = _definition(_reference(entry) or "")["properties"]
        unlike = {key: value for key, value in default.items() if value != own[key].get("default")}
        return f"`{_shown(unlike)}`" if unlike else "the defaults of its keys"
    return f"`{_shown(default)}`"


def _shown(value: Any) -> str:
    if value == "":
        return '""'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(each)}" for key, each in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


def _definition(name: str) -> Any:
    return (
        SCHEMA["definitions"]
        | DESIGN["definitions"]
        | JOB["definitions"]
        | JOINT["definitions"]
        | TESTBED["definitions"]
    )[name]


def _reference(entry: dict[str, Any]) -> str | None:
    found = [each["$ref"] for each in (*entry.get("allOf", []), entry) if "$ref" in each]
    return found[0].rpartition("/")[2] if found else None


def _type(entry: dict[str, Any]) -> str:
    if name := _reference(entry):
        heading, word = (PARTS | DESIGN_PARTS | JOB_PARTS | JOINT_PARTS | TESTBED_PARTS)[name]
        return f"[{word}](#{re.sub(r'[^a-z0-9-]', '', heading.lower().replace(' ', '-'))})"
    for joint in ("anyOf", "oneOf"):
        if joint in entry:
            kinds = [_type(each) for each in entry[joint] if each.get("type") != "null"]
            return "; or ".join(dict.fromkeys(kinds))
    if not {"type", "enum", "const"} & entry.keys():
        return "as in [a scenario](scenario.md)"
    if "const" in entry:
        return f"`{entry['const']}`"
    if "enum" in entry:
        return ", ".join(f"`{word}`" for word in entry["enum"])
    match entry.get("type"):
        case "string":
            example = entry.get("examples", [""])[0]
            return f"{QUANTITIES[example]}, such as `{example}`" if example else "text"
        case "integer":
            return f"whole number from {entry.get('minimum', 0)}"
        case "number":
            low, high = entry.get("minimum"), entry["maximum"]
            if low is None:
                return f"number above 0, at most {high}"
            return f"number from {f'{low:.6f}'.rstrip('0').rstrip('.')} to {high:.12g}"
        case "boolean":
            return "`true`, `false`"
        case "array":
            return f"list of {_plural(_type(entry['items']))}"
        case "object":
            words = entry.get("propertyNames", {}).get("enum")
            key = "name" if not words else "data type" if "fp32" in words else "collective"
            # Names that must match a pattern have properties of that pattern.
            values = next(iter(entry.get("patternProperties", {}).values()), entry.get("additionalProperties"))
            return f"mapping from {key} to {'value' if values is True else _type(values)}"
    raise ValueError(f"the reference has no word for {entry}")


def _plural(text: str) -> str:
    for word in (
        "whole number",
        "text",
        "list",
        "collective",
        "dimension",
        "exchange",
        "layer",
        "link",
        "point",
        "matrix product",
        "input",
        "job",
    ):
        text = re.sub(rf"^(\[?){word}\b", rf"\1{word}s", text)
    return text


def models() -> list[str]:
    """The models and their parameters."""
    from syncline.models import MODELS
    from syncline.models.parameters import COMMON

    rows = [[f"`{name}`", info.description, info.source] for name, info in MODELS.items()]
    lines = [*table(["model", "what it is", "source"], rows), "", "Every model takes:", ""]
    lines += _parameters(COMMON)
    groups: list[tuple[list[str], dict[str, Any]]] = []
    for name, info in MODELS.items():
        common = {key for key, parameter in COMMON.items() if info.parameters[key].default == parameter.default}
        own = {key: parameter for key, parameter in info.parameters.items() if key not in common}
        same = next((entry for entry in groups if list(entry[1]) == list(own)), None)
        if same:
            same[0].append(name)
        else:
            groups.append(([name], own))
    for names, own in groups:
        lines += ["", " and ".join(f"`{name}`" for name in names) + ":", ""]
        others = [MODELS[name].parameters for name in names[1:]]
        lines += _parameters(own, others)
    return lines


def _parameters(parameters: Any, others: list[Any] | None = None) -> list[str]:
    rows = []
    for key, parameter in parameters.items():
        defaults = [parameter.default, *(other[key].default for other in others or [])]
        shown = [f"`{_plain(default)}`" for default in dict.fromkeys(defaults)]
        low, high = parameter.range[0], parameter.range[-1]
        allowed = {
            "integer": f"whole number, {low} to {high}",
            "integers": f"list of whole numbers, {low} to {high}",
            "boolean": "`true`, `false`",
            "choice": ", ".join(f"`{word}`" for word in parameter.range),
        }[parameter.type]
        rows.append([f"`{key}`", allowed, ", ".join(shown), parameter.meaning])
    return table(["key", "value", "default", "meaning"], rows)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(list(value) if isinstance(value, tuple) else value)


def accelerators() -> list[str]:
    """The accelerators that a scenario can name."""
    from syncline import _core
    from syncline.models.accelerators import load

    rows = []
    for each in load().values():
        names = ", ".join(f"`{name}`" for name in (each.name, *each.aliases))
        peaks = ", ".join(
            f"{data_type} {_core.format_quantity('flop_rate', rate)}"
            for data_type, rate in each.peak_flop_per_s.items()
        )
        memory = _core.format_quantity("rate", 8 * each.memory_bytes_per_s)
        rows.append([names, peaks, memory, "; ".join(dict.fromkeys(each.sources[key] for key in ("peak", "memory")))])
    return table(["names", "peak, dense", "memory bandwidth", "source"], rows)


def clusters() -> list[str]:
    """The clusters that scenarios and estimates can name."""
    from syncline.clusters.known import clusters as known

    rows: dict[int, list[str]] = {}
    for name, each in known().items():
        if id(each) in rows:
            rows[id(each)][0] += f", `{name}`"
            continue
        size = "any" if each.hosts is None else f"{each.hosts * each.host:,}"
        network = "one switch" if each.network is None else "rails" if each.network.rails else "leaves and spines"
        if each.network is not None and each.network.pod_oversubscription != 1:
            network += f", {each.network.pod_oversubscription:g}:1 between pods"
        sources = [each.source, *([each.network.source] if each.network else [])]
        assumed = f" Assumed: {'; '.join(each.assumed)}." if each.assumed else ""
        rows[id(each)] = [
            f"`{name}`",
            each.accelerator,
            size,
            str(each.domain),
            each.nic_rate,
            network,
            ". ".join(sources) + "." + assumed,
        ]
    return table(
        ["name", "accelerator", "accelerators", "domain", "rate of each", "network", "source"], [*rows.values()]
    )


def prices() -> list[str]:
    """The shipped price lists."""
    from syncline.config.expand_prices import price_list, shipped

    rows = []
    for name in shipped():
        found = price_list(name)
        tiers = [tier for tier, section in found["tiers"].items() if section != "none"]
        known = [*found["components"], *({each: 0 for tier in tiers for each in found["tiers"][tier]})]
        by = f" by tier ({', '.join(f'`{tier}`' for tier in tiers)})" if tiers else ""
        rows.append([f"`{name}`", str(found["year"]), ", ".join(f"`{each}`" for each in known) + by, found["source"]])
    return table(["name", "year", "prices of", "source"], rows)


def limits() -> list[str]:
    """Limits on the content of users' files."""
    import ast

    from syncline.input import limits as module

    body = ast.parse((ROOT / "python/syncline/input/limits.py").read_text("utf-8")).body
    rows = []
    for node, below in itertools.pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name = node.targets[0].id  # type: ignore[attr-defined]
            value = getattr(module, name)
            shown = f"{value >> 20} MiB" if name.endswith("BYTES") else f"{value:,}"
            rows.append([str(below.value.value).rstrip("."), shown])
    return table(["what", "at most"], rows)


def errors() -> list[str]:
    """Every code, with its page's anchor."""
    from syncline import _core

    rows = [
        [f"[{code}](#{code.lower()}-{re.sub(r'[^a-z0-9 -]', '', title.lower()).replace(' ', '-')})", title, str(status)]
        for code, _, title, _, status in _core.codes()
    ]
    return table(["code", "title", "exit status"], rows)


def tables() -> list[str]:
    """Every table of a run, column by column, as its manifest lists them."""
    lines: list[str] = []
    for entry in manifest()["tables"]:
        rows = [[f"`{each['name']}`", each["type"], each["meaning"]] for each in entry["columns"]]
        lines += ["", f"### `{entry['file']}`", "", f"Each row is {_lower(entry['meaning'])}.", ""]
        lines += table(["column", "type", "meaning"], rows)
    return lines[1:]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def manifest() -> dict[str, Any]:
    """The manifest of a small run, with the tables of two network models."""
    import tempfile
    from pathlib import Path

    import syncline

    made: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        # Several jobs, packets and flows together give every table.
        jobs = [{"name": name, "workload": {"collective": "all_reduce", "bytes": "64KiB"}} for name in ("one", "two")]
        racks = {"leaves": 2, "hosts_per_leaf": 2, "spines": 1, "rate": "100Gb/s", "latency": "1us"}
        switch = {"hosts": 4, "rate": "100Gb/s", "latency": "1us"}
        for network, fabric in (("packet", {"switch": switch}), ("flow", {"leaf_spine": racks})):
            run = Path(folder) / network
            syncline.simulate(jobs=jobs, fabric=fabric, network=network, prices="hier2021").save(run)
            made.append(json.loads((run / "manifest.json").read_text("utf-8")))
    first, second = made
    known = {each["name"] for each in first["tables"]}
    return {**first, "tables": [*first["tables"], *(each for each in second["tables"] if each["name"] not in known)]}


def summary() -> list[str]:
    """The keys of ``summary.json``."""
    from syncline.explanation.meanings import SUMMARY, everything

    keys = [each for each in everything() if each.table == SUMMARY]
    return table(["key", "meaning"], [[f"`{each.name}`", each.meaning] for each in keys])


def _leaves(head: str, group: Any) -> Iterator[tuple[str, Any]]:
    """All commands; a command of a group has the names of both."""
    for name in group.list_commands(None):
        each = group.get_command(None, name)
        if hasattr(each, "list_commands"):
            yield from _leaves(f"{head}{name} ", each)
        else:
            yield f"{head}{name}", each


def commands() -> list[str]:
    """Every command with its arguments and options."""
    from syncline.cli.app import command

    lines: list[str] = []
    for name, each in _leaves("", command()):
        arguments, options = [], []
        for parameter in each.params:
            if type(parameter).__name__.endswith("Argument"):
                word = (parameter.metavar or parameter.name.upper()).strip("[]")
                arguments.append([f"`{word}`", _values(parameter), (parameter.help or "").rstrip(".")])
            else:
                names = ", ".join(f"`{option}`" for option in parameter.opts)
                value = "" if parameter.is_flag else f" `{parameter.metavar or parameter.name.upper()}`"
                options.append([names + value, _values(parameter), (parameter.help or "").rstrip(".")])
        lines += ["", f"### `syncline {name}`", "", " ".join((each.help or "").split("\n\n")[0].split())]
        if arguments:
            lines += ["", *table(["argument", "default", "meaning"], arguments)]
        if options:
            lines += ["", *table(["option", "default", "meaning"], options)]
    return lines[1:]


def _values(parameter: Any) -> str:
    default = parameter.default
    if isinstance(default, (str, float)) or (isinstance(default, int) and not isinstance(default, bool)):
        return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"
    return ""


def models_compared() -> list[str]:
    """Times under the four network models, by size and number of senders."""
    return table(list(fidelity.HEAD), fidelity.rows())


def plans_compared() -> list[str]:
    """Times of plans in chunks under the four network models."""
    return table(list(fidelity.PLANS_HEAD), fidelity.plan_rows())


FAMILIES = {
    "fat-tree": "fat-tree, 2:1",
    "leaf-spine": "leaf-spine",
    "three-tier": "leaf-spine, three levels",
    "rails": "rails",
    "dragonfly": "dragonfly",
    "expander": "expander of switches",
    "expander-of-hosts": "expander of hosts",
    "torus": "torus",
    "mesh": "mesh",
    "hypercube": "hypercube",
    "switch": "one switch",
    "dgx": "nodes on one switch",
    "torus-of-nodes": "nodes in a torus",
}
"""The scenarios of the example of fabrics, and their names on the page."""


def family(name: str) -> dict[str, Any]:
    """The output of ``show`` for a scenario of the example of fabrics."""
    from syncline import _core
    from syncline.config.load import load

    shown: dict[str, Any] = json.loads(load(ROOT / "examples/fabrics" / f"{name}.yaml").call(_core.show, "fabric"))
    return shown


def fabrics() -> list[str]:
    """Sizes, degree, diameter and bisection of the example of each family."""
    from syncline.quantity import percent

    rows = []
    for name, words in FAMILIES.items():
        view = family(name)
        nics = sum(level["count"] for level in view["levels"] if level["kind"] == "nic")
        (least, most), found = view["levels"][0]["degree"], view["bisection"]
        share = percent(found["rate_bytes_per_s"] / found["ideal_bytes_per_s"])
        rows.append(
            [
                f"[{words}](#{words.lower().replace(' ', '-').replace(',', '').replace(':', '')})",
                str(view["npus"]),
                str(view["switches"] - nics),
                str(view["links"] // 2),
                str(most) if least == most else f"{least} to {most}",
                str(view["diameter"]),
                f"{'at most ' if found['method'] == 'one_half' else ''}{share}",
            ]
        )
    return table(["example", "NPUs", "switches", "cables", "degree of an NPU", "diameter", "bisection"], rows)


def public_names(module: str) -> list[str]:
    """The public names of a module."""
    found = {each: public.definition(module, each) for each in public.names(module) if not each.startswith("__")}
    return table(["name", "kind", "what it is"], [[f"`{n}`", public.kind(d), d.sentence] for n, d in found.items()])


def fields(name: str) -> list[str]:
    """The fields of a dataclass."""
    rows = public.fields(public.definition(*name.rsplit(".", 1)))
    return table(["field", "default", "meaning"], [[f"`{n}`", f"`{d}`" if d else "", text] for n, d, text in rows])


def kernels() -> list[str]:
    """The columns of a table of measured kernels."""
    from syncline.kernels.columns import COLUMNS

    return table(["column", "value", "meaning"], [[f"`{each.name}`", each.kind, each.meaning] for each in COLUMNS])


def accuracy_of(part: str) -> list[str]:
    """Figures of predictions: ``groups``, ``nanotron``, ``held-out`` or ``constants``."""
    if part == "nanotron":
        return textwrap.wrap(accuracy.nanotron(), 124)
    head, *rows = {"groups": accuracy.groups, "held-out": accuracy.held_out, "constants": accuracy.constants}[part]()
    return table(head, rows)


GENERATORS: dict[str, Callable[..., list[str]]] = {
    "accuracy": accuracy_of,
    "kernels": kernels,
    "faults": faults,
    "fields": fields,
    "public": public_names,
    "accelerators": accelerators,
    "clusters": clusters,
    "prices": prices,
    "commands": commands,
    "design": design,
    "job": job,
    "joint": joint,
    "errors": errors,
    "frameworks": frameworks,
    "fabrics": fabrics,
    "fidelity": models_compared,
    "plans": plans_compared,
    "keys": keys,
    "limits": limits,
    "models": models,
    "summary": summary,
    "tables": tables,
    "testbed": testbed,
}
