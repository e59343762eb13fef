"""Renews certificates while a process runs.

A thread looks at the files of certificates in use, and reads them again when they have changed. Connections that begin
from then on use the new certificates; connections that exist go on. If the new files cannot be used, the process keeps
the certificates that it has, and warns. While files that belong together are replaced one after the other, what joins
uses the certificates that the process has, too.
"""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from typing import TYPE_CHECKING

from syncline.errors import SynclineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from syncline import _core

POLL_S = 1.0
"""Interval at which files are looked at, in seconds."""

SETTLED_S = 5.0
"""How long files that belong together may take to be replaced one after the other, in seconds."""


class Watched:
    """Certificates in use, and the files that they come from."""

    def __init__(self, files: tuple[Path, ...], read: Callable[[], _core.Certificates]) -> None:
        self._files = files
        self._read = read
        self._seen = self._stamps()
        self.certificates = read()
        self._waited_s = 0.0
        self._warned = False

    def _stamps(self) -> tuple[object, ...]:
        """Returns what changes when a file is replaced or written."""
        stamps: list[object] = []
        for file in self._files:
            try:
                found = file.stat()
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
            except OSError:
                stamps.append(None)
        return tuple(stamps)

    def renew(self) -> None:
        """Reads the files, and takes them over.

        Raises ``SynclineError`` if they cannot be used, and ``ValueError`` if they are for something else.
        """
        stamps = self._stamps()
        self.certificates.renew(self._read())
        self._seen, self._waited_s, self._warned = stamps, 0.0, False

    @property
    def is_changing(self) -> bool:
        """Whether the files have changed so recently that others of them may still be replaced."""
        return self._waited_s < SETTLED_S and self._stamps() != self._seen

    def look(self) -> None:
        """Takes over the files if they have changed. Warns once if they cannot be used after some time."""
        if self._stamps() == self._seen:
            # They may have been put back.
            self._waited_s, self._warned = 0.0, False
            return
        try:
            self.renew()
        except (SynclineError, ValueError) as error:
            self._waited_s += POLL_S
            if self._waited_s >= SETTLED_S and not self._warned:
                self._warned = True
                kept = "new certificates cannot be used, so the old ones stay until they expire"
                why = " ".join(str(error).split()) if isinstance(error, SynclineError) else error.args[1]
                warnings.warn(f"{kept}: {self._files[1]}: {why}", RuntimeWarning, stacklevel=2)


_watched: dict[tuple[Path, ...], Watched] = {}
_lock = threading.Lock()
_thread: threading.Thread | None = None


def in_use(files: tuple[Path, ...], read: Callable[[], _core.Certificates]) -> _core.Certificates:
    """Returns the certificates in ``files``, which are renewed when the files change. ``read`` reads them.

    Raises ``SynclineError`` if they cannot be used, unless they have just changed and older ones are in use.
    """
    global _thread
    with _lock:
        known = _watched.get(files)
        try:
            if known is not None:
                known.renew()
        except SynclineError:
            if known is None or not known.is_changing:
                raise
        except ValueError:
            # They are for another job or rank. What uses the old ones keeps them.
            known = None
        if known is None:
            known = _watched[files] = Watched(files, read)
        # A forked child has no such thread.
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_watch, name="certificates", daemon=True)
            _thread.start()
        return known.certificates


def look() -> None:
    """Reads files that have changed, now."""
    with _lock:
        for each in _watched.values():
            try:
                each.look()
            except Exception:  # noqa: BLE001
                # As a warning that the user has made an error. Later changes, and other files, are still taken over.
                traceback.print_exc()


def _watch() -> None:
    idle = threading.Event()
    while not idle.wait(POLL_S):
        look()


def _after_fork() -> None:
    # The thread of the parent may have held the lock.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
