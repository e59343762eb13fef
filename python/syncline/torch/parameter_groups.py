"""Converts settings of parameter groups between the names of ``torch.optim`` and those of a hub."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from syncline.hub import Adam, Sgd
from syncline.input.problem import bad_value, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = {"beta1": ("betas", 0), "beta2": ("betas", 1), "decoupled": ("decoupled_weight_decay", None)}
"""Settings that PyTorch names differently: PyTorch's name, and the index if the setting is part of a pair."""

ABSENT = ("amsgrad", "maximize", "differentiable")
"""Settings of PyTorch that hubs do not have."""

LIKENESS = 0.85
"""Names at least this similar count as mistyped; others are settings of the caller's own."""


def defaults(optimizer: Sgd | Adam) -> dict[str, Any]:
    """Returns the settings of an optimizer by their names in PyTorch.

    Raises ``SynclineError`` if ``optimizer`` is not an optimizer of a hub.
    """
    if not isinstance(optimizer, Sgd | Adam):
        found_type, allowed = type(optimizer).__name__, "syncline.hub.Sgd, syncline.hub.Adam"
        raise bad_value("this is not an optimizer of a hub", found_type, allowed=allowed)
    found: dict[str, Any] = {}
    for name, value in asdict(optimizer).items():
        known, place = NAMES.get(name, (name, None))
        found[known] = value if place is None else (*found.get(known, ()), value)
    return found


def chosen(optimizer: Sgd | Adam, group: Mapping[str, Any]) -> Sgd | Adam:
    """Returns the optimizer of a group, with the group's own settings where it has any.

    Raises ``SynclineError`` for a setting that the optimizer does not have.
    """
    known = defaults(optimizer)
    for name, value in group.items():
        mistyped = None if name in known else nearest(name, known, likeness=LIKENESS)
        if mistyped or (name in ABSENT and value):
            allowed = None if mistyped else ", ".join(known)
            message = "a group of parameters has no such setting"
            raise bad_value(message, name, allowed=allowed, nearest=mistyped)
    settings: dict[str, Any] = {}
    for name in asdict(optimizer):
        of, place = NAMES.get(name, (name, None))
        value = group[of] if place is None else group[of][place]
        settings[name] = bool(value) if isinstance(value, bool) else float(value)
    return replace(optimizer, **settings)


def check(groups: Sequence[Mapping[str, Any]], sent: Sequence[Sgd | Adam]) -> None:
    """Checks that settings of groups have not changed since the hubs got them; learning rates may change.

    Raises ``SynclineError`` if one has.
    """
    for number, (group, known) in enumerate(zip(groups, sent, strict=True)):
        now = chosen(known, group)
        if replace(now, lr=known.lr) == known:
            continue
        different = [name for name, value in asdict(known).items() if name != "lr" and getattr(now, name) != value]
        found = ", ".join(f"`{name}` from {getattr(known, name)} to {getattr(now, name)}" for name in different)
        raise bad_value(
            f"group {number} changed settings that are fixed for the whole job", found, allowed="another `lr`"
        )
