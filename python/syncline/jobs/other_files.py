"""Files that are no job files, but something else that users have: what to do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.schemas import SCENARIO

if TYPE_CHECKING:
    from syncline.input.source import Source


def refuse(source: Source) -> None:
    """Does nothing if a source can be a job file.

    :raises SynclineError: it is a model's configuration, a scenario, or a script.
    """
    found = _kind(source.root.to_python())
    if found is None:
        return
    what, help = found
    place = source.file or "FILE"
    raise_errors(
        error(
            Code.BAD_VALUE,
            f"this is {what}, and not a job file",
            mark=source.mark(()),
            help=help.format(place),
        )
    )


def _kind(values: Any) -> tuple[str, str] | None:
    """What a file is that is no job file, and what to do with it; None if it may be one."""
    if isinstance(values, str):
        return (
            "text",
            "if it is a script that starts Megatron-LM, `syncline convert megatron {}` makes a job file of it",
        )
    if not isinstance(values, dict) or "model" in values or "batch" in values:
        return None
    if "model_type" in values:
        return (
            "a model's configuration",
            "`syncline design parallel {} --gpus N` divides it; a job file names it as model",
        )
    if "workload" in values or values.get("schema") == SCENARIO:
        return "a scenario", "`syncline simulate {}` takes scenarios"
    return None
