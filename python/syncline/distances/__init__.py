"""What was measured between hosts: round trips and rates, in files and as matrices.

- :mod:`~syncline.distances.measured`: the measurements;
- :mod:`~syncline.distances.files`: reads and writes them, in any of their formats;
- :mod:`~syncline.distances.pairs`: pairs in the units of the core, and matrices in which missing ones are inferred;
- :mod:`~syncline.distances.by_groups`: distances between groups of hosts, in place of single pairs;
- :mod:`~syncline.distances.summary`: what a file holds, in numbers;
- :mod:`~syncline.distances.hosts`: lists of hosts.
"""

from syncline.distances.by_groups import by_groups
from syncline.distances.files import read, save
from syncline.distances.hosts import Host, read_hosts
from syncline.distances.measured import Measured, Pair

__all__ = ["Host", "Measured", "Pair", "by_groups", "read", "read_hosts", "save"]
