"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Writes a file (text as UTF-8) atomically: to a temporary file beside it, synchronised, then renamed.

    Where the disk is full or the program is stopped, what was there before stays as it was, and nothing else is left
    behind. What is no regular file, such as a pipe, is written to directly.

    :raises OSError: the file cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as aside:
            aside.write(data)
            aside.flush()
            os.fsync(aside.fileno())
        if target.exists():
            shutil.copymode(target, name)
        else:
            Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
