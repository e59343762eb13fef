"""Strategies that `syncline design joint` finds beside those that FlexNet found, both timed packet by packet.

Usage: released_strategies.py [FOLDER]. FOLDER has the ``taskgraphs`` and ``measures`` of TopoOpt's repository; if it is
missing, the bench says so. Both sides run on the network that the released graphs are for: a switch with 100 Gb/s for
each server. Operators take the times that FlexNet's profiler measured on an A100, on both sides.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from requirement import outcome

import syncline
from syncline.design import joint

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "topoopt"
CASES: dict[str, tuple[str, int, str, dict[str, int]]] = {
    "candle_16": ("candle", 16, "candle16.json", {"feature_width": 4096, "width": 4096}),
    "dlrm_16": ("dlrm", 16, "dlrm16.json", {"tables": 16, "embedding": 256, "bottom": 1024, "top": 2048, "batch": 256}),
    "transformer_16": ("bert", 16, "transformer16.json", {"hidden": 768, "heads": 12, "blocks": 6, "sequence": 256}),
    "dlrm_128": ("dlrm", 128, "dlrm128.json", {}),
}
"""Graphs: model, servers, table of measured times, and parameters. vgg_16 is left out: its table gives all convolutions
of a width one time, whatever their input."""


def switch(servers: int) -> dict[str, Any]:
    """The network of the released graphs."""
    return {"switch": {"hosts": servers, "rate": "100Gb/s", "latency": "1us"}}


def step(scenario: dict[str, Any], folder: Path) -> float:
    """Seconds of a step, packet by packet."""
    path = folder / "scenario.yaml"
    path.write_text(json.dumps({**scenario, "network": "packet"}), "utf-8")
    return syncline.simulate(path, set={"report": False}).summary.total_time_s


def released(graph: Path, servers: int, folder: Path) -> float:
    """Seconds of a step of a released strategy."""
    return step({"workload": {"flexnet": str(graph)}, "fabric": switch(servers)}, folder)


def found(model: str, servers: int, table: Path, parameters: dict[str, int], folder: Path) -> float:
    """Seconds of a step of the strategy that is found for the same network."""
    spec = {
        "model": model,
        "parameters": parameters,
        "servers": servers,
        "degree": 1,
        "link": "100Gb/s",
        "compare": ["ideal"],
        "measured": str(table),
    }
    result = joint.search(joint.read(spec))
    (ideal,) = result.others
    operators = joint.operators_of(result, ideal.answer)
    (folder / "operators.json").write_text(json.dumps(operators), "utf-8")
    # As the search assumes, and as FlexNet did: an all-reduce is not cut into chunks.
    return step(
        {
            "workload": {"operators": "operators.json"},
            "compute": "given",
            "fabric": switch(servers),
            "collectives": {"chunks": 1},
        },
        folder,
    )


def main() -> int:
    """Compares all graphs; 1 if a released strategy is faster."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    if not (folder / "taskgraphs").is_dir():
        sys.stdout.write(f"no task graphs in {folder}: give the folder of TopoOpt's taskgraphs and measures\n")
        return 0
    sys.stdout.write(f"{'':20} {'released':>12} {'found':>12} {'':>8}\n")
    all_reached = True
    for name, (model, servers, table, parameters) in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            theirs = released(folder / "taskgraphs" / f"fattree100G_{name}.fbuf", servers, Path(work))
            ours = found(model, servers, folder / "measures" / table, parameters, Path(work))
        reached = ours <= theirs
        all_reached = all_reached and reached
        word = outcome(reached=reached)
        sys.stdout.write(f"{name:20} {theirs * 1e3:>9.2f} ms {ours * 1e3:>9.2f} ms {theirs / ours:>7.3f}x {word}\n")
        sys.stdout.flush()
    return 0 if all_reached else 1


if __name__ == "__main__":
    sys.exit(main())
