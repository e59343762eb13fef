"""Estimates of training steps in closed form; the crate ``estimate`` computes them.

- :mod:`~syncline.estimate.machine`: clusters: kernels, NCCL and network of an accelerator;
- :mod:`~syncline.estimate.model`: architectures, as the core takes them;
- :mod:`~syncline.estimate.software`: constants of the software that trains.
"""

from syncline.estimate.machine import MEASURED, Machine, known, machine
from syncline.estimate.model import model_text
from syncline.estimate.software import Software, shipped

__all__ = ["MEASURED", "Machine", "Software", "known", "machine", "model_text", "shipped"]
