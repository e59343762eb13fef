"""Turns the plans that a user selects into data for the core, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from syncline.input.problem import bad_value, shown
from syncline.plans import Plan
from syncline.runtime.racks import BY_RACK, by_rack, check, of_ranks
from syncline.runtime.settings import Network, Plans, Rule

MAX_BYTES = (1 << 63) - 1
"""Largest size in bytes."""
MAX_LANES, MAX_WINDOW = 4096, 4 << 20
"""Most lanes of a job, and the largest window of a rule: peers may send 16 of them ahead, and 64 MiB."""
PLAN_FILES = (".json", ".xml")
"""What the names of plan files and of MSCCL programs end in."""


def with_racks(plans: Plans, world: int) -> Plans:
    """Plans with the rack of each of ``world`` ranks as a list, read from the file if it is one.

    Raises ``SynclineError`` (SL0102) if a value of the plans has the wrong type or is out of range.
    """
    _check(plans)
    return plans if plans.racks is None else replace(plans, racks=of_ranks(plans.racks, world))


def for_core(plans: Plans, world: int) -> dict[str, Any]:
    """Returns plans, whose racks are a list, as data for the core, for ``world`` ranks."""
    of: Any = plans.racks
    if of is not None:
        if plans.order is not None:
            raise bad_value("the order of ranks is given twice", "order and racks", allowed="one of them")
        check(plans.rules, of)

    def rule_data(rule: Rule) -> dict[str, Any]:
        data: dict[str, Any] = {
            "kind": rule.kind,
            "above": rule.above,
            "up_to": rule.up_to,
            "message": rule.message,
        }
        # Few rules have them, and a change of plans sends all rules to all ranks.
        data |= {name: value for name in ("lanes", "window") if (value := getattr(rule, name)) is not None}
        own = own_plan(rule)
        if own is not None:
            return data | {"algorithm": own.name, "file": json.dumps(own.content)}
        # The core computes the group size, because only it knows which ranks take part.
        by = of is not None and by_rack(rule)
        return data | {"algorithm": BY_RACK if by else rule.algorithm, "by_rack": by}

    return {
        "rules": [rule_data(rule) for rule in plans.rules],
        "network": (plans.network or Network()).as_dict(),
        "order": list(range(world) if plans.order is None else plans.order),
        "racks": None if of is None else list(of),
    }


def own_plan(rule: Rule) -> Plan | None:
    """Returns the plan of a rule that has one of the user's own, read from its file if it is one.

    Raises ``SynclineError`` if the file cannot be read, or if the plan does not compute its collective.
    """
    algorithm = rule.algorithm
    if isinstance(algorithm, Plan):
        return algorithm
    if isinstance(algorithm, Path) or algorithm.endswith(PLAN_FILES):
        return Plan.load(algorithm)
    return None


def from_core(data: dict[str, Any]) -> Plans:
    """Returns plans from the form that :func:`for_core` gives them."""

    def rule(data: dict[str, Any]) -> Rule:
        file = data.get("file")
        algorithm = data["algorithm"] if file is None else Plan(json.loads(file))
        return Rule(
            data["kind"],
            algorithm,
            data["up_to"],
            data["message"],
            data["above"],
            data.get("lanes"),
            data.get("window"),
        )

    network = data["network"]
    return Plans(
        rules=[rule(each) for each in data["rules"]],
        network=Network(
            gbps=network["near_bytes_per_s"] / 125e6,
            far_gbps=network["far_bytes_per_s"] / 125e6,
            latency_us=network["latency_ns"] / 1000,
            message_us=network["message_ns"] / 1000,
            buffer=network["buffer"],
        ),
        order=None if data["racks"] is not None else data["order"],
        racks=data["racks"],
    )


def _check(plans: Any) -> None:
    """Raises ``SynclineError`` (SL0102) if a value of the plans has the wrong type or is out of range."""
    if not isinstance(plans, Plans):
        raise bad_value("these are not plans", shown(plans), allowed="syncline.runtime.Plans(...)")
    if plans.network is not None and not isinstance(plans.network, Network):
        raise bad_value("this is not a network", shown(plans.network), allowed="syncline.runtime.Network(...)")
    if isinstance(plans.rules, str) or not isinstance(plans.rules, Iterable):
        raise bad_value("these are not rules", shown(plans.rules), allowed="a list of syncline.runtime.Rule(...)")
    for rule in plans.rules:
        if not isinstance(rule, Rule):
            raise bad_value("this is not a rule", shown(rule), allowed="syncline.runtime.Rule(...)")
        if not isinstance(rule.algorithm, str | Path | Plan):
            allowed = "a name, the path of a plan file, or a syncline.plans.Plan"
            raise bad_value("this is not a plan", shown(rule.algorithm), allowed=allowed)
        for name, value, least, most, unit in (
            ("message", rule.message, 1, MAX_BYTES, " bytes"),
            ("up_to", rule.up_to, 0, MAX_BYTES, " bytes"),
            ("above", rule.above, 0, MAX_BYTES, " bytes"),
            ("lanes", rule.lanes, 1, MAX_LANES, ""),
            ("window", rule.window, 1, MAX_WINDOW, " bytes"),
        ):
            if value is not None and (not isinstance(value, int) or not least <= value <= most):
                allowed = f"{least}{unit} or more" if most == MAX_BYTES else f"{least} to {most:,}{unit}"
                raise bad_value(f"`{name}` of a rule is out of range", shown(value), allowed=allowed)
        if rule.up_to is not None and rule.up_to <= rule.above > 0:
            found = f"above {rule.above} and up to {rule.up_to} bytes"
            raise bad_value("a rule applies to no size", found, allowed="`up_to` larger than `above`")
