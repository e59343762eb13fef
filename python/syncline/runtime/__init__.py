"""Runs collectives between processes, by the same plans that are simulated.

Every rank joins the others with a :class:`Communicator`, and begins the same operations in the same order. Operations
work on any object with a writable buffer, such as ``bytearray``, ``array.array`` and NumPy arrays::

    from array import array
    from syncline.runtime import Communicator

    with Communicator.join() as ranks:  # RANK, WORLD_SIZE and MASTER_ADDR from the environment
        gradients = array("f", [1.0] * 1_000_000)
        ranks.all_reduce(gradients).wait()

- :mod:`~syncline.runtime.communicator`: ranks that run collectives together;
- :mod:`~syncline.runtime.settings`: selects plans, and sets threads, windows and deadlines;
- :mod:`~syncline.runtime.memory`: memory of buffers, for operations;
- :mod:`~syncline.runtime.rendezvous`: lets ranks find each other through a store;
- :mod:`~syncline.runtime.redis`: such a store in Redis;
- :mod:`~syncline.runtime.completions`: the thread that runs callbacks;
- :mod:`~syncline.runtime.addresses`: parses the addresses that users and launchers give;
- :mod:`~syncline.runtime.leaving`: closes connections when the process ends;
- :mod:`~syncline.runtime.trust`: certificates and keys, and when none are needed.
"""

from syncline.runtime.communicator import Communicator, Pending
from syncline.runtime.redis import RedisRendezvous
from syncline.runtime.rendezvous import Rendezvous
from syncline.runtime.settings import Network, Pace, Rule
from syncline.runtime.trust import Certificates

__all__ = ["Certificates", "Communicator", "Network", "Pace", "Pending", "RedisRendezvous", "Rendezvous", "Rule"]
