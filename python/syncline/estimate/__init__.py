"""Estimates of training steps in closed form; the crate ``estimate`` computes them.

- :mod:`~syncline.estimate.machines`: clusters: kernels, NCCL and network of an accelerator;
- :mod:`~syncline.estimate.model`: architectures, as the core takes them;
- :mod:`~syncline.estimate.software`: constants of the software that trains;
- :mod:`~syncline.estimate.error_bars`: how far estimates were from measured steps of jobs that are alike.
"""

from syncline.estimate.error_bars import ErrorBar, error_bar, kind_of
from syncline.estimate.machines import MEASURED, Machine, known, machine
from syncline.estimate.model import model_text
from syncline.estimate.software import Software, shipped

__all__ = [
    "MEASURED",
    "ErrorBar",
    "Machine",
    "Software",
    "error_bar",
    "kind_of",
    "known",
    "machine",
    "model_text",
    "shipped",
]
