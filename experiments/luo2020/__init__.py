"""Luo, "Towards More Efficient Communication for Distributed Learning Systems", dissertation, 2020.

One folder for each table, section or figure: its scenarios, ``__init__.py`` with what is measured, ``README.md``;
those that run on the testbed have ``measured.json``, too. :mod:`~experiments.luo2020.exchange` is what they share: an
exchange, as it is simulated and as it runs; :mod:`~experiments.luo2020.ranks` is a rank of it, and
:mod:`~experiments.luo2020.beside` sets what was predicted beside what was measured.
"""
