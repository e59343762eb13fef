"""Drawings of fabrics: ``characters`` for a terminal; ``svg`` for files, with ``fold`` to leave out vertices."""
