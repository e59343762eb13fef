"""Won et al., "Exploring Multi-dimensional Hierarchical Network Topologies", 2021.

The whole title ends: "for Efficient Distributed Training of Trillion Parameter DL Models".

One folder for each figure: its scenarios, ``__init__.py`` with what is measured, ``README.md``.
:mod:`~experiments.hier2021.layers` is what all of them share: a layer of three models on three networks.
"""
