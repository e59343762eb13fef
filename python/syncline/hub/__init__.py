"""Parameter hubs: servers that sum what workers push, and train for them.

- :class:`Hub`: a job on hubs, as one of its workers sees it;
- :class:`Sgd`, :class:`Adam`: what a hub makes of gradients;
- :class:`Service`: a hub that serves (``syncline hub serve`` has one), :func:`status`: how one elsewhere is;
- :class:`Racks`: hubs in each rack, that exchange; :func:`two_levels`: whether they pay.
"""

from syncline.hub.benefit import Levels, two_levels
from syncline.hub.optimizers import Adam, Optimizer, Sgd
from syncline.hub.racks import Racks
from syncline.hub.service import PORT, Service, status
from syncline.hub.worker import Exchange, Hub

__all__ = ["PORT", "Adam", "Exchange", "Hub", "Levels", "Optimizer", "Racks", "Service", "Sgd", "status", "two_levels"]
