"""The search for the bandwidths of the dimensions of a fabric (hier2021).

>>> from syncline.design import bandwidth
>>> found = bandwidth.search(bandwidth.read("spec.yaml"))  # doctest: +SKIP

The parts of a search can be used on their own: :func:`demand_of` counts the bytes that a job sends in each dimension,
:func:`price_of` gives the cost of rates, and :mod:`~.schemes` divides a budget by closed forms.

- :mod:`~.spec`: the schema of a spec, which describes a search
- :mod:`~.candidate`: reads a spec; the shapes of a search, as scenarios
- :mod:`~.algorithms`: the algorithms that are the same in all predictions and simulations of a shape
- :mod:`~.demand`: the bytes that a job sends in each dimension of a shape
- :mod:`~.spanned`: the dimensions that an exchange uses
- :mod:`~.limits`: the constraints on rates, and whether they can be met
- :mod:`~.price`: the cost of rates
- :mod:`~.schemes`: the closed forms of hier2021: equal, by bytes, by turns
- :mod:`~.optimum`: the best rates, by geometric programming
- :mod:`~.trial`: simulations of the results, and why they differ from the predictions
- :mod:`~.search_rates`: the search itself
- :mod:`~.screen`, :mod:`~.plot`: the results for people
- :mod:`~.result_files`, :mod:`~.portable`: the results as files
- :mod:`~.schema`: the JSON schema of a spec, for editors
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.design.bandwidth import schemes
    from syncline.design.bandwidth.candidate import BandwidthRequest, read
    from syncline.design.bandwidth.demand import Demand, Exchange, demand_of
    from syncline.design.bandwidth.price import Price, price_of
    from syncline.design.bandwidth.result_files import save
    from syncline.design.bandwidth.search_rates import Allocation, SearchResult, search, utilization

__all__ = [
    "Allocation",
    "BandwidthRequest",
    "Demand",
    "Exchange",
    "Price",
    "SearchResult",
    "demand_of",
    "price_of",
    "read",
    "save",
    "schemes",
    "search",
    "utilization",
]

__getattr__ = lazy(
    __name__,
    {
        "BandwidthRequest": "syncline.design.bandwidth.candidate.BandwidthRequest",
        "read": "syncline.design.bandwidth.candidate.read",
        "Demand": "syncline.design.bandwidth.demand.Demand",
        "Exchange": "syncline.design.bandwidth.demand.Exchange",
        "demand_of": "syncline.design.bandwidth.demand.demand_of",
        "Price": "syncline.design.bandwidth.price.Price",
        "price_of": "syncline.design.bandwidth.price.price_of",
        "save": "syncline.design.bandwidth.result_files.save",
        "Allocation": "syncline.design.bandwidth.search_rates.Allocation",
        "SearchResult": "syncline.design.bandwidth.search_rates.SearchResult",
        "search": "syncline.design.bandwidth.search_rates.search",
        "utilization": "syncline.design.bandwidth.search_rates.utilization",
    },
)
