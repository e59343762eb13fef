"""Rashidi et al., "ASTRA-SIM: Enabling SW/HW Co-Design Exploration for Distributed DL Training Platforms", ISPASS 2020.

One folder for each figure of section V: its scenarios, ``__init__.py`` with the measurement, ``README.md``.
Figures 9 to 12 share :mod:`~experiments.astra2020.bandwidth_test`; Figures 13 to 18 share
:mod:`~experiments.astra2020.training`.
"""
