"""Gives ranks to hosts so that a collective's messages travel short distances (luo2020 chapter 5).

- :mod:`~syncline.reordering.reorder`: the search, and what it found;
- :mod:`~syncline.reordering.difference`: what the old order exchanged over long distances, and the new one does not;
- :mod:`~syncline.reordering.host_files`: files that launchers take;
- :mod:`~syncline.reordering.screen`: what the command line prints.
"""

from syncline.reordering.host_files import Format, write
from syncline.reordering.jobs import ReorderedJob, reorder_job, reorder_plan
from syncline.reordering.reorder import Reordered, reorder

__all__ = ["Format", "Reordered", "ReorderedJob", "reorder", "reorder_job", "reorder_plan", "write"]
