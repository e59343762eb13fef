"""What the parts of a network cost, as a user writes it: a shipped list, a file, or a list of one's own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema

from syncline.config.base import Strict, form
from syncline.config.quantity import Rate

Amount = Annotated[float, WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 10**12})]
"""Of dollars, metres or watts. The core refuses what is out of range, and says what to write instead."""
Ports = Annotated[int, Field(ge=0, le=2**32 - 1)]


class PricedKind(Strict):
    """One kind of a component that is made."""

    rate: Rate
    """Its rate; of a switch or card with several ports, that of each."""
    usd: Amount
    """Its price."""
    ports: Ports = 1
    """Its ports: of a switch and of a NIC, which are bought whole; of a switch port, how many the price is for."""
    watts: Amount | None = None
    """Its power."""


class Price(Strict):
    """What a component costs: exactly one of `usd`, `usd_per_GBps`, `usd_per_m` and `by_rate`."""

    usd: Amount | None = None
    """Price of one, whatever its rate."""
    usd_per_gbps: Annotated[Amount | None, Field(alias="usd_per_GBps")] = None
    """Price of one for each GB/s of its rate; of a switch, for each GB/s of each of its ports."""
    usd_per_m: Amount | None = None
    """Price of a metre. Only of a fibre, and with `length_m`."""
    length_m: Amount | None = None
    """Mean length of a fibre, in metres."""
    by_rate: list[PricedKind] | None = None
    """Prices of the kinds that are made. The next rate up is taken; above the largest, several of the largest in
    parallel."""
    watts: Amount | None = None
    """Power of one."""
    watts_per_gbps: Annotated[Amount | None, Field(alias="watts_per_GBps")] = None
    """Power of one for each GB/s of its rate; of a switch, for each GB/s of each of its ports."""
    each_way: bool = False
    """Whether a cable between two hosts is paid for each way. Only of a link."""
    at: Literal["switches", "everything"] | None = None
    """Where a host needs a NIC: where it is joined to a switch, as it is unless said otherwise, or to anything. Only of
    a NIC."""


PriceOrNone = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[Price, Tag("spec")],
    Discriminator(form(word=True, default="spec")),
]


class Components(Strict):
    """Prices by component. One that is absent is not needed, or the fabric has none of it."""

    npu: PriceOrNone | None = None
    """An NPU, or the machine that it stands for."""
    nic: PriceOrNone | None = None
    """A network card."""
    switch: PriceOrNone | None = None
    """A switch: by radix times rate (`usd_per_GBps`), or the cheapest of `by_rate` that has enough ports."""
    switch_port: PriceOrNone | None = None
    """A port of a switch."""
    link: PriceOrNone | None = None
    """A cable with all that is at its ends."""
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
    """A price list of one's own."""

    name: Annotated[str, Field(max_length=200)] | None = None
    """Its name. Without it, the file's name is taken."""
    source: str
    """Where its prices are from."""
    year: Annotated[int, Field(ge=1900, le=2200)]
    """The year that they are of."""
    currency: Literal["usd"] = "usd"
    """What they are in: US dollars."""
    direct: Direct = "cable"
    """How hosts are joined that have no switch between them. `cable`: by a cable. `patch_panel`: each end by a fibre to
    a port of a patch panel. `look_ahead`: each end to a 1x2 switch and two ports of patch panels, one of which is set
    up for the next job. `ocs`: each end to a port of an optical circuit switch."""
    components: Components = Components()
    """Prices for all links, and for what they join."""
    tiers: Annotated[dict[str, Section], Field(default_factory=dict)]
    """Prices of some links in place of those: by the `tier` that a dimension says, the name of a dimension or of a tier
    of links, or a kind of links such as `scale_up` and `pcie`. `none` where these are not to be paid for. One that fits
    no links of the fabric is told in a note."""


class ChosenPrices(Strict):
    """A price list, with some things changed."""

    list_: Annotated[str, Field(alias="list", min_length=1)]
    """Name of a shipped list, or path of a YAML file."""
    direct: Direct | None = None
    """How hosts are joined that have no switch between them, in place of what the list says."""
    components: Components = Components()
    """Prices in place of the list's, component by component."""
    tiers: Annotated[dict[str, Section], Field(default_factory=dict)]
    """Tiers in place of the list's, or in addition to them."""


Prices = Annotated[
    Annotated[Annotated[str, Field(min_length=1)], Tag("word")]
    | Annotated[ChosenPrices, Tag("chosen")]
    | Annotated[PriceList, Tag("own")],
    Discriminator(form(word=True, default="own", list="chosen")),
]
"""Name of a shipped list, path of a YAML file, or a mapping."""
