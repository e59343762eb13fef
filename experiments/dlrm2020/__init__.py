"""Rashidi et al., "Scalable Distributed Training of Recommendation Models: An ASTRA-SIM + NS3 case-study", HOTI 2020.

One folder for each figure of section IV: its scenarios, ``__init__.py`` with the measurement, ``README.md``.
Figures 7 to 10 share :mod:`~experiments.dlrm2020.all_reduce`: they show different values of the same runs.
Figures 11 to 16 share :mod:`~experiments.dlrm2020.training`: two iterations of DLRM on four systems.
"""
