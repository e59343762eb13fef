"""The command line. What a command needs is imported when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of ``syncline``."""
    from syncline.cli.guard import guarded

    if status := guarded(sys.argv[1:]):
        sys.exit(status)
