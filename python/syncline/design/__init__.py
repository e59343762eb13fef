"""Searches for a better cluster.

- :mod:`~syncline.design.bandwidth`: the bandwidths of a fabric's dimensions
- :mod:`~syncline.design.joint`: a parallelisation strategy and a topology of direct links together
- :mod:`~syncline.design.folder`: the folder of a search's results
"""
