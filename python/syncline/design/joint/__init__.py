"""The search for a parallelisation strategy and a topology together (topoopt2022).

>>> from syncline.design import joint
>>> found = joint.search(joint.read("spec.yaml"))  # doctest: +SKIP

- :mod:`~.spec`: the schema of a spec, which describes a search
- :mod:`~.request`: reads a spec, and makes the core's request of it
- :mod:`~.baselines`: the networks that the result is compared with, and what each costs
- :mod:`~.optical_switches`: optical switches, and how fast they change circuits
- :mod:`~.search_networks`: the search, on direct links and on the other networks
- :mod:`~.answer`: what it finds
- :mod:`~.traffic`: what servers send each other in a step of it
- :mod:`~.result_files`: the results as files, among them a scenario for ``simulate``
- :mod:`~.sentences`: what is said about them, on the terminal (:mod:`~.screen`) and on a page (:mod:`~.page`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.design.joint.answer import (
        AllReduce,
        Answer,
        BaselineResult,
        Found,
        GroupLinks,
        Links,
        Placement,
        Topology,
    )
    from syncline.design.joint.baselines import Baseline, baselines_of, direct_usd
    from syncline.design.joint.optical_switches import OpticalSwitch, known_switches
    from syncline.design.joint.page import page_of
    from syncline.design.joint.request import JointRequest, read
    from syncline.design.joint.result_files import operators_of, save
    from syncline.design.joint.search_networks import search, simulate
    from syncline.design.joint.traffic import Traffic, traffic_of

__all__ = [
    "AllReduce",
    "Answer",
    "Baseline",
    "BaselineResult",
    "Found",
    "GroupLinks",
    "JointRequest",
    "Links",
    "OpticalSwitch",
    "Placement",
    "Topology",
    "Traffic",
    "baselines_of",
    "direct_usd",
    "known_switches",
    "operators_of",
    "page_of",
    "read",
    "save",
    "search",
    "simulate",
    "traffic_of",
]

__getattr__ = lazy(
    __name__,
    {
        "AllReduce": "syncline.design.joint.answer.AllReduce",
        "Answer": "syncline.design.joint.answer.Answer",
        "BaselineResult": "syncline.design.joint.answer.BaselineResult",
        "Found": "syncline.design.joint.answer.Found",
        "GroupLinks": "syncline.design.joint.answer.GroupLinks",
        "Links": "syncline.design.joint.answer.Links",
        "Placement": "syncline.design.joint.answer.Placement",
        "Topology": "syncline.design.joint.answer.Topology",
        "Baseline": "syncline.design.joint.baselines.Baseline",
        "baselines_of": "syncline.design.joint.baselines.baselines_of",
        "direct_usd": "syncline.design.joint.baselines.direct_usd",
        "OpticalSwitch": "syncline.design.joint.optical_switches.OpticalSwitch",
        "known_switches": "syncline.design.joint.optical_switches.known_switches",
        "page_of": "syncline.design.joint.page.page_of",
        "JointRequest": "syncline.design.joint.request.JointRequest",
        "read": "syncline.design.joint.request.read",
        "operators_of": "syncline.design.joint.result_files.operators_of",
        "save": "syncline.design.joint.result_files.save",
        "search": "syncline.design.joint.search_networks.search",
        "simulate": "syncline.design.joint.search_networks.simulate",
        "Traffic": "syncline.design.joint.traffic.Traffic",
        "traffic_of": "syncline.design.joint.traffic.traffic_of",
    },
)
