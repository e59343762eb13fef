"""Puts single options into the objects that hold them, for tests that vary options one by one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from syncline.hub import HubResources, Terms
from syncline.runtime import Meeting, Plans, Resources, Security, TimeLimits


def _grouped(options: dict[str, Any], **kinds: type[Any]) -> dict[str, Any]:
    made = {}
    for name, kind in kinds.items():
        own = {field.name: options.pop(field.name) for field in fields(kind) if field.name in options}
        if own:
            made[name] = kind(**own)
    return {**options, **made}


def of_rank(**options: Any) -> dict[str, Any]:
    """The arguments of ``Communicator.join``: ``of_rank(lanes=2)`` is ``{"resources": Resources(lanes=2)}``."""
    return _grouped(options, meeting=Meeting, security=Security, plans=Plans, resources=Resources, limits=TimeLimits)


def of_worker(**options: Any) -> dict[str, Any]:
    """The arguments of ``Hub.join`` and ``HubOptimizer``."""
    return _grouped(options, terms=Terms, security=Security, limits=TimeLimits)


def of_hub(**options: Any) -> dict[str, Any]:
    """The arguments of ``Service``."""
    return _grouped(options, security=Security, resources=HubResources)
