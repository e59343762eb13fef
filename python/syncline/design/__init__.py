"""Searches for a better cluster.

- :mod:`~syncline.design.spec`: the schema of a spec, which describes a search
- :mod:`~syncline.design.candidate`: the shapes of a search, as scenarios
- :mod:`~syncline.design.demand`: the bytes that a job sends in each dimension of a shape
- :mod:`~syncline.design.limits`: the constraints on rates, and whether they can be met
- :mod:`~syncline.design.price`: the cost of rates
- :mod:`~syncline.design.schemes`: the closed forms of hier2021: equal, by bytes, by turns
- :mod:`~syncline.design.optimum`: the best rates, by geometric programming
- :mod:`~syncline.design.trial`: simulations of the results, and why they differ from the predictions
- :mod:`~syncline.design.bandwidth`: the search itself
- :mod:`~syncline.design.screen`, :mod:`~syncline.design.plot`: the results for people
- :mod:`~syncline.design.keep`: the results as files
- :mod:`~syncline.design.schema`: the JSON schema of a spec, for editors
"""
