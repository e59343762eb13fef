"""Two runs side by side: what differs between them, and why.

- ``inputs``: what differs between two scenarios, key by key;
- ``pairs``: what two runs have in common, row by row: parts of a step, layers, collectives, phases, dimensions;
- ``facts``: how their numbers came about, where that differs;
- ``verdict``: the answer in words, and what stands against comparing the two;
- ``comparison``: all of it together, as Python and ``--json`` give it;
- ``screen``: as a terminal shows it; ``charts`` and ``page``: as one HTML file.
"""
