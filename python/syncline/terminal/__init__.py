"""Output of programs on a terminal: data to stdout, everything else to stderr.

- :func:`show`, :func:`show_json`: data;
- :func:`say`, :func:`print_diagnostics`: messages, and the diagnostics of errors;
- :class:`Waiting`: the progress of work in parts, once it has taken two seconds;
- :mod:`~syncline.terminal.table`, ``prose``, ``bar``: tables, wrapped sentences and bars.
"""

from syncline.terminal.progress import Waiting
from syncline.terminal.streams import print_diagnostics, say, show, show_json

__all__ = ["Waiting", "print_diagnostics", "say", "show", "show_json"]
