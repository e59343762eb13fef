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
