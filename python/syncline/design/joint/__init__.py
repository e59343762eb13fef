"""The search for a parallelisation strategy and a topology together (topoopt2022).

>>> from syncline.design import joint
>>> found = joint.search(joint.read("spec.yaml"))  # doctest: +SKIP

- :mod:`~.spec`: the schema of a spec, which describes a search
- :mod:`~.request`: reads a spec, and makes the core's request of it
- :mod:`~.networks`: the networks that the result is compared with, and what each costs
- :mod:`~.answer`: the search, on direct links and on the other networks
- :mod:`~.result_files`: the results as files, among them a scenario for ``simulate``
- :mod:`~.sentences`: what is said about them, on the terminal (:mod:`~.screen`) and on a page (:mod:`~.page`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.design.joint.answer import Comparison, Found, search
    from syncline.design.joint.request import Request, read
    from syncline.design.joint.result_files import save

__all__ = ["Comparison", "Found", "Request", "read", "save", "search"]

__getattr__ = lazy(
    __name__,
    {
        "Comparison": "syncline.design.joint.answer.Comparison",
        "Found": "syncline.design.joint.answer.Found",
        "Request": "syncline.design.joint.request.Request",
        "save": "syncline.design.joint.result_files.save",
        "read": "syncline.design.joint.request.read",
        "search": "syncline.design.joint.answer.search",
    },
)
