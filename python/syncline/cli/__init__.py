"""The command line. Each command imports what it needs when it is called, so that the program starts quickly."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of ``syncline``."""
    try:
        from syncline.cli.guard import guarded

        status = guarded(sys.argv[1:])
    except KeyboardInterrupt:
        # Ctrl-C while the guard itself was being imported, or a second Ctrl-C while it handled the first.
        from syncline.errors import ExitStatus

        sys.stderr.write("interrupted: no results were saved\n")
        status = ExitStatus.INTERRUPTED
    if status:
        sys.exit(status)
