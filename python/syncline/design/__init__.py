"""Searches for a better cluster.

>>> from syncline import design
>>> found = design.search(design.read("spec.yaml"))  # doctest: +SKIP

The parts of a search can be used on their own: :func:`demand_of` counts the bytes that a job sends in each dimension,
:func:`price_of` gives the cost of rates, and :mod:`~syncline.design.schemes` divides a budget by closed forms.

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
- :mod:`~syncline.design.result_files`: the results as files
- :mod:`~syncline.design.schema`: the JSON schema of a spec, for editors
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.design import schemes
    from syncline.design.bandwidth import Allocation, SearchResult, search, utilization
    from syncline.design.candidate import Request, read
    from syncline.design.demand import Demand, Exchange, demand_of
    from syncline.design.price import Price, price_of

__all__ = [
    "Allocation",
    "Demand",
    "Exchange",
    "Price",
    "Request",
    "SearchResult",
    "demand_of",
    "price_of",
    "read",
    "schemes",
    "search",
    "utilization",
]

__getattr__ = lazy(
    __name__,
    {
        "Allocation": "syncline.design.bandwidth.Allocation",
        "SearchResult": "syncline.design.bandwidth.SearchResult",
        "search": "syncline.design.bandwidth.search",
        "utilization": "syncline.design.bandwidth.utilization",
        "Request": "syncline.design.candidate.Request",
        "read": "syncline.design.candidate.read",
        "Demand": "syncline.design.demand.Demand",
        "Exchange": "syncline.design.demand.Exchange",
        "demand_of": "syncline.design.demand.demand_of",
        "Price": "syncline.design.price.Price",
        "price_of": "syncline.design.price.price_of",
    },
)
