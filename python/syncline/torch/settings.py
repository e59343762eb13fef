"""What the backend can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from syncline.runtime.racks import RackMap
    from syncline.runtime.settings import Network, Pace, Rule
    from syncline.runtime.trust import Certificates


@dataclass(frozen=True)
class Options:
    """What a group is told with ``init_process_group("syncline", pg_options=Options(...))``.

    ``order`` has the job's ranks in the order in which plans count them: those of a rack together, and a ring crosses
    between racks twice. ``racks`` says instead which rack each is in, as a list, or as a file with the ranks of a rack
    in each line; those are the groups of the plan ``two_level``, too. ``rules`` say which plan runs which collective;
    if none fits, the quickest on ``network`` does. With ``in_order`` results are the same bit for bit in every
    run. ``interfaces``, ``congestion`` and ``pace`` are those of ``Communicator.join``; the deadline of operations is
    the group's time-out.

    With ``tls``, also as there, ranks show each other certificates, and all that they send is secret. Without it a key
    that comes through the group's store keeps strangers out.

    Groups that are made without options (``new_group``) have those of the first, but for its rules, and run on its
    connections and threads. A rank that is lost, or misses a deadline in one of them, ends all of them. Groups with
    options have connections of their own.
    """

    order: Sequence[int] | None = None
    racks: RackMap | None = None
    rules: Sequence[Rule] = ()
    network: Network | None = None
    in_order: bool = False
    tls: Certificates | str | Path | None = None
    interfaces: Sequence[str] | None = None
    congestion: str | None = None
    pace: Pace | None = None
