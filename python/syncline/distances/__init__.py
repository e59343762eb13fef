"""What was measured between hosts: round trips and rates, in files and as matrices.

- :mod:`~syncline.distances.measured`: the measurements;
- :mod:`~syncline.distances.files`: reads and writes them, in any of their formats.
"""

from syncline.distances.files import read, save
from syncline.distances.measured import Measured, Pair

__all__ = ["Measured", "Pair", "read", "save"]
