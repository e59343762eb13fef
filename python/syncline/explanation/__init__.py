"""What ``explain`` says.

- ``explanation``: a run in sentences;
- ``meanings``: the meaning of every name in the results;
- ``screen``: both, laid out for a terminal.
"""
