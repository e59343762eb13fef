"""Writes files atomically: a file is complete, or it does not change."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


def write_whole(path: str | Path, content: str | bytes, *, mode: int | None = None) -> None:
    """Writes a file (text as UTF-8) atomically: writes and syncs a temporary file beside it, then renames that.

    If the disk fills up or the program is interrupted, the old file stays as it was, and no temporary file remains.
    A path that is not a regular file, such as a pipe, is written to directly.

    ``mode`` is the file's mode. Without it, the file keeps its mode, and a new one gets the process's default. Only the
    owner can read the temporary file.

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
        if mode is not None:
            Path(name).chmod(mode)
        elif target.exists():
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
