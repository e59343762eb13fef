"""The testbed: a cluster of Linux network namespaces that emulates a fabric on one machine.

From what a user writes to what runs: :mod:`.spec` reads it, :mod:`.layout` finds hosts, bridges and addresses,
:mod:`.direct` the routes of hosts that are joined without switches,
:mod:`.fidelity` warns of what is left out, :mod:`.commands` says what to tell the kernel, :mod:`.kernel` tells it,
:mod:`.lifecycle` brings testbeds up and down, :mod:`.state` remembers which there are, :mod:`.difference` compares two.
:mod:`.processes` runs commands on hosts, :mod:`.flows` says what flows should get, :mod:`.check` measures what they
get, :mod:`.costs` what messages and bytes cost hosts, :mod:`.cleanup` cleans up after a process that was killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.testbed.cores import busy_s
    from syncline.testbed.costs import HostCosts
    from syncline.testbed.costs import read as read_costs
    from syncline.testbed.kernel import require
    from syncline.testbed.layout import PAYLOAD

__all__ = ["PAYLOAD", "HostCosts", "busy_s", "read_costs", "require"]

__getattr__ = lazy(
    __name__,
    {
        "PAYLOAD": "syncline.testbed.layout.PAYLOAD",
        "HostCosts": "syncline.testbed.costs.HostCosts",
        "busy_s": "syncline.testbed.cores.busy_s",
        "read_costs": "syncline.testbed.costs.read",
        "require": "syncline.testbed.kernel.require",
    },
)
