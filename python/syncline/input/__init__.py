"""Users' files: read with the place of every value, and checked against typed models.

In reading order:

============================ ==========================================================
module                       what it holds
============================ ==========================================================
``node``                     values with their places, so that every error names a line
``problem``                  how a diagnostic is made
``yaml``, ``csv_rows``       YAML and CSV files as nodes
``source``                   a file's values, changed by ``--set``
``base, units, words``       what typed models have in common: strictness, units, words
``check``                    values against models: everything that is wrong, at once
``dump``                     values as YAML
``limits``                   how large a file may be
============================ ==========================================================
"""
