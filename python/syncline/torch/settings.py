"""Options of the backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from syncline.runtime.rendezvous import Meeting
from syncline.runtime.security import Security
from syncline.runtime.settings import Plans, Resources, TimeLimits
from syncline.tuning import Settings

if TYPE_CHECKING:
    from syncline.runtime.groups import Groups
    from syncline.tuning import Mode


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a process group: ``init_process_group("syncline", pg_options=Options(...))``.

    A group without options (``new_group``) takes over the options of the first group, except for the rules of its
    plans, and uses its connections and threads. If a rank is lost or misses a deadline in one of these groups, all of
    them fail. A group with options opens connections of its own.
    """

    plans: Plans = field(default_factory=Plans)
    """Plans, with the order or racks of all the job's ranks. List the ranks of a rack one after the other, so that a
    ring crosses between two racks only twice."""
    groups: Groups | None = None
    """``probe``: the first group measures its network for some seconds, finds racks, simulates plans, tries the best
    ones and keeps the fastest; see ``Communicator.join``."""
    autotune: Mode = "off"
    """``on``: follows the speed of large all-reduces of the first group, and tries other plans when it changes.
    ``observe`` only records what it would try. See :class:`syncline.tuning.Tuner`."""
    tuning: Settings = field(default_factory=Settings)
    """When the tuner acts, and what it tries."""
    in_order: bool = False
    """Whether results are the same bit for bit in every run."""
    meeting: Meeting = field(default_factory=Meeting)
    """Where ranks listen. They meet through the group's store."""
    security: Security = field(default_factory=Security)
    """With certificates (``tls``), ranks show them to each other, and all data is encrypted. Without, ranks share a key
    through the group's store, which keeps other processes out."""
    resources: Resources = field(default_factory=Resources)
    """Threads, windows, shared memory, CPUs."""
    limits: TimeLimits = field(default_factory=TimeLimits)
    """Time limits. The group's timeout replaces ``wait_s`` and ``deadline_s``."""
