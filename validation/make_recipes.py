"""Makes ``recipes.csv``: what Megatron-Bridge's recipes for performance do with kernels, release by release.

``python validation/make_recipes.py CHECKOUT > validation/recipes.csv``, where ``CHECKOUT`` is a Git clone of
NVIDIA-NeMo/Megatron-Bridge with its tags. Assignments in ``scripts/performance/configs`` are read, and never run. A
line counts until a later release has one for the same model, cluster and precision; what is as before is left out.
"""

from __future__ import annotations

import ast
import csv
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COLUMNS = ("release", "model", "cluster", "precisions", "graphs", "dispatcher", "overlap_experts", "fused_experts")
TAGS = {
    "25.11": "v0.2.0",
    "26.02": "v0.3.0",
    "26.02.01": "v0.3.1",
    "26.04": "v0.4.0",
    "26.04.01": "v0.4.2",
    "26.06": "v0.5.0",
    "26.06.01": "v0.5.1",
}
"""Tags of containers. Those of 25.09 are read from run_script.py and YAML files of v0.1.0rc4 by hand."""
MODELS = {
    "DEEPSEEK_V3": "deepseek-v3",
    "GPT_OSS_120B": "gpt-oss-120b",
    "KIMI_K2": "kimi-k2",
    "LLAMA3_70B": "llama3-70b",
    "LLAMA3_8B": "llama3-8b",
    "LLAMA31_405B": "llama3-405b",
    "QWEN3_235B_A22B": "qwen3-235b-a22b",
    "QWEN3_30B_A3B": "qwen3-30b-a3b",
}
DENSE = ("llama3-70b", "llama3-8b", "llama3-405b")
CLUSTERS = {
    "B200": "dgx-b200",
    "B300": "dgx-b300",
    "GB200": "gb200-nvl72",
    "GB300": "gb300-nvl72",
    "H100": "dgx-h100",
}
PRECISIONS = {"BF16": "bf16", "FP8_CS": "fp8", "FP8_MX": "mxfp8", "NVFP4": "nvfp4"}
NAME = re.compile(
    rf"({'|'.join(MODELS)})_(?:PRETRAIN_CONFIG_)?({'|'.join(CLUSTERS)})_({'|'.join(PRECISIONS)})"
    r"(?:_BASE_CONFIG|_V(\d+))?$"
)
FIRST = (
    # Tokens are dropped on Blackwell, so that sizes are known before: graphs of whole layers.
    ("qwen3-30b-a3b", ("gb200-nvl72", "dgx-b200"), "full all_to_all no no"),
    ("qwen3-235b-a22b", ("gb200-nvl72",), "full all_to_all no no"),
    ("deepseek-v3", ("dgx-h100",), "none fused yes no"),
    ("llama3-8b", ("dgx-b200", "gb200-nvl72"), "full"),
    ("llama3-70b", ("dgx-b200",), "full"),
)
"""Container 25.09 by hand: tag v0.1.0rc4. Others have neither graphs nor dedicated dispatch kernels."""
FIRST_ONLY = {("llama3-70b", "dgx-b200"): ("bf16",), ("llama3-8b", "gb200-nvl72"): ("bf16", "mxfp8")}
"""Of these, which precisions have graphs in container 25.09."""


