"""Wang et al., "TopoOpt: Optimizing the Network Topology for Distributed DNN Training", 2022 (first version).

One folder for each figure or table: its scenarios, ``__init__.py`` with the measurement, ``README.md``. Figures about
traffic share :mod:`~experiments.topoopt2022.traffic`; figures about clusters share
:mod:`~experiments.topoopt2022.cluster`: searches for strategy and topology, whose answers are stored.
"""
