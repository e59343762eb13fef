"""Simulates, designs and runs the communication of distributed training.

>>> import syncline
>>> result = syncline.simulate("scenario.yaml", network="queued")  # doctest: +SKIP
>>> result.summary.step_time_s  # doctest: +SKIP

``simulate`` and ``check`` take a file, the folder of a run, or a mapping with the keys of a file; ``load`` reads one of
these, to look at it before it is simulated. They raise all errors together as one :class:`SynclineError`. ``compare``
explains why two runs differ; ``ensemble`` simulates a scenario with several seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.api import check, load, simulate
    from syncline.comparison.comparison import Comparison, compare
    from syncline.config.load import Loaded
    from syncline.ensembles import Ensemble, ensemble
    from syncline.errors import ExitStatus, Interrupted, SynclineError
    from syncline.result import Result
    from syncline.summary import Summary

__all__ = [
    "Comparison",
    "Ensemble",
    "ExitStatus",
    "Interrupted",
    "Loaded",
    "Result",
    "Summary",
    "SynclineError",
    "__build__",
    "__version__",
    "check",
    "compare",
    "ensemble",
    "load",
    "simulate",
]

_get = lazy(
    __name__,
    {
        "simulate": "syncline.api.simulate",
        "check": "syncline.api.check",
        "load": "syncline.api.load",
        "Loaded": "syncline.config.load.Loaded",
        "compare": "syncline.comparison.comparison.compare",
        "Comparison": "syncline.comparison.comparison.Comparison",
        "Ensemble": "syncline.ensembles.runs.Ensemble",
        "ensemble": "syncline.ensembles.runs.ensemble",
        "ExitStatus": "syncline.errors.ExitStatus",
        "Interrupted": "syncline.errors.Interrupted",
        "Result": "syncline.result.Result",
        "SynclineError": "syncline.errors.SynclineError",
        "Summary": "syncline.summary.Summary",
    },
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from syncline import _core

        return _core.version()
    if name == "__build__":
        from syncline.api import build

        return build()
    return _get(name)


def __dir__() -> list[str]:
    return sorted(__all__)
