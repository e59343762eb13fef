"""Groups layers: a model of hundreds of layers has a few kinds of layers in many blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FEW = 96
"""Maximum number of layers that are drawn without groups."""

_BLOCK = re.compile(r"(?P<block>.*?\d+)\.(?P<rest>.+)")
"""A layer in a numbered block, such as ``block12.mlp1`` or ``layers.12.attention.query``."""


class Group(NamedTuple):
    """Layers that share a bar."""

    name: str
    rows: list[int]
    """Rows of the table of layers, in its order."""


class View(NamedTuple):
    """One way to group all layers."""

    name: str
    """What a bar is: ``block``, ``kind of layer``, ``layer``."""
    groups: list[Group]


def views(layers: Sequence[str], stages: Mapping[str, str] | None = None) -> list[View]:
    """The ways to group layers, the default one first. Every layer is in exactly one group of each view.

    If there are few layers, or no numbered blocks, the only view has a group for each layer. ``stages`` maps layers to
    the names of their stages; a layer that it lacks is its own group.
    """
    alone = View("layer", [Group(name, [row]) for row, name in enumerate(layers)])
    blocks = _grouped(layers, block_of)
    if len(layers) <= FEW or 3 * len(blocks) > 2 * len(layers):
        return [alone]
    kinds = _grouped(layers, kind_of)
    found = [View("block", blocks)]
    if stages:
        found.append(View("stage", _grouped(layers, lambda layer: stages.get(layer, layer))))
    if len(kinds) < len(blocks):
        found.append(View("kind of layer", kinds))
    return [*found, alone]


def boundaries(view: View, layers: Sequence[str], stages: Mapping[str, str]) -> list[tuple[int, str]]:
    """The first bar of each stage, and the stage's name; empty for views that are not in the order of the model."""
    found: list[tuple[int, str]] = []
    if view.name not in ("block", "layer"):
        return found
    for bar, group in enumerate(view.groups):
        stage = stages.get(layers[group.rows[0]])
        if stage is not None and (not found or found[-1][1] != stage):
            found.append((bar, stage))
    return found


def block_of(layer: str) -> str:
    """``block12`` for ``block12.mlp1``; a layer without a block is its own block."""
    found = _BLOCK.fullmatch(layer)
    return found["block"] if found else layer


def kind_of(layer: str) -> str:
    """``mlp1`` for ``block12.mlp1``; a layer without a block is its own kind."""
    found = _BLOCK.fullmatch(layer)
    return found["rest"] if found else layer


def of_all_blocks(layer: str) -> str:
    """``block*.mlp1`` for ``block12.mlp1``; a layer without a block is its own kind."""
    found = _BLOCK.fullmatch(layer)
    return f"{re.sub(r'[0-9]+', '*', found['block'])}.{found['rest']}" if found else layer


def kinds(layers: Sequence[str]) -> list[list[int]]:
    """The rows of each kind of layer, over all blocks."""
    return [group.rows for group in _grouped(layers, of_all_blocks)]


def counted_kind(layers: Sequence[str]) -> str:
    """The label of layers of one kind: ``embedding``, ``block*.mlp1 (80 layers)``."""
    return layers[0] if len(layers) == 1 else f"{of_all_blocks(layers[0])} ({len(layers)} layers)"


def _grouped(layers: Sequence[str], of: Callable[[str], str]) -> list[Group]:
    groups: dict[str, list[int]] = {}
    for row, layer in enumerate(layers):
        groups.setdefault(of(layer), []).append(row)
    return [Group(name, rows) for name, rows in groups.items()]
