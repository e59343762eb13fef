"""The search for strategy and topology: its speed, and how far its answers are from the best and from simulations.

Usage: joint.py. Prints what each case took beside what it may take. Topologies and proposals are timed on one thread.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from syncline import _core
from syncline.design.joint import search
from syncline.design.joint.answer import simulate
from syncline.design.joint.request import Request
from syncline.design.joint.spec import Joint
from syncline.input.node import from_python
from syncline.input.source import Source

MODELS = ("dlrm", "candle", "bert", "ncf", "vgg16", "resnet50")


def asked(model: str, servers: int, degree: int, **more: Any) -> Request:
    """A request for a model with links of 100 Gb/s."""
    spec = {"model": model, "servers": servers, "degree": degree, "link": "100Gb/s", **more}
    return Request(Joint.model_validate(spec), Source(from_python(spec)))


def row(what: str, found: str, allowed: str, *, holds: bool) -> bool:
    """Prints one case; returns whether it holds."""
    sys.stdout.write(f"{what:58} {found:>16}   {allowed:>16}   {'' if holds else 'DOES NOT HOLD'}\n")
    sys.stdout.flush()
    return holds


def timed(request: Request, method: Any) -> tuple[float, dict[str, Any]]:
    """Seconds of a search on direct links with one thread, and its answer."""
    text = request.text(request.direct(), method)
    start = time.perf_counter()
    answer = json.loads(_core.search_jointly(text, threads=1))
    return time.perf_counter() - start, answer


def topologies() -> list[bool]:
    """TopologyFinder for data parallelism on 1,024 servers with 8 interfaces."""
    request = asked("dlrm", 1024, 8)
    last = [len(operator["choices"]) - 1 for operator in request.graph["operators"]]
    everywhere = list(range(1024))
    strategy = [{"choice": choice, "servers": everywhere if choice else [16 * at]} for at, choice in enumerate(last)]
    took, _ = timed(request, {"given": strategy})
    return [row("a topology for DLRM on 1,024 servers, degree 8", f"{took:.2f} s", "2 s", holds=took <= 2)]


def proposals() -> list[bool]:
    """Proposals a second, with the choice of topologies."""
    held = []
    for model, least in (("bert", 2000), ("dlrm", 500)):
        chains = {"proposals": 4000, "chains": 1, "seed": 1, "patience": 50}
        took, answer = timed(asked(model, 128, 4), {"chains": chains})
        rate = answer["proposals"] / took
        what = f"proposals for {model} on 128 servers"
        held.append(row(what, f"{rate:,.0f}/s", f"{least:,}/s", holds=rate >= least))
    return held


def searches() -> list[bool]:
    """Whole searches, with both networks to compare with."""
    held, total = [], 0.0
    for model in MODELS:
        start = time.perf_counter()
        found = search(asked(model, 128, 4))
        took = time.perf_counter() - start
        total += took
        if model == "dlrm":
            held.append(row("the search for dlrm on 128 servers", f"{took:.1f} s", "60 s", holds=took <= 60))
            simulate(found)
            apart = abs(found.simulated_s / found.answer.step_s - 1)
            held.append(row("  its prediction beside network flow", f"{apart:.2%}", "5 %", holds=apart <= 0.05))
    held.append(row("the searches for all six models", f"{total:.0f} s", "600 s", holds=total <= 600))
    return held


def gap() -> list[bool]:
    """The search against all strategies, for a few operators on 8 servers."""
    small = {"tables": 2, "entries": 1000, "bottom_layers": 1, "top_layers": 2}
    worst = 0.0
    for link in ("1Gb/s", "10Gb/s", "100Gb/s"):
        request = asked("dlrm", 8, 3, parameters=small)
        cluster = {"fabric": {"built": {"network": {"switch": {"hosts": 8, "rate": link, "latency": "1us"}}}}}
        best = json.loads(_core.search_jointly(request.text(cluster, "exhaustive"), threads=1))
        found = json.loads(_core.search_jointly(request.text(cluster, request.method()), threads=1))
        worst = max(worst, found["step_s"] / best["step_s"] - 1)
    return [row("the search above the best of all strategies, 8 servers", f"{worst:.2%}", "2 %", holds=worst <= 0.02)]


def main() -> int:
    """Runs all cases; 1 if any does not hold."""
    sys.stdout.write(f"{'':58} {'found':>16}   {'allowed':>16}\n")
    held = [*topologies(), *proposals(), *gap(), *searches()]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
