"""Names and versions of the forms of files, which their key ``schema`` holds, and the file that marks a search."""

from __future__ import annotations

from typing import Final

SCENARIO = "syncline/1"
"""A scenario, as ``syncline simulate`` reads it."""
BANDWIDTH = "syncline-design/1"
"""A spec for ``syncline design bandwidth``."""
JOINT = "syncline-joint/1"
"""A spec for ``syncline design joint``."""
BANDWIDTH_RESULTS = "syncline-design-results/1"
"""The answer of ``syncline design bandwidth``."""
JOINT_RESULTS = "syncline-joint-results/1"
"""The answer of ``syncline design joint``."""
OPERATORS = "syncline-operators/1"
"""The operators of a model, and how each is split and placed: ``operators.json`` of ``syncline design joint``."""
TESTBED: Final = "syncline-testbed/1"
"""The description of a testbed, as ``syncline testbed up`` reads it."""
TIMES: Final = "syncline-times/1"
"""Measured times of layers, for the compute model ``table``."""
HOST_COSTS: Final = "syncline-host-costs/1"
"""Host costs that ``syncline testbed check`` has measured."""
GROUPS: Final = "syncline-groups/1"
"""Groups of near hosts, as ``syncline group`` writes them."""
ANSWER = "design.json"
"""The file with the answer in the folder of a search; it lists all files of the folder."""
