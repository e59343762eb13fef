"""The search for strategy and topology: its speed, and how far its answers are from the best and from simulations.

Usage: joint.py. Prints each measurement beside its limit. Times are those of whole commands, on two processors
if there are two; numbers of proposals are those of one chain, which uses one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from requirement import outcome

MODELS = ("dlrm", "candle", "bert", "ncf", "vgg16", "resnet50")


def row(what: str, found: str, allowed: str, *, reached: bool) -> bool:
    """Prints one case; returns whether it is as allowed."""
    sys.stdout.write(f"{what:58} {found:>12}   {allowed:>12}   {outcome(reached=reached)}\n")
    sys.stdout.flush()
    return reached


def ask(model: str, servers: int, degree: int, *, simulated: bool = False, **more: Any) -> tuple[float, dict[str, Any]]:
    """Seconds of a search with links of 100 Gb/s, and its answer."""
    with tempfile.TemporaryDirectory() as folder:
        spec = {"model": model, "servers": servers, "degree": degree, "link": "100Gb/s", **more}
        (Path(folder) / "spec.yaml").write_text(json.dumps(spec), "utf-8")
        command = [sys.executable, "-m", "syncline", "design", "joint", "spec.yaml", "--json", "--out", "out"]
        command += [] if simulated else ["--no-simulate"]
        start = time.perf_counter()
        process = subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own command
        return time.perf_counter() - start, json.loads(process.stdout)["design"]


def proposals() -> list[bool]:
    """Proposals a second, with the choice of topologies."""
    outcomes = []
    for model, least in (("bert", 2000), ("dlrm", 500)):
        took, answer = ask(model, 128, 4, search={"proposals": 32000, "chains": 1}, compare=[])
        rate = answer["proposals"] / took
        outcomes.append(
            row(f"proposals for {model} on 128 servers", f"{rate:,.0f}/s", f"{least:,}/s", reached=rate >= least)
        )
    return outcomes


def gap() -> list[bool]:
    """The search against all strategies on the topology for data parallelism, on 8 servers."""
    small = {"tables": 2, "entries": 1000, "bottom_layers": 1, "top_layers": 2}
    worst = 0.0
    for link in ("1Gb/s", "10Gb/s", "100Gb/s"):
        same = {"parameters": small, "compare": [], "link": link}
        _, best = ask("dlrm", 8, 3, search={"method": "exhaustive"}, **same)
        _, found = ask("dlrm", 8, 3, **same)
        worst = max(worst, found["step_s"] / best["step_s"] - 1)
    return [row("the search above the best of all strategies, 8 servers", f"{worst:.2%}", "2 %", reached=worst <= 0.02)]


def searches() -> list[bool]:
    """Whole searches, with both networks to compare with."""
    outcomes, total = [], 0.0
    for model in MODELS:
        took, _ = ask(model, 128, 4)
        total += took
        if model == "dlrm":
            outcomes.append(row("the search for dlrm on 128 servers", f"{took:.1f} s", "60 s", reached=took <= 60))
    outcomes.append(row("the searches for all six models", f"{total:.0f} s", "600 s", reached=total <= 600))
    _, answer = ask("dlrm", 128, 4, simulated=True)
    apart = abs(answer["simulated_s"] / answer["step_s"] - 1)
    outcomes.append(row("a prediction for dlrm beside network flow", f"{apart:.2%}", "5 %", reached=apart <= 0.05))
    return outcomes


def main() -> int:
    """Runs all cases; 1 if any does not hold."""
    sys.stdout.write(f"{'':58} {'found':>12}   {'allowed':>12}\n")
    outcomes = [*proposals(), *gap(), *searches()]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
