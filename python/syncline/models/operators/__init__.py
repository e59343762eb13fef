"""Models as graphs of operators, for searches that place each operator on servers of its own.

- :mod:`~.operator`: an operator, and how it may be split
- :mod:`~.dlrm`, :mod:`~.candle`, :mod:`~.bert`, :mod:`~.ncf`: the models of topoopt2022 that are not chains of layers
- :mod:`~.chain`: any other model of syncline, each layer an operator that reads the one before it
- :mod:`~.registry`: models by name, with their parameters
- :mod:`~.split`: how a layer of such a chain is split by features
- :mod:`~.resolve`: the graph in the core's form: every way to split each operator, with its work and memory
- :mod:`~.measured`: times of operators from the tables that FlexFlow's profiler writes
"""

from syncline.models.operators.operator import Operator, OperatorModel
from syncline.models.operators.registry import MODELS, build, from_layers
from syncline.models.operators.resolve import Cluster, resolve

__all__ = ["MODELS", "Cluster", "Operator", "OperatorModel", "build", "from_layers", "resolve"]
