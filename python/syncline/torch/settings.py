"""Options of the backend."""

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
    """Options of a process group: ``init_process_group("syncline", pg_options=Options(...))``.

    ``order`` lists the job's ranks in the order in which plans number them. List the ranks of a rack one after the
    other, so that a ring crosses between two racks only twice. ``racks`` replaces ``order``: it gives the rack of each
    rank, as a list, or as a file that lists the ranks of one rack in each line. The plan ``two_level`` then uses racks
    as its groups. ``rules`` select the plans of collectives; if none fits, the quickest plan on ``network`` runs. With
    ``in_order`` results are the same bit for bit in every run. ``interfaces``, ``congestion`` and ``pace`` are as for
    ``Communicator.join``, except that the group's timeout is the deadline of operations.

    With ``tls`` (as for ``Communicator.join``) ranks show each other certificates, and all data is encrypted. Without
    it, ranks share a key through the group's store, which keeps strangers out.

    A group without options (``new_group``) takes over the options of the first group, except for ``rules``, and uses
    its connections and threads. If a rank is lost or misses a deadline in one of these groups, all of them fail. A
    group with options opens connections of its own.
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
