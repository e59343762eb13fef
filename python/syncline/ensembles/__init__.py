"""Runs one scenario with several seeds, to show how much of its outcome is chance.

`random_parts`: the parts of a scenario that depend on its seed; `runs`: the runs; `spread`: median and range of a
number, and whether its values fall into two groups; `screen`: the output on a terminal.
"""

from syncline.ensembles.runs import Ensemble, ensemble
from syncline.ensembles.spread import Groups, Spread

__all__ = ["Ensemble", "Groups", "Spread", "ensemble"]
