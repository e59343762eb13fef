"""Names and versions of the forms of files, which their key ``schema`` holds, and the file that marks a search."""

from __future__ import annotations

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
ANSWER = "design.json"
"""The file with the answer in the folder of a search; it lists all files of the folder."""
