"""Layers in groups: a model of hundreds of layers is a few kinds of them in many blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FEW = 96
"""So many layers are drawn one by one."""

_BLOCK = re.compile(r"(?P<block>.*?\d+)\.(?P<rest>.+)")
"""``block12.mlp1``, ``layers.12.attention.query``."""


class Group(NamedTuple):
    """Layers that share a bar."""

    name: str
    rows: list[int]
    """Of the table of layers, in its order."""


class View(NamedTuple):
    """One way to group all layers."""

    name: str
    """What a bar is: ``block``, ``kind of layer``, ``layer``."""
    groups: list[Group]


def views(layers: Sequence[str], stages: Mapping[str, str] | None = None) -> list[View]:
    """The ways to group layers, the one to show first at the front. Every layer is in one group of each.

    Few layers, and layers without numbered blocks, have one view: themselves. ``stages`` are the names of the layers'
    stages; layers that are in none by it are groups of their own.
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
    """Where in a view that is in the order of the model stages begin: the first bar of each, and its name."""
    found: list[tuple[int, str]] = []
    if view.name not in ("block", "layer"):
        return found
    for bar, group in enumerate(view.groups):
        stage = stages.get(layers[group.rows[0]])
        if stage is not None and (not found or found[-1][1] != stage):
            found.append((bar, stage))
    return found


def block_of(layer: str) -> str:
    """``block12`` of ``block12.mlp1``; a layer without a block is one itself."""
    found = _BLOCK.fullmatch(layer)
    return found["block"] if found else layer


def kind_of(layer: str) -> str:
    """``mlp1`` of ``block12.mlp1``; a layer without a block is a kind of its own."""
    found = _BLOCK.fullmatch(layer)
    return found["rest"] if found else layer


def of_all_blocks(layer: str) -> str:
    """``block*.mlp1`` of ``block12.mlp1``; a layer without a block is a kind of its own."""
    found = _BLOCK.fullmatch(layer)
    return f"{re.sub(r'[0-9]+', '*', found['block'])}.{found['rest']}" if found else layer


def kinds(layers: Sequence[str]) -> list[list[int]]:
    """The rows of each kind of layer, those of all blocks together."""
    return [group.rows for group in _grouped(layers, of_all_blocks)]


def counted_kind(layers: Sequence[str]) -> str:
    """What layers of one kind are called: ``embedding``, ``block*.mlp1 (80 layers)``."""
    return layers[0] if len(layers) == 1 else f"{of_all_blocks(layers[0])} ({len(layers)} layers)"


def _grouped(layers: Sequence[str], of: Callable[[str], str]) -> list[Group]:
    groups: dict[str, list[int]] = {}
    for row, layer in enumerate(layers):
        groups.setdefault(of(layer), []).append(row)
    return [Group(name, rows) for name, rows in groups.items()]
