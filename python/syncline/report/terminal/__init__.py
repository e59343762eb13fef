"""What commands print about a run or a scenario.

- ``answer``: the screen of ``simulate``, with the tables in ``layers`` and ``collectives``;
- ``views``: the screens of ``show``, with the ``work`` of each layer.
"""
