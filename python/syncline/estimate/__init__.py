"""Estimates of training steps without a simulation; the crate ``estimate`` computes them.

- :mod:`~syncline.estimate.measured`: what was measured on each accelerator;
- :mod:`~syncline.estimate.hosts`: the memory of hosts;
- :mod:`~syncline.estimate.machines`: clusters of one kind of accelerator, with both of these;
- :mod:`~syncline.estimate.model`: architectures, as the core takes them;
- :mod:`~syncline.estimate.job`: how they are trained: mesh, batches, precision, recomputation, overlap;
- :mod:`~syncline.estimate.software`: constants of the software that trains;
- :mod:`~syncline.estimate.frameworks`: what this software has no way to do;
- :mod:`~syncline.estimate.fitting`: what would make a job fit into memory;
- :mod:`~syncline.estimate.switches`: settings of the software that would make a job with experts faster;
- :mod:`~syncline.estimate.error_bars`: how far estimates were from measured steps of jobs that are alike;
- :mod:`~syncline.estimate.measures`: tokens a second and MFU of a step;
- :mod:`~syncline.estimate.screen`: parts of a step and kinds of memory as tables.
"""

from syncline.estimate.error_bars import ErrorBar, error_bar, kind_of
from syncline.estimate.fitting import Change, changes_that_fit
from syncline.estimate.hosts import Host
from syncline.estimate.job import Job, Offload, Overlap, estimator
from syncline.estimate.machines import Machine, machine, of_cluster
from syncline.estimate.measured import MEASURED, known
from syncline.estimate.measures import mfu, tokens_per_s
from syncline.estimate.model import model_text
from syncline.estimate.software import Software, shipped

__all__ = [
    "MEASURED",
    "Change",
    "ErrorBar",
    "Host",
    "Job",
    "Machine",
    "Offload",
    "Overlap",
    "Software",
    "changes_that_fit",
    "error_bar",
    "estimator",
    "kind_of",
    "known",
    "machine",
    "mfu",
    "model_text",
    "of_cluster",
    "shipped",
    "tokens_per_s",
]
