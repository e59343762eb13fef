"""The testbed: a cluster of Linux network namespaces that emulates a fabric on one machine.

In reading order: :mod:`.spec` reads a testbed's file; :mod:`.layout` maps its fabric to hosts, bridges and addresses;
:mod:`.links` names its links; :mod:`.direct` routes between hosts without switches; :mod:`.fidelity` warns about
properties that are not emulated; :mod:`.commands` generates input for ``ip`` and ``tc``; :mod:`.kernel` runs it;
:mod:`.lifecycle` brings testbeds up and down; :mod:`.state` lists those that exist; :mod:`.difference` compares two;
:mod:`.shape` changes rates of links under way; :mod:`.processes` runs commands on hosts; :mod:`.flows` computes fair
shares; :mod:`.check` measures rates; :mod:`.costs` measures host costs; :mod:`.traffic` sends the traffic of emulated
tenants; :mod:`.cleanup` removes what a killed process leaves.
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
