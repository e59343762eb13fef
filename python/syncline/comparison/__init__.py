"""Compares two runs: what differs between them, and why.

- ``inputs``: the differences between two scenarios, key by key;
- ``pairs``: the numbers of two runs in pairs: parts of a step, layers, collectives, phases, dimensions;
- ``facts``: other facts about the runs that differ, such as models and assumptions;
- ``verdict``: the answer in words, and warnings about comparing the two runs;
- ``comparison``: the whole comparison, as Python and ``--json`` give it;
- ``screen``: the output on a terminal; ``charts`` and ``page``: the HTML page.
"""
