"""Resolves prices into a whole price list, with its source and year."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.config.prices import ChosenPrices, PriceList, Prices
from syncline.input import limits, yaml
from syncline.input.check import Whole, check
from syncline.input.problem import error, nearest, raise_errors, shown
from syncline.input.source import Source, read_file

if TYPE_CHECKING:
    from syncline.config.origin import Origins
    from syncline.input.node import Path

_FOLDER = files("syncline") / "data" / "prices"
"""Folder of the shipped price lists, one file each."""


@cache
def shipped() -> tuple[str, ...]:
    """Names of the shipped lists."""
    names = (each.name for each in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def price_list(name: str) -> dict[str, Any]:
    """A shipped price list in the resolved form. Raises :class:`SynclineError` for an unknown name."""
    return _shipped(name) if name in shipped() else _unknown(name)


def expand(prices: Prices, origins: Origins) -> dict[str, Any]:
    """The resolved price list."""
    match prices:
        case PriceList():
            return _own(_resolved(prices, "prices"))
        case ChosenPrices():
            listed = _found(prices.list_, ("prices", "list"), origins)
            resolved = dict(listed)
            changed = prices.model_dump(by_alias=True, exclude_unset=True)
            if changed.get("tiers"):
                resolved["own_tiers"] = sorted({*listed.get("own_tiers", ()), *changed["tiers"]})
            for key in ("components", "tiers"):
                entries = changed.get(key, {})
                resolved[key] = {**resolved[key], **entries}
                for name in entries:
                    origins.move(("prices", key, name), ("prices", key, name))
            if prices.direct is not None:
                resolved["direct"] = prices.direct
                origins.move(("prices", "direct"), ("prices", "direct"))
            if any(resolved[key] != listed[key] for key in ("components", "tiers")):
                resolved["name"] += ", changed"
            if resolved["direct"] != listed["direct"]:
                resolved["name"] += f", direct {resolved['direct']}"
            return resolved
        case name:
            return _found(name, ("prices",), origins)


def _found(name: str, at: Path, origins: Origins) -> dict[str, Any]:
    """The price list with this name, or in the file at this path; ``at`` is the scenario's key that gives it."""
    if name in shipped():
        origins.move(("prices",), at)
        return _shipped(name)
    if not (name.lower().endswith((".yaml", ".yml", ".json")) or "/" in name or "\\" in name):
        _unknown(name, at, origins)
    path = origins.source.relative(name)
    source = Source(yaml.read(read_file(path, limits.MAX_PRICE_FILE_BYTES), path), path)
    origins.move(("prices",), (), source)
    return _own(_resolved(check(source, PriceList, Whole("the price list")), FilePath(path).stem))


def _own(resolved: dict[str, Any]) -> dict[str, Any]:
    """A user's price list, marked so that the core notes tiers that fit no links of the fabric.

    Shipped lists are not marked, since they are for many fabrics.
    """
    return {**resolved, "own_tiers": sorted(resolved["tiers"])} if resolved["tiers"] else resolved


def _shipped(name: str) -> dict[str, Any]:
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return _resolved(check(Source(yaml.read(text, name)), PriceList, Whole("the price list")), name)


def _unknown(name: str, at: Path = (), origins: Origins | None = None) -> dict[str, Any]:
    raise_errors(
        error(
            Code.BAD_VALUE,
            "no price list with this name",
            mark=origins.source.mark(at) if origins else None,
            key=".".join(map(str, at)) or None,
            found=shown(name),
            allowed=", ".join(shipped()),
            nearest=nearest(name, shipped()),
            help="to use your own list, give the path of its file, such as prices.yaml",
        )
    )


def _resolved(prices: PriceList, name: str) -> dict[str, Any]:
    """The resolved form of a price list; components without a price are left out."""
    return {
        "name": prices.name or name,
        "source": prices.source,
        "year": prices.year,
        "currency": prices.currency,
        "direct": prices.direct,
        "components": prices.components.model_dump(by_alias=True, exclude_unset=True),
        "tiers": {
            tier: section if isinstance(section, str) else section.model_dump(by_alias=True, exclude_unset=True)
            for tier, section in prices.tiers.items()
        },
    }
