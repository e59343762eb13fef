"""Reproduces figures of papers and compares each claim with a measurement. Not part of the installed package.

- :mod:`experiments.harness`: code shared by all experiments
- :mod:`experiments.astra2020`: Figures 9 to 18 of astra2020
- :mod:`experiments.dlrm2020`: Figures 7 to 16 of dlrm2020
- :mod:`experiments.hier2021`: Figures 3 and 10 to 16 of hier2021
- :mod:`experiments.luo2020`: tables and figures of luo2020, predicted and measured on a testbed
- :mod:`experiments.topoopt2022`: Figures 4 to 22 and Tables 1 and 3 of topoopt2022; Figure 18 is also measured on a
  testbed

``python -m experiments astra2020 fig09`` runs one.
"""
