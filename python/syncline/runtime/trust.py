"""Keys that members of a job share, and where none are needed."""

from __future__ import annotations

import ipaddress
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.errors import Diagnostic, SynclineError

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_BYTES = 32
"""Bytes of a key."""


def _refuse(message: str, found: str, remedy: str) -> SynclineError:
    diagnostic: Diagnostic = {
        "code": "SL0102",
        "severity": "error",
        "message": message,
        "found": found,
        "help": remedy,
    }
    return SynclineError([diagnostic])


def read_key(file: str | Path) -> bytes:
    """The key in a file that only its owner may read: 32 bytes, as they are or as 64 hexadecimal digits.

    Raises ``SynclineError`` where it is not that.
    """
    path = Path(file)
    remedy = f"make one with: (umask 077; head -c {KEY_BYTES} /dev/urandom > {path})"
    try:
        mode = path.stat().st_mode
        content = path.read_bytes()
    except OSError as error:
        raise _refuse("the key cannot be read", f"{path}: {error.strerror}", remedy) from error
    if stat.S_IMODE(mode) & 0o077:
        raise _refuse("others may read the key", f"{path}: mode {stat.S_IMODE(mode):04o}", f"chmod 600 {path}")
    if len(content) != KEY_BYTES:
        try:
            content = bytes.fromhex(content.decode("ascii").strip())
        except ValueError:
            content = b""
    if len(content) != KEY_BYTES:
        raise _refuse(f"a key has {KEY_BYTES} bytes", f"{path}: {path.stat().st_size} bytes", remedy)
    return content


def check(addresses: Iterable[str], key: bytes | None, *, insecure: bool) -> None:
    """That strangers are kept out: beyond this machine there is a key, or the word of the user that none is needed.

    Raises ``SynclineError`` where neither is given.
    """
    outside = [address for address in addresses if not ipaddress.ip_address(address).is_loopback]
    if outside and key is None and not insecure:
        raise _refuse(
            "anybody who reaches this address could join the job",
            outside[0],
            "give all ranks the same `key_file`, or say `insecure=True` where only friends reach it",
        )
