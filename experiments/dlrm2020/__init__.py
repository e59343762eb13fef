"""Rashidi et al., "Scalable Distributed Training of Recommendation Models: An ASTRA-SIM + NS3 case-study", HOTI 2020.

One folder for each figure of section IV: its scenarios, ``__init__.py`` with what is measured, ``README.md``.
:mod:`~experiments.dlrm2020.all_reduce` is what Figures 7 to 10 share: the same runs, looked at from four sides.
:mod:`~experiments.dlrm2020.training` is what Figures 11 to 16 share: two iterations of DLRM on four systems.
"""
