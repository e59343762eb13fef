"""Turns the plans that a user selects into data for the core."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from syncline.input.problem import bad_value
from syncline.runtime.racks import BY_RACK, by_rack, check, of_ranks
from syncline.runtime.settings import Network

if TYPE_CHECKING:
    from syncline.runtime.settings import Plans, Rule


def with_racks(plans: Plans, world: int) -> Plans:
    """Plans with the rack of each of ``world`` ranks as a list, read from the file if it is one."""
    return plans if plans.racks is None else replace(plans, racks=of_ranks(plans.racks, world))


def for_core(plans: Plans, world: int) -> dict[str, Any]:
    """Returns plans, whose racks are a list, as data for the core, for ``world`` ranks."""
    of: Any = plans.racks
    if of is not None:
        if plans.order is not None:
            raise bad_value("the order of ranks is given twice", "order and racks", allowed="one of them")
        check(plans.rules, of)

    def rule_data(rule: Rule) -> dict[str, Any]:
        # The core computes the group size, because only it knows which ranks take part.
        named = {"algorithm": BY_RACK, "by_rack": True} if of is not None and by_rack(rule) else {}
        return asdict(rule) | named

    return {
        "rules": [rule_data(rule) for rule in plans.rules],
        "network": (plans.network or Network()).as_dict(),
        "order": list(range(world) if plans.order is None else plans.order),
        "racks": None if of is None else list(of),
    }
