"""The networks that a topology of direct links is compared with, and what each costs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.design.joint.optical_switches import known_switches
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from syncline.design.joint.request import JointRequest
    from syncline.design.joint.spec import Joint

_PRICED_GBPS = (10, 25, 40, 100, 200, 400, 800, 1600, 3200, 6400, 12800)
"""Rates in Gb/s at which fat-trees are priced; prices in between are interpolated."""
_PERIOD = 5
"""Pauses from one measurement of the demand to the next: 50 ms with 10 ms (topoopt2022 5.1)."""
_SIP_ML_PAUSE_PS = 25_000_000
"""SiP-ML changes its circuits in 25 us (topoopt2022 5.1)."""


@dataclass(frozen=True)
class Baseline:
    """A network with one interface for each server, or of direct links at random."""

    name: str
    """Name in the spec."""
    title: str
    """Name for people."""
    rate: int
    """Rate of a server's interface, in bits per second."""
    fabric: dict[str, Any] | None
    """The fabric in the core's form, each NPU a server; None for circuits that change."""
    usd: float | None
    """Its price; None if its parts have none."""
    circuits: dict[str, Any] | None = None
    """Circuits that change during the step, in the core's form."""


def direct_usd(request: JointRequest) -> float:
    """Price of the direct links of all servers.

    Every interface of a server sends to one interface and receives from one, so the servers have as many parts as if
    they were joined in pairs.
    """
    return _direct_usd(request.spec, request.prices)


def _direct_usd(spec: Joint, prices: dict[str, Any]) -> float:
    links = [
        {"from": one, "to": 1 - one, "rate": spec.link, "latency": spec.latency}
        for _ in range(spec.degree)
        for one in (0, 1)
    ]
    return _usd({"graph": {"npus": 2, "links": links}}, prices) / 2 * spec.servers


def baselines_of(request: JointRequest) -> list[Baseline]:
    """The networks of the spec's ``compare``. Raises ``SynclineError`` if a price is missing."""
    return [_baseline(request, name) for name in dict.fromkeys(request.spec.compare)]


def _baseline(request: JointRequest, name: str) -> Baseline:
    spec = request.spec
    servers, total_rate = spec.servers, spec.degree * _core.parse_quantity("rate", spec.link)
    if name == "ideal":
        return _switch(request, name, "ideal switch", total_rate)
    if name == "same_price":
        return _switch(request, name, "fat-tree, same price", _affordable(request))
    if name == "oversubscribed":
        hosts = max(by for by in range(1, 17) if servers % by == 0 and (by < servers or servers == 1))
        if hosts == 1:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "no racks of equal size hold this number of servers",
                    mark=request.source.mark(("compare",)),
                    key="compare",
                    found=f"{servers} servers",
                    help="leave out `oversubscribed`, or take a number of servers that is not a prime",
                )
            )
        leaves = {
            "leaves": servers // hosts,
            "hosts_per_leaf": hosts,
            "spines": 1,
            "rate": f"{total_rate}b/s",
            "uplink_rate": f"{max(total_rate * hosts // 2, 1)}b/s",
            "latency": spec.latency,
        }
        fabric = {"built": {"network": {"leaf_spine": leaves}}}
        return Baseline(
            name, "2:1 oversubscribed", total_rate, fabric, _fat_tree_usd(request, total_rate, oversubscription=2)
        )
    if name == "reconfigured":
        return _reconfigured(request, total_rate)
    if name == "sip_ml":
        circuits = _circuits(request, _SIP_ML_PAUSE_PS, _PERIOD * _SIP_ML_PAUSE_PS, "none")
        return Baseline(name, "SiP-ML", total_rate, None, None, circuits)
    if servers * spec.degree % 2:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "an expander needs an even number of interfaces",
                mark=request.source.mark(("compare",)),
                key="compare",
                found=f"{servers} servers with {spec.degree} each",
                help="leave out `expander`, or take an even number of servers",
            )
        )
    expander = {"hosts": servers, "degree": spec.degree, "rate": spec.link, "latency": spec.latency}
    fabric = {"built": {"network": {"expander": {**expander, "seed": spec.search.seed}}}}
    return Baseline(name, "expander", total_rate, fabric, _usd(fabric, {**request.prices, "direct": "cable"}))


