"""Finds which hosts share a rack from measured distances.

- :mod:`~syncline.grouping.search`: the search, from measurements to groups;
- :mod:`~syncline.grouping.embedding`: places hosts in a space (luo2020 4.1);
- :mod:`~syncline.grouping.clusters`: balanced k-means, and Ward's method as a second opinion;
- :mod:`~syncline.grouping.blocks`: the block model, which judges and refines groups;
- :mod:`~syncline.grouping.grouping`: the result;
- :mod:`~syncline.grouping.affinity`: how well distances tell who is near whom (luo2020 6.2.5);
- :mod:`~syncline.grouping.files`: files of groups;
- :mod:`~syncline.grouping.screen` and :mod:`~syncline.grouping.drawing`: the result on a terminal and as a picture;
- :mod:`~syncline.grouping.synthetic`: data centres with known racks, to test all of this.

The search needs the extra ``group``, and the picture also the extra ``plot``.
"""
