"""Luo, "Towards More Efficient Communication for Distributed Learning Systems", dissertation, 2020.

One folder for each table, section or figure: its scenarios, ``__init__.py`` with the measurement, ``README.md``; those
that run on the testbed also have ``measured.json``. They share :mod:`~experiments.luo2020.exchange`, an exchange that
is both simulated and run; :mod:`~experiments.luo2020.ranks`, the program of its ranks; and
:mod:`~experiments.luo2020.beside`, which compares predictions with measurements. Figures of the emulated cloud share
:mod:`~experiments.luo2020.cloud` and :mod:`~experiments.luo2020.orders`, orders of ranks.
"""