def _reconfigured(request: JointRequest, total_rate: int) -> Baseline:
    """TopoOpt-reconfig: every interface has a port of an optical circuit switch (topoopt2022 5.1)."""
    spec, given = request.spec, request.spec.reconfiguration
    pause = _core.parse_quantity("time", given.pause or known_switches()[given.switch].reconfiguration)
    period = _PERIOD * pause if given.period is None else _core.parse_quantity("time", given.period)
    if period <= pause:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "circuits would change again before they carry anything",
                mark=request.source.mark(("reconfiguration",)),
                key="reconfiguration.period",
                found=given.period or "0s",
                allowed=f"more than the pause of {_core.exact_quantity('time', pause)}",
            )
        )
    prices = {**request.prices, "direct": "ocs"}
    circuits = _circuits(request, pause, period, "halving")
    return Baseline("reconfigured", "reconfigured", total_rate, None, _direct_usd(spec, prices), circuits)


def _circuits(request: JointRequest, pause_ps: int, period_ps: int, discount: str) -> dict[str, Any]:
    spec = request.spec
    return {
        "degree": spec.degree,
        "rate": spec.link,
        "latency": spec.latency,
        "pause": _core.exact_quantity("time", pause_ps),
        "period": _core.exact_quantity("time", period_ps),
        "discount": discount,
    }


def _switch(request: JointRequest, name: str, title: str, rate: int) -> Baseline:
    switch = {"hosts": request.spec.servers, "rate": f"{rate}b/s", "latency": request.spec.latency}
    fabric = {"built": {"network": {"switch": switch}}}
    return Baseline(name, title, rate, fabric, _fat_tree_usd(request, rate))


def _affordable(request: JointRequest) -> int:
    """The rate at which a fat-tree costs as much as the direct links; prices between rates are interpolated."""
    budget = direct_usd(request)
    low, low_usd, usd = 0, 0.0, 0.0
    for gbps in _PRICED_GBPS:
        rate = gbps * 10**9
        usd = _fat_tree_usd_at(request, rate)
        if usd >= budget > 0:
            return max(round(low + (rate - low) * (budget - low_usd) / (usd - low_usd)), 1)
        low, low_usd = rate, usd
    if budget <= 0 or low_usd <= 0 or usd == _fat_tree_usd_at(request, _PRICED_GBPS[0] * 10**9):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "the price of a fat-tree does not depend on its rate, so no fat-tree matches the price of the direct "
                "links",
                mark=request.source.mark(("prices",)),
                key="prices",
                help="leave `same_price` out of `compare`, or give prices for each rate",
            )
        )
    return round(low * budget / low_usd)


def _fat_tree_usd(request: JointRequest, rate: int, oversubscription: int = 1) -> float:
    """Price of a fat-tree for the servers, interpolated between rates."""
    low, low_usd = 0, 0.0
    for gbps in _PRICED_GBPS:
        high = gbps * 10**9
        usd = _fat_tree_usd_at(request, high, oversubscription)
        if rate <= high:
            return low_usd + (usd - low_usd) * (rate - low) / (high - low)
        low, low_usd = high, usd
    return low_usd * rate / low


def _fat_tree_usd_at(request: JointRequest, rate: int, oversubscription: int = 1) -> float:
    """Price of a fat-tree of parts of this rate: the servers' share of the smallest one that has room for them."""
    servers = request.spec.servers
    k = next(k for k in range(4, 10_000, 2) if k**3 // 4 >= servers and k // 2 % oversubscription == 0)
    tree = {"k": k, "oversubscription": oversubscription, "rate": f"{rate}b/s", "latency": "0s"}
    return _usd({"built": {"network": {"fat_tree": tree}}}, request.prices) / (k**3 // 4) * servers


def _usd(fabric: dict[str, Any], prices: dict[str, Any]) -> float:
    return float(json.loads(_core.cost(json.dumps(fabric), json.dumps(prices)))["usd"])
