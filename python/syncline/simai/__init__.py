"""Workloads of SimAI, as AICB writes them, become scenarios.

- :mod:`~syncline.simai.workload`: reads the text;
- :mod:`~syncline.simai.repeats`: finds the micro-batches and the parts of the model, which the text repeats;
- :mod:`~syncline.simai.scenario`: the scenario.

Topologies of SimAI are fabrics: :mod:`syncline.clusters.simai` reads them.
"""

from syncline.simai.scenario import Conversion, convert
from syncline.simai.workload import recognise

__all__ = ["Conversion", "convert", "recognise"]
