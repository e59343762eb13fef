"""Chooses plans for the network as it is, when a job begins and while it runs.

- :mod:`~syncline.tuning.probed`: when a job begins, by what its ranks measure;
- :mod:`~syncline.tuning.tuner`: follows the speed of a job, and tries other plans when it changes;
- :mod:`~syncline.tuning.sampling`: what all ranks measure between two looks;
- :mod:`~syncline.tuning.quicktune`, :mod:`~syncline.tuning.finetune`: assign masters of blocks by measured rates, and
  move them away from the rank that holds the others up (luo2020 4.2.3);
- :mod:`~syncline.tuning.masters`: all-reduces in which each block has its own masters (luo2020 4.2.2).
"""

from __future__ import annotations

from syncline.tuning.finetune import Traffic, blame
from syncline.tuning.masters import Assignment, even_groups, groups_of
from syncline.tuning.probed import Choice, by_probe, choose
from syncline.tuning.quicktune import proportional, quicktune
from syncline.tuning.tuner import Decision, Mode, Settings, Tuner

__all__ = [
    "Assignment",
    "Choice",
    "Decision",
    "Mode",
    "Settings",
    "Traffic",
    "Tuner",
    "blame",
    "by_probe",
    "choose",
    "even_groups",
    "groups_of",
    "proportional",
    "quicktune",
]
