"""The schema of ``faults``: ranks and links that are slow or broken."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from syncline.input.base import Strict, either, form
from syncline.input.units import Time

Index = Annotated[int, Field(ge=0, le=2**32 - 1)]
Factor = Annotated[float, Field(ge=1, le=1e9, strict=False)]
Ends = Annotated[list[Annotated[str, Field(max_length=40)]], Field(min_length=2, max_length=2)]


class SlowRank(Strict):
    """Ranks whose compute takes longer."""

    rank: Annotated[Index | list[Index], either("a rank, or a list of ranks")]
    """The rank, or a list of them."""
    factor: Factor
    """Factor by which compute takes longer."""
    from_: Annotated[Time | None, Field(alias="from")] = None
    """When the slowdown begins. Without it, at the start."""
    until: Time | None = None
    """When the slowdown ends. Without it, never."""


class RandomRanks(Strict):
    """Ranks drawn by the seed, whose compute takes longer."""

    random_ranks: Annotated[int, Field(ge=1, le=2**32 - 1)]
    """Number of ranks to choose at random."""
    factor: Factor
    """Factor by which compute takes longer."""
    from_: Annotated[Time | None, Field(alias="from")] = None
    """When the slowdown begins. Without it, at the start."""
    until: Time | None = None
    """When the slowdown ends. Without it, never."""


class BrokenLink(Strict):
    """Links that are slower than normal, or dead."""

    link: Annotated[Index | Ends, either("a link's number, or a list of its two ends such as [NPU 3, switch 0]")]
    """The link's number in the table of links; or its two ends, for all links between them."""
    factor: Factor | None = None
    """Factor by which the link takes longer to send a message."""
    dead: Literal[True] | None = None
    """Makes the link carry nothing: routes avoid it, and a scenario without any other route is refused."""
    one_way: bool = False
    """Whether only the direction from the first end to the second is affected."""


class RandomLinks(Strict):
    """Cables drawn by the seed that are slower than normal, or dead, in both directions."""

    random_links: Annotated[int, Field(ge=1, le=2**32 - 1)]
    """Number of cables to choose at random."""
    factor: Factor | None = None
    """Factor by which the link takes longer to send a message."""
    dead: Literal[True] | None = None
    """Makes the link carry nothing: routes avoid it, and a scenario without any other route is refused."""
    one_way: bool = False
    """Whether only the direction from the smaller vertex number to the larger is affected."""


Fault: TypeAlias = Annotated[
    Annotated[SlowRank, Tag("rank")]
    | Annotated[BrokenLink, Tag("link")]
    | Annotated[RandomRanks, Tag("random_ranks")]
    | Annotated[RandomLinks, Tag("random_links")],
    Discriminator(form(word=False, rank="rank", link="link", random_ranks="random_ranks", random_links="random_links")),
]
"""One thing that is slow or broken."""


def resolved(fault: SlowRank | BrokenLink | RandomRanks | RandomLinks) -> dict[str, Any]:
    """A fault in the core's form."""
    values = fault.model_dump(by_alias=True, exclude_none=True)
    if isinstance(fault, SlowRank) and not isinstance(fault.rank, list):
        values["rank"] = [fault.rank]
    return values
