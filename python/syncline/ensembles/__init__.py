"""Several runs of one scenario, with one seed each: what of its outcome is chance.

`drawn`: what of a scenario follows its seed; `runs`: the runs; `spread`: median and range of a number, and whether its
values fall into two groups; `screen`: the answer.
"""

from syncline.ensembles.runs import Ensemble, ensemble
from syncline.ensembles.spread import Groups, Spread

__all__ = ["Ensemble", "Groups", "Spread", "ensemble"]
