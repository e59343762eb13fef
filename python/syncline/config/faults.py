"""What is slow or broken, as a user writes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from syncline.config.base import Strict, either, form
from syncline.config.quantity import Time

Index = Annotated[int, Field(ge=0, le=2**32 - 1)]
Factor = Annotated[float, Field(ge=1, le=1e9, strict=False)]
Ends = Annotated[list[Annotated[str, Field(max_length=40)]], Field(min_length=2, max_length=2)]


class SlowRank(Strict):
    """Ranks whose compute takes longer."""

    rank: Annotated[Index | list[Index], either("a rank, or a list of ranks")]
    """The rank, or a list of them."""
    factor: Factor
    """How many times as long compute takes."""
    from_: Annotated[Time | None, Field(alias="from")] = None
    """From when; without it, from the start."""
    until: Time | None = None
    """To when; without it, to the end."""


class RandomRanks(Strict):
    """Ranks drawn by the seed, whose compute takes longer."""

    random_ranks: Annotated[int, Field(ge=1, le=2**32 - 1)]
    """How many ranks are drawn."""
    factor: Factor
    """How many times as long compute takes."""
    from_: Annotated[Time | None, Field(alias="from")] = None
    """From when; without it, from the start."""
    until: Time | None = None
    """To when; without it, to the end."""


class BrokenLink(Strict):
    """Links that are slower than built, or dead."""

    link: Annotated[Index | Ends, either("a link's number, or a list of its two ends such as [NPU 3, switch 0]")]
    """The link's number in the table of links; or its two ends, for all links between them."""
    factor: Factor | None = None
    """How many times as long a message takes to send."""
    dead: Literal[True] | None = None
    """The link carries nothing; routes lead round it, and where none is left the scenario is refused."""
    one_way: bool = False
    """Only the direction from the first end to the second."""


class RandomLinks(Strict):
    """Cables drawn by the seed, slower than built or dead in both directions."""

    random_links: Annotated[int, Field(ge=1, le=2**32 - 1)]
    """How many cables are drawn."""
    factor: Factor | None = None
    """How many times as long a message takes to send."""
    dead: Literal[True] | None = None
    """The link carries nothing; routes lead round it, and where none is left the scenario is refused."""
    one_way: bool = False
    """Only the direction from the smaller vertex to the larger."""


Fault: TypeAlias = Annotated[
    Annotated[SlowRank, Tag("rank")]
    | Annotated[BrokenLink, Tag("link")]
    | Annotated[RandomRanks, Tag("random_ranks")]
    | Annotated[RandomLinks, Tag("random_links")],
    Discriminator(form(word=False, rank="rank", link="link", random_ranks="random_ranks", random_links="random_links")),
]
"""One thing that is slow or broken."""


def resolved(fault: SlowRank | BrokenLink | RandomRanks | RandomLinks) -> dict[str, Any]:
    """A fault as the core takes it."""
    values = fault.model_dump(by_alias=True, exclude_none=True)
    if isinstance(fault, SlowRank) and not isinstance(fault.rank, list):
        values["rank"] = [fault.rank]
    return values
