"""Papers' figures, run again: what a paper claims beside what is measured here. Not part of the installed package.

- :mod:`experiments.harness`: what every experiment shares
- :mod:`experiments.astra2020`: Figures 9 to 18 of astra2020
- :mod:`experiments.dlrm2020`: Figures 7 to 10 of dlrm2020

``python -m experiments astra2020 fig09`` runs one.
"""
