"""The command line. ``main`` answers what needs nothing at once and imports the rest when it is needed."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of ``syncline``."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from syncline import _core

        sys.stdout.write(f"syncline {_core.version()}\n")
        return
    from syncline.cli.guard import guarded

    sys.exit(guarded(arguments))
