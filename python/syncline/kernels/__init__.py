"""Measures the kernels in which training spends its time, on the device at hand, as a table in CSV.

Measuring needs the standard library and PyTorch alone, so that ``python -m syncline.kernels.measure`` runs wherever
this package can be imported. :mod:`.table`, which reads a table with clear errors, may use the rest of ``syncline``.

In reading order: :mod:`.columns` says what a row holds; :mod:`.cases` what is measured in which order;
:mod:`.families` has one module for each family of operations, with its grid of shapes; :mod:`.bench` times kernels on
buffers from a pool; :mod:`.device` reads clocks and facts of the device; :mod:`.worker` measures case after case in a
process of its own; :mod:`.measure` supervises it and writes rows; :mod:`.table` reads a table.
"""

from __future__ import annotations
