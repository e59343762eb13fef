"""Collectives for real, between processes, on the plans that are simulated.

Every rank joins the others with a :class:`Communicator`, and begins the same operations in the same order on memory of
its own: anything with a writable buffer, such as ``bytearray``, ``array.array`` and NumPy arrays::

    from array import array
    from syncline.runtime import Communicator

    with Communicator.join() as ranks:  # RANK, WORLD_SIZE and MASTER_ADDR from the environment
        gradients = array("f", [1.0] * 1_000_000)
        ranks.all_reduce(gradients).wait()

- :mod:`~syncline.runtime.communicator`: ranks that run collectives together;
- :mod:`~syncline.runtime.settings`: which plans they run, and how they go about it;
- :mod:`~syncline.runtime.memory`: where buffers lie, and what is in them;
- :mod:`~syncline.runtime.rendezvous`: how ranks find each other through a store;
- :mod:`~syncline.runtime.redis`: such a store in Redis;
- :mod:`~syncline.runtime.completions`: the thread on which callbacks are called;
- :mod:`~syncline.runtime.addresses`: where members are, as users and launchers say it;
- :mod:`~syncline.runtime.leaving`: what is closed when the process ends;
- :mod:`~syncline.runtime.trust`: certificates and keys, and where none are needed.
"""

from syncline.runtime.communicator import Communicator, Pending
from syncline.runtime.redis import RedisRendezvous
from syncline.runtime.rendezvous import Rendezvous
from syncline.runtime.settings import Network, Pace, Rule
from syncline.runtime.trust import Certificates

__all__ = ["Certificates", "Communicator", "Network", "Pace", "Pending", "RedisRendezvous", "Rendezvous", "Rule"]
