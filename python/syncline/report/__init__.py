"""Presents results and scenarios to users.

- ``terminal``: what commands print;
- ``html``: ``report.html``, and its charts one by one for notebooks;
- ``drawings``: pictures of fabrics;
- ``subject``, ``delays``, ``equal_rows``, ``grouping``: what these have in common: a run in words, means of delays,
  and equal rows or layers in groups.
"""
