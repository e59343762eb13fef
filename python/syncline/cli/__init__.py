"""The command line. What a command needs is imported when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of ``syncline``."""
    try:
        from syncline.cli.guard import guarded

        status = guarded(sys.argv[1:])
    except KeyboardInterrupt:
        # Ctrl-C while the guard itself was being loaded, or a second one while it answered the first.
        sys.stderr.write("interrupted: nothing is kept\n")
        status = 130
    if status:
        sys.exit(status)
