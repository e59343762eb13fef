"""The algorithms that a search fixes.

If a job names no algorithms, the quickest are chosen, which depend on rates, latencies, sizes and chunks. A prediction
adds up the demands of exchanges on dimensions, which is valid only for one choice of algorithms. So a search chooses
once for certain rates, and then measures, optimises and simulates with that choice.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.quantity import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.config.load import Loaded

Exchanges = tuple[str, str, int]
"""Group, kind and size in bytes of exchanges."""
Algorithms = dict[Exchanges, tuple[str, ...]]
"""The phases of a job's exchanges, such as ``ring reduce_scatter``, for which the job names no algorithms."""


def chosen(loaded: Loaded) -> Algorithms:
    """The algorithms that are chosen for a scenario: the phases of each exchange with a chosen phase."""
    plans: list[dict[str, Any]] = loaded.placing(lambda: json.loads(_core.show(json.dumps(loaded.resolved), "plan")))
    return {
        (plan["group"], plan["kind"], plan["bytes"]): tuple(
            f"{phase['algorithm']} {phase['kind']}" for phase in plan["phases"]
        )
        for plan in plans
        if any(phase["chosen"] for phase in plan["phases"])
    }


def entries(algorithms: Mapping[Exchanges, tuple[str, ...]]) -> list[dict[str, Any]]:
    """The algorithms in the form of `collectives.algorithms_of`."""
    return [
        {"group": group, "collective": kind, "bytes": f"{count}B", "phases": list(phases)}
        for (group, kind, count), phases in sorted(algorithms.items())
    ]


def described(algorithms: Mapping[Exchanges, tuple[str, ...]]) -> list[str]:
    """The algorithms in words, by group and kind: ``data all_reduce: ring reduce_scatter + ...``."""
    by_kind: defaultdict[tuple[str, str], dict[int, tuple[str, ...]]] = defaultdict(dict)
    for (group, kind, each), phases in algorithms.items():
        by_kind[group, kind][each] = phases
    found = []
    for (group, kind), sizes in sorted(by_kind.items()):
        runs: list[tuple[int, tuple[str, ...]]] = []
        for each, phases in sorted(sizes.items()):
            if runs and runs[-1][1] == phases:
                runs[-1] = each, phases
            else:
                runs.append((each, phases))
        for at, (most, phases) in enumerate(runs):
            bound = f" up to {size(most)}" if at + 1 < len(runs) else " above" if at else ""
            found.append(f"{group} {kind}{bound}: {' + '.join(phases)}")
    return found
