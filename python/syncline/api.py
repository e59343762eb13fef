"""The Python API. The command line is a thin layer over it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from syncline import _core
from syncline.codes import Code
from syncline.config.load import Loaded
from syncline.config.load import load as read
from syncline.errors import Diagnostic, Interrupted
from syncline.input.problem import error, raise_errors
from syncline.input.source import Override
from syncline.result import Result

Given = str | Path | Mapping[str, Any]
"""A file, the folder of a run, or a mapping with the keys of a file."""
Progress = Callable[[float, int, int, float], object]
"""A callback: gets simulated seconds, events, messages, and the fraction of tasks done."""


def simulate(
    scenario: Given | Loaded | None = None,
    /,
    *,
    set: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **sections: Any,
) -> Result:
    """Simulates a scenario.

    ``sections`` replace those of the scenario, or make up a scenario if none is given: ``workload``, ``jobs``,
    ``fabric``, ``compute``, ``collectives``, ``network``, ``placement``, ``limits``, ``trace``, ``seed``, ``name``.
    ``set`` changes single values: ``{"fabric.dims.2.rate": "50GB/s"}``. A scenario that was loaded by :func:`load` is
    simulated as it is.

    Raises :class:`SynclineError` with all errors, and :class:`Interrupted` on Ctrl-C. Other threads keep running during
    the simulation.
    """
    return run(prepare(scenario, set, sections), progress)


def check(
    scenario: Given | Loaded | None = None,
    /,
    *,
    set: Mapping[str, Any] | None = None,
    **sections: Any,
) -> list[Diagnostic]:
    """Returns the errors and warnings of a scenario that can be found without simulating it.

    Raises :class:`SynclineError` if the scenario cannot be read or resolved.
    """
    return prepare(scenario, set, sections).check()


def load(
    scenario: Given | None = None,
    /,
    *,
    set: Mapping[str, Any] | None = None,
    **sections: Any,
) -> Loaded:
    """Reads, checks and resolves a scenario, without simulating it. Arguments are those of :func:`simulate`.

    Raises :class:`SynclineError` with all errors.
    """
    return prepare(scenario, set, sections)


@cache
def build() -> str:
    """Identifies the build of the compiled core, by its hash: two builds of one version may differ."""
    return hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()


def prepare(scenario: Given | Loaded | None, changes: Mapping[str, Any] | None, sections: Mapping[str, Any]) -> Loaded:
    """Reads, checks and resolves the arguments of :func:`simulate`."""
    changes = {} if changes is None else changes
    if not isinstance(changes, Mapping) or not all(isinstance(key, str) for key in changes):
        allowed = 'a mapping from paths to values, such as {"fabric.dims.2.rate": "50GB/s"}'
        raise_errors(error(Code.BAD_VALUE, "wrong type for `set`", found=type(changes).__name__, allowed=allowed))
    overrides = [Override.of(key, value) for key, value in sections.items()]
    overrides += [Override.of(key, value) for key, value in changes.items()]
    if isinstance(scenario, Loaded):
        if overrides:
            message = "this scenario is loaded already, and cannot be changed"
            raise_errors(error(Code.BAD_VALUE, message, found=overrides[0].path, help="give the changes to `load`"))
        return scenario
    return read({} if scenario is None else scenario, overrides)


def run(loaded: Loaded, progress: Progress | None = None, warn: Callable[[str], object] | None = None) -> Result:
    """Simulates a loaded scenario. ``warn`` gets the warnings that are known before the first event, as JSON.

    Raises :class:`SynclineError` on an error, and :class:`Interrupted` on Ctrl-C.
    """
    finished = loaded.call(_core.simulate, progress, monotonic() - loaded.started, warn)
    result = Result(finished, loaded.resolved)
    if finished.interrupted:
        raise Interrupted(result)
    return result
