"""Groups of parameters as ``torch.optim`` names their settings, and as a hub is told them."""

from __future__ import annotations

import difflib
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from syncline.hub import Adam, Sgd
from syncline.runtime.memory import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = {"beta1": ("betas", 0), "beta2": ("betas", 1), "decoupled": ("decoupled_weight_decay", None)}
"""Settings that PyTorch calls otherwise: the name, and which of a pair it is."""

ABSENT = ("amsgrad", "maximize", "differentiable")
"""Settings of PyTorch that hubs do not have."""

NEAR = 0.85
"""How much alike two names are of which one is taken for the other, mistyped."""


def defaults(optimizer: Sgd | Adam) -> dict[str, Any]:
    """The settings of an optimizer, by their names in PyTorch.

    Raises ``SynclineError`` for something that is no optimizer of a hub.
    """
    if not isinstance(optimizer, Sgd | Adam):
        raise refusal("this is no optimizer of a hub", type(optimizer).__name__, "syncline.hub.Sgd, syncline.hub.Adam")
    found: dict[str, Any] = {}
    for name, value in asdict(optimizer).items():
        known, place = NAMES.get(name, (name, None))
        found[known] = value if place is None else (*found.get(known, ()), value)
    return found


def chosen(optimizer: Sgd | Adam, group: Mapping[str, Any]) -> Sgd | Adam:
    """The optimizer of a group, which may have settings of its own.

    Raises ``SynclineError`` for settings that the optimizer has not.
    """
    known = defaults(optimizer)
    for name, value in group.items():
        mistyped = name not in known and difflib.get_close_matches(name, known, 1, NEAR)
        if mistyped or (name in ABSENT and value):
            allowed = f"did you mean `{mistyped[0]}`?" if mistyped else ", ".join(known)
            raise refusal("a group of parameters has no such setting", f"`{name}`", allowed)
    settings: dict[str, Any] = {}
    for name in asdict(optimizer):
        of, place = NAMES.get(name, (name, None))
        value = group[of] if place is None else group[of][place]
        settings[name] = bool(value) if isinstance(value, bool) else float(value)
    return replace(optimizer, **settings)


def check(groups: Sequence[Mapping[str, Any]], told: Sequence[Sgd | Adam]) -> None:
    """That groups have the settings that the hubs were told, but for learning rates.

    Raises ``SynclineError`` where they do not.
    """
    for number, (group, known) in enumerate(zip(groups, told, strict=True)):
        now = chosen(known, group)
        if replace(now, lr=known.lr) == known:
            continue
        different = [name for name, value in asdict(known).items() if name != "lr" and getattr(now, name) != value]
        found = ", ".join(f"`{name}` from {getattr(known, name)} to {getattr(now, name)}" for name in different)
        raise refusal(f"settings of group {number} changed that hubs keep for a whole job", found, "another `lr`")
