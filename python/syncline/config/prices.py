"""The schema of ``prices``: a shipped price list, a file, or the user's own list."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema

from syncline.input.base import Strict, form
from syncline.input.units import Rate

Amount = Annotated[float, WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 10**12})]
"""An amount of dollars, metres or watts. The core refuses amounts that are out of range."""
Ports = Annotated[int, Field(ge=0, le=2**32 - 1)]


class PricedKind(Strict):
    """One kind of a component that can be bought."""

    rate: Rate
    """Its rate; for a switch or card with several ports, the rate of each port."""
    usd: Amount
    """Its price."""
    ports: Ports = 1
    """Of a switch or NIC: its number of ports; only whole devices are bought. Of a switch port: the number of ports
    that the price covers."""
    watts: Amount | None = None
    """Its power."""


class Price(Strict):
    """What a component costs: exactly one of `usd`, `usd_per_GBps`, `usd_per_m` and `by_rate`."""

    usd: Amount | None = None
    """Price of one, whatever its rate."""
    usd_per_gbps: Annotated[Amount | None, Field(alias="usd_per_GBps")] = None
    """Price of one for each GB/s of its rate; for a switch, for each GB/s of each of its ports."""
    usd_per_m: Amount | None = None
    """Price of a metre. Only for a fibre, together with `length_m`."""
    length_m: Amount | None = None
    """Mean length of a fibre, in metres."""
    by_rate: list[PricedKind] | None = None
    """Prices of the kinds that can be bought. A rate between two kinds takes the faster one; a rate above the fastest
    takes several of the fastest in parallel."""
    watts: Amount | None = None
    """Power of one."""
    watts_per_gbps: Annotated[Amount | None, Field(alias="watts_per_GBps")] = None
    """Power of one for each GB/s of its rate; for a switch, for each GB/s of each of its ports."""
    each_way: bool = False
    """Whether a cable between two hosts is paid for once in each direction. Only for a link."""
    at: Literal["switches", "everything"] | None = None
    """Which links of a host need a NIC: those to `switches`, the default, or to `everything`. Only for a NIC."""


PriceOrNone = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[Price, Tag("spec")],
    Discriminator(form(word=True, default="spec")),
]


class Components(Strict):
    """Prices by component. A component may be absent if it costs nothing or the fabric has none of it."""

    npu: PriceOrNone | None = None
    """An NPU, or the machine that the NPU represents."""
    nic: PriceOrNone | None = None
    """A network card."""
    switch: PriceOrNone | None = None
    """A switch: priced by radix times rate (`usd_per_GBps`), or the cheapest of `by_rate` with enough ports."""
    switch_port: PriceOrNone | None = None
    """A port of a switch."""
    link: PriceOrNone | None = None
    """A cable, including the parts at its ends."""
    transceiver: PriceOrNone | None = None
    """A transceiver, at each end of a cable."""
    fibre: PriceOrNone | None = None
    """A fibre between two transceivers."""
    patch_panel_port: PriceOrNone | None = None
    """A port of a patch panel."""
    ocs_port: PriceOrNone | None = None
    """A port of an optical circuit switch."""
    optical_switch: PriceOrNone | None = None
    """A switch that joins one fibre to either of two (1x2)."""


Section = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[Components, Tag("components")],
    Discriminator(form(word=True, default="components")),
]
"""Prices of a tier, or `none`."""

Direct = Literal["cable", "patch_panel", "look_ahead", "ocs"]


class PriceList(Strict):
    """The user's own price list."""

    name: Annotated[str, Field(max_length=200)] | None = None
    """Name of the list. Without it, the file's name."""
    source: str
    """Source of the prices."""
    year: Annotated[int, Field(ge=1900, le=2200)]
    """Year of the prices."""
    currency: Literal["usd"] = "usd"
    """Currency of the prices: US dollars."""
    direct: Direct = "cable"
    """How two hosts are joined without a switch between them. `cable`: by a cable. `patch_panel`: each end by a fibre
    to a port of a patch panel. `look_ahead`: each end to a 1x2 switch and two ports of patch panels, one of which is
    set up for the next job. `ocs`: each end to a port of an optical circuit switch."""
    components: Components = Components()
    """Prices of all links, and of the parts that they join."""
    tiers: Annotated[dict[str, Section], Field(default_factory=dict)]
    """Prices of some links, which replace those in `components`. A key is the `tier` of a dimension, the name of a
    dimension or of a tier of links, or a kind of links such as `scale_up` and `pcie`. `none` makes these links free. A
    note reports a key that fits no links of the fabric."""


class ChosenPrices(Strict):
    """A price list with changes."""

    list_: Annotated[str, Field(alias="list", min_length=1)]
    """Name of a shipped list, or path of a YAML file."""
    direct: Direct | None = None
    """How two hosts are joined without a switch between them. Replaces that of the list."""
    components: Components = Components()
    """Prices that replace those of the list, component by component."""
    tiers: Annotated[dict[str, Section], Field(default_factory=dict)]
    """Tiers that replace those of the list, or add to them."""


Prices = Annotated[
    Annotated[Annotated[str, Field(min_length=1)], Tag("word")]
    | Annotated[ChosenPrices, Tag("chosen")]
    | Annotated[PriceList, Tag("own")],
    Discriminator(form(word=True, default="own", list="chosen")),
]
"""Name of a shipped list, path of a YAML file, or a mapping."""