def shown(checkout: str, *arguments: str) -> str:
    """What Git prints."""
    command = ["git", "-C", checkout, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - Git alone


def assigned(text: str, known: dict[str, dict[str, Any]]) -> None:
    """Adds the configurations that a module assigns by names: keyword arguments over those that it replaces."""
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if isinstance(value, ast.Name) and value.id in known:
            known[name] = known[value.id]
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            base = known.get(value.args[0].id, {}) if value.args and isinstance(value.args[0], ast.Name) else {}
            given = {each.arg: literal(each.value) for each in value.keywords if each.arg}
            known[name] = {**base, **given}


def literal(node: ast.expr) -> Any:
    """A value that needs no running; None for others."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def settings(config: Mapping[str, Any], *, dense: bool, plain: bool) -> str:
    """What a configuration says: graphs, and what concerns experts. ``plain``: tokens go by all-to-alls anyway."""
    way, scope = config.get("cuda_graph_impl"), config.get("cuda_graph_scope")
    if way in (None, "none"):
        graphs = "none"
    elif way == "full_iteration" or scope in (None, "full", "full_iteration", ["full_iteration"]):
        graphs = "full"
    else:
        graphs = "partial"
    if dense:
        return graphs
    dispatcher = "fused" if config.get("moe_flex_dispatcher_backend") and not plain else "all_to_all"
    flags = ["yes" if config.get(name) else "no" for name in ("moe_a2a_overlap", "cutedsl_fused_grouped_mlp")]
    return " ".join((graphs, dispatcher, *flags))


def plain_functions(text: str) -> set[tuple[str, str]]:
    """Models and clusters whose functions set the dispatcher to all-to-alls, whatever the configuration names."""
    found = set()
    for node in ast.parse(text).body:
        match = isinstance(node, ast.FunctionDef) and re.fullmatch(r"(\w+)_pretrain_config_(\w+)", node.name)
        if match and 'moe_token_dispatcher_type = "alltoall"' in (ast.get_source_segment(text, node) or ""):
            found.add((match[1].upper(), match[2].upper()))
    return found


def of_release(checkout: str, tag: str) -> Iterator[tuple[str, str, str, str]]:
    """Model, cluster, precision and settings of each recipe of a release; of several sizes, of the largest."""
    files = shown(checkout, "ls-tree", "-r", "--name-only", tag, "scripts/performance/configs").split()
    known: dict[str, dict[str, Any]] = {}
    plain: set[tuple[str, str]] = set()
    for file in files:
        text = shown(checkout, "show", f"{tag}:{file}") if file.endswith(".py") else ""
        if file.endswith("workload_base_configs.py"):
            assigned(text, known)
        elif file.endswith("_pretrain.py"):
            plain |= plain_functions(text)
    newest: dict[tuple[str, str, str], tuple[int, str]] = {}
    for name, config in known.items():
        match = NAME.fullmatch(name)
        if match is None:
            continue
        model, cluster, precision, version = match.groups()
        told = settings(config, dense=MODELS[model] in DENSE, plain=(model, cluster) in plain)
        at = (MODELS[model], CLUSTERS[cluster], PRECISIONS[precision])
        newest[at] = max(newest.get(at, (-1, "")), (int(version or 0), told), key=lambda each: each[0])
    for (model, cluster, precision), (_, told) in sorted(newest.items()):
        yield model, cluster, precision, told


def first() -> Iterator[tuple[str, str, str, str]]:
    """The same of container 25.09."""
    for model, clusters, told in FIRST:
        for cluster in clusters:
            for precision in FIRST_ONLY.get((model, cluster), tuple(PRECISIONS.values())[:3]):
                yield model, cluster, precision, told


def main() -> None:
    """Writes the table."""
    if len(sys.argv) != 2:
        sys.exit("usage: make_recipes.py CHECKOUT")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    before: dict[tuple[str, str, str], str] = {}
    releases = [("25.09", first()), *((release, of_release(sys.argv[1], tag)) for release, tag in TAGS.items())]
    for release, recipes in releases:
        changed: dict[tuple[str, str, str], list[str]] = {}
        for model, cluster, precision, told in recipes:
            if before.get((model, cluster, precision)) != told:
                changed.setdefault((model, cluster, told), []).append(precision)
            before[model, cluster, precision] = told
        for (model, cluster, told), precisions in changed.items():
            cells = told.split()
            out.writerow([release, model, cluster, " ".join(precisions), *cells, *[""] * (4 - len(cells))])


if __name__ == "__main__":
    main()
