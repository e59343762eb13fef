"""Searches for the best parallel configuration of a language model on a number of accelerators.

- :mod:`~syncline.design.parallel.search_configurations`: the search, by estimates, and its result, with
  :mod:`~syncline.design.parallel.checks` of a request, :mod:`~syncline.design.parallel.assumptions`, and
  :mod:`~syncline.design.parallel.remedies` if nothing fits;
- :mod:`~syncline.design.parallel.objective`: what is best: time, dollars or energy;
- :mod:`~syncline.design.parallel.sizes`: searches with several numbers of accelerators, and their frontier;
- :mod:`~syncline.design.parallel.screen`: what the command prints;
- :mod:`~syncline.design.parallel.sizes_screen`: the same of frontier and costs;
- :mod:`~syncline.design.parallel.training`: configurations as training jobs;
- :mod:`~syncline.design.parallel.scenario`: a configuration as a scenario;
- :mod:`~syncline.design.parallel.simulation`: the best configurations, simulated;
- :mod:`~syncline.design.parallel.simulation_screen`: how they are shown;
- :mod:`~syncline.design.parallel.page`: the winner as a page.
"""

from syncline.config.model_file import find_architecture as read_model
from syncline.design.parallel.objective import Costs, Objective
from syncline.design.parallel.search_configurations import Configuration, Found, Request, search
from syncline.design.parallel.sizes import Sweep, sweep

__all__ = ["Configuration", "Costs", "Found", "Objective", "Request", "Sweep", "read_model", "search", "sweep"]
