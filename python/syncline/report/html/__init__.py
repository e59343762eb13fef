"""The report as one HTML file, and its charts as separate pages for notebooks.

- ``charts``: the list of charts; ``layers``, ``collectives``, ``network``, ``moments`` make them from a ``source``;
- ``head``: the answer in words and figures; ``origin``: how the numbers were obtained;
- ``page``: the whole document; ``plot``: one chart for a notebook.

The script and the style sheet in ``../assets`` are built from ``web/report``.
"""
