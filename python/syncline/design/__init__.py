"""Searches for a better cluster.

- :mod:`~syncline.design.spec`: what is asked for, as a user writes it
- :mod:`~syncline.design.candidate`: the shapes that it asks about, as scenarios
- :mod:`~syncline.design.demand`: what a job asks of each dimension of a shape
- :mod:`~syncline.design.limits`: what rates must keep to, and what cannot be met
- :mod:`~syncline.design.price`: what rates cost
- :mod:`~syncline.design.schemes`: the closed forms of hier2021: equal, by bytes, by turns
- :mod:`~syncline.design.optimum`: the best rates, by geometric programming
- :mod:`~syncline.design.trial`: what was found as simulated, and why that differs from what was predicted
- :mod:`~syncline.design.bandwidth`: the search: from what is asked for to what is found
- :mod:`~syncline.design.screen`, :mod:`~syncline.design.plot`: what was found, for people
- :mod:`~syncline.design.keep`: the same as files
- :mod:`~syncline.design.schema`: the form of what is asked for, for editors
"""
