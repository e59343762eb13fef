"""The report as one HTML file, and its charts one by one for notebooks.

- ``charts``: which charts there are; ``layers``, ``collectives``, ``network``, ``moments`` make them from a ``source``;
- ``head``: the answer in words and figures; ``origin``: how the numbers were obtained;
- ``page``: all of it as a document; ``plot``: one chart for a notebook.

The script and the style sheet in ``../assets`` are built from ``web/report``.
"""
