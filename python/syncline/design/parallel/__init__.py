"""Searches for the best way to divide a language model among accelerators.

- :mod:`~syncline.design.parallel.search_divisions`: the search, by estimates, and what it found;
- :mod:`~syncline.design.parallel.screen`: what the command prints.
"""

from syncline.config.model_file import read_architecture as read_model
from syncline.design.parallel.search_divisions import Division, Found, Request, search

__all__ = ["Division", "Found", "Request", "read_model", "search"]
