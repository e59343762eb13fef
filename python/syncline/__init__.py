"""The communication of distributed training: simulated, designed and run.

>>> import syncline
>>> result = syncline.simulate("scenario.yaml", network="queued")  # doctest: +SKIP
>>> result.summary.step_time_s  # doctest: +SKIP

``simulate`` and ``check`` take a file, the folder of a run, or a mapping with the keys of a file. They raise all errors
together as one :class:`SynclineError`. ``compare`` explains why two runs differ; ``ensemble`` simulates a scenario with
several seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline.api import check, simulate
    from syncline.comparison.comparison import Comparison, compare
    from syncline.ensembles import Ensemble, ensemble
    from syncline.errors import Interrupted, SynclineError
    from syncline.result import Result
    from syncline.summary import Summary

__all__ = [
    "Comparison",
    "Ensemble",
    "Interrupted",
    "Result",
    "Summary",
    "SynclineError",
    "__version__",
    "check",
    "compare",
    "ensemble",
    "simulate",
]

_LAZY = {
    "simulate": "syncline.api",
    "check": "syncline.api",
    "compare": "syncline.comparison.comparison",
    "Comparison": "syncline.comparison.comparison",
    "Ensemble": "syncline.ensembles.runs",
    "ensemble": "syncline.ensembles.runs",
    "Interrupted": "syncline.errors",
    "Result": "syncline.result",
    "SynclineError": "syncline.errors",
    "Summary": "syncline.summary",
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used, since the modules are slow to import."""
    from importlib import import_module

    if name == "__version__":
        from syncline import _core

        return _core.version()
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'syncline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
