"""Finds which hosts share a rack from measured distances.

- :mod:`~syncline.grouping.search`: the search, from measurements to groups;
- :mod:`~syncline.grouping.embedding`: places hosts in a space (luo2020 4.1);
- :mod:`~syncline.grouping.clusters`: balanced k-means, and Ward's method as a second opinion;
- :mod:`~syncline.grouping.blocks`: the block model, which judges and refines groups;
- :mod:`~syncline.grouping.grouping`: the result;
- :mod:`~syncline.grouping.affinity`: how well distances tell who is near whom (luo2020 6.2.5);
- :mod:`~syncline.grouping.files`: files of groups;
- :mod:`~syncline.grouping.screen` and :mod:`~syncline.grouping.drawing`: the result on a terminal and as a picture;
- :mod:`~syncline.grouping.measurements`: a file of measurements on a terminal, with or without groups;
- ``order``, ``plane``, ``heat_map``, ``labels`` and ``names``, parts of pictures:
  the order of hosts, their places on a map, heat maps made of characters, labels that do not overlap, short names;
- :mod:`~syncline.grouping.synthetic`: data centres with known racks, to test all of this.

The search needs the extra ``group``, and the picture also the extra ``plot``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.grouping.affinity import affinity_accuracy
    from syncline.grouping.clusters import balanced
    from syncline.grouping.drawing import draw
    from syncline.grouping.embedding import Embedding, embed
    from syncline.grouping.files import read, save
    from syncline.grouping.grouping import Grouping
    from syncline.grouping.search import Settings, find
    from syncline.grouping.synthetic import DataCentre

__all__ = [
    "DataCentre",
    "Embedding",
    "Grouping",
    "Settings",
    "affinity_accuracy",
    "balanced",
    "draw",
    "embed",
    "find",
    "read",
    "save",
]

__getattr__ = lazy(
    __name__,
    {
        "DataCentre": "syncline.grouping.synthetic.DataCentre",
        "Embedding": "syncline.grouping.embedding.Embedding",
        "Grouping": "syncline.grouping.grouping.Grouping",
        "Settings": "syncline.grouping.search.Settings",
        "affinity_accuracy": "syncline.grouping.affinity.affinity_accuracy",
        "balanced": "syncline.grouping.clusters.balanced",
        "draw": "syncline.grouping.drawing.draw",
        "embed": "syncline.grouping.embedding.embed",
        "find": "syncline.grouping.search.find",
        "read": "syncline.grouping.files.read",
        "save": "syncline.grouping.files.save",
    },
)
