"""NCCL as it is: how long its collectives take on machines whose constants were measured.

- :mod:`.machine`: files of machines, and times on a machine, which is the entry;
- :mod:`.generations`: accelerators that NCCL treats alike;
- :mod:`.not_machines`: names of algorithms and libraries, which are no machines;
- :mod:`.rows`: measured collectives;
- :mod:`.calibration`: constants of a machine from measured collectives;
- :mod:`.nccl_tests`: reads the output of nccl-tests;
- :mod:`.experts`: exchanges of tokens of mixtures of experts, by DeepEP;
- :mod:`.token_kernels`: rates of such exchanges as others published them;
- :mod:`.shots`: all-reduces by kernels of inference frameworks.
"""

from syncline.nccl import experts, shots
from syncline.nccl.machine import Machine, Prediction, load, names

__all__ = ["Machine", "Prediction", "experts", "load", "names", "shots"]
