"""Parameter hubs: servers that sum what workers push, and train for them.

- :class:`Hub`: a worker's connection to a job on hubs;
- :class:`Terms`: what the ranks of a job agree on;
- :class:`Sgd`, :class:`Adam`: optimizers that a hub applies to gradients;
- :class:`Service`: a running hub (``syncline hub serve`` runs one), with :class:`HubResources`;
  :class:`Saves`: where it saves its jobs; :func:`status`: the status of a hub elsewhere; :func:`save`: asks it to
  save its jobs;
- :class:`Racks`: hubs in each rack, which exchange their sums; :func:`two_levels`: whether a hub in each rack pays.
"""

from syncline.hub.benefit import Levels, two_levels
from syncline.hub.optimizers import Adam, Optimizer, Sgd
from syncline.hub.racks import Racks
from syncline.hub.saves import Saves
from syncline.hub.service import PORT, HubResources, Service, save, status
from syncline.hub.terms import Terms
from syncline.hub.worker import Hub, PendingExchange

__all__ = [
    "PORT",
    "Adam",
    "Hub",
    "HubResources",
    "Levels",
    "Optimizer",
    "PendingExchange",
    "Racks",
    "Saves",
    "Service",
    "Sgd",
    "Terms",
    "save",
    "status",
    "two_levels",
]
