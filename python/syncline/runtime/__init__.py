"""Runs collectives between processes, by the same plans that are simulated.

Every rank joins the others with a :class:`Communicator`, and begins the same operations in the same order. Operations
work on any object with a writable buffer, such as ``bytearray``, ``array.array`` and NumPy arrays::

    from array import array
    from syncline.runtime import Communicator

    with Communicator.join() as ranks:  # RANK, WORLD_SIZE and MASTER_ADDR from the environment
        gradients = array("f", [1.0] * 1_000_000)
        ranks.all_reduce(gradients).wait()

Options are in objects, each with a default: :class:`Meeting` (where ranks find each other), :class:`Security`,
:class:`Plans`, :class:`Resources` and :class:`TimeLimits`.

- :mod:`~syncline.runtime.communicator`: ranks that run collectives together;
- :mod:`~syncline.runtime.joining`: how a rank joins a job;
- :mod:`~syncline.runtime.settings`: plans, resources and time limits;
- :mod:`~syncline.runtime.rendezvous`: where ranks listen, and how they find each other through a store;
- :mod:`~syncline.runtime.redis`: such a store in Redis;
- :mod:`~syncline.runtime.security`: certificates and keys, and when none are needed;
- :mod:`~syncline.runtime.memory`: memory of buffers, for operations;
- :mod:`~syncline.runtime.completions`: the thread that runs callbacks;
- :mod:`~syncline.runtime.addresses`: parses the addresses that users and launchers give;
- :mod:`~syncline.runtime.signals`: what a rank measures meanwhile, as a log and for Prometheus (``prometheus``);
- :mod:`~syncline.runtime.trace`: what ranks did when, as a Perfetto trace;
- :mod:`~syncline.runtime.groups`: plans by what ranks find out about their network when a job begins;
- :mod:`~syncline.runtime.racks`: the rack of each rank; ``plan_data``: plans as data for the core;
- :mod:`~syncline.runtime.congestion_control`: the TCP congestion controls of this kernel;
- :mod:`~syncline.runtime.at_exit`: closes connections when the process ends.
"""

from syncline.runtime.communicator import Communicator, Pending, PlanChange
from syncline.runtime.redis import RedisRendezvous
from syncline.runtime.rendezvous import Meeting, Rendezvous
from syncline.runtime.security import Certificates, Security
from syncline.runtime.settings import Network, Plans, Resources, Rule, TimeLimits

__all__ = [
    "Certificates",
    "Communicator",
    "Meeting",
    "Network",
    "Pending",
    "PlanChange",
    "Plans",
    "RedisRendezvous",
    "Rendezvous",
    "Resources",
    "Rule",
    "Security",
    "TimeLimits",
]
