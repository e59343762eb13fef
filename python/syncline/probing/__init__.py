"""Measures round trips and rates between the hosts of a cluster.

- :mod:`~syncline.probing.coordinator`: probes hosts, on which an agent is started for the time of the probe;
- :mod:`~syncline.probing.agent`: that agent, a program that needs nothing but Python;
- :mod:`~syncline.probing.launching`: starts agents by a launch command, and talks to them;
- :mod:`~syncline.probing.job`: probes the ranks of a running job instead, over its connections;
- :mod:`~syncline.probing.rounds`: schedules, round by round;
- :mod:`~syncline.probing.budget`: divides time among rounds;
- :mod:`~syncline.probing.estimates`: quantiles of samples and their confidence intervals;
- :mod:`~syncline.probing.outcome`: what a probe found out; ``screen`` prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.probing.budget import Wanted
    from syncline.probing.coordinator import probe as probe_hosts
    from syncline.probing.job import probe as probe_job
    from syncline.probing.launching import Launch
    from syncline.probing.outcome import Outcome
    from syncline.probing.rounds import Turns, full, sampled

__all__ = ["Launch", "Outcome", "Turns", "Wanted", "full", "probe_hosts", "probe_job", "sampled"]

__getattr__ = lazy(
    __name__,
    {
        "Launch": "syncline.probing.launching.Launch",
        "Outcome": "syncline.probing.outcome.Outcome",
        "Turns": "syncline.probing.rounds.Turns",
        "Wanted": "syncline.probing.budget.Wanted",
        "full": "syncline.probing.rounds.full",
        "probe_hosts": "syncline.probing.coordinator.probe",
        "probe_job": "syncline.probing.job.probe",
        "sampled": "syncline.probing.rounds.sampled",
    },
)
