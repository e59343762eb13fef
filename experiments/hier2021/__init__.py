"""Won et al., "Exploring Multi-dimensional Hierarchical Network Topologies", 2021.

The full title continues: "for Efficient Distributed Training of Trillion Parameter DL Models".

One folder for each figure: its scenarios, ``__init__.py`` with the measurement, ``README.md``. All figures share
:mod:`~experiments.hier2021.layers`: one layer of three models on three networks.
"""
