"""Certificates or keys that members of a job have, and where none are needed."""

from __future__ import annotations

import ipaddress
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncline import _core
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


@dataclass(frozen=True)
class Certificates:
    """Files of a certificate, as ``syncline hub certs`` makes them: PEM."""

    ca: str | Path
    """The certificate of the job's CA: whoever has one of this CA is believed."""
    certificate: str | Path
    """One's own certificate."""
    key: str | Path
    """Its key, in a file that only its owner may read."""

    @classmethod
    def of(cls, given: Certificates | str | Path, names: Iterable[str]) -> Certificates:
        """The certificates in a folder, by the first of ``names`` that is there (``rank.pem`` and ``rank.key``)."""
        if isinstance(given, Certificates):
            return given
        folder, names = Path(given), list(names)
        if not folder.is_dir():
            remedy = f"make certificates with: syncline hub certs {folder}"
            raise _refuse("there are no certificates", f"{folder}: no folder", remedy)
        name = next((name for name in names if (folder / f"{name}.pem").exists()), names[-1])
        return cls(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")

    def read(self) -> _core.Certificates:
        """Reads them, and holds them against each other.

        Raises ``SynclineError`` where one cannot be read or has ended, or they do not belong together.
        """
        files = {"ca": Path(self.ca), "certificate": Path(self.certificate), "key": Path(self.key)}
        ca, certificate = (_read(files[part], "the certificate cannot be read", MAKE) for part in ("ca", "certificate"))
        key = _own(files["key"], MAKE)
        try:
            return _core.Certificates.read(ca, certificate, key)
        except ValueError as error:
            part, why = error.args
            raise _refuse("these certificates cannot be used", f"{files[part]}: {why}", MAKE) from None


MAKE = "make all of a job's certificates with: syncline hub certs DIR"

Secret = bytes | _core.Certificates
"""What members of a job show each other."""


def _read(path: Path, message: str, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refuse(message, f"{path}: {error.strerror}", remedy) from error


def _own(path: Path, remedy: str) -> bytes:
    """What is in a file that only its owner may read."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _refuse("the key cannot be read", f"{path}: {error.strerror}", remedy) from error
    content = _read(path, "the key cannot be read", remedy)
    if stat.S_IMODE(mode) & 0o077:
        raise _refuse("others may read the key", f"{path}: mode {stat.S_IMODE(mode):04o}", f"chmod 600 {path}")
    return content


def read_key(file: str | Path) -> bytes:
    """The key in a file that only its owner may read: 32 bytes, as they are or as 64 hexadecimal digits.

    Raises ``SynclineError`` where it is not that.
    """
    path = Path(file)
    remedy = f"make one with: (umask 077; head -c {KEY_BYTES} /dev/urandom > {path})"
    content = _own(path, remedy)
    found = f"{path}: {len(content)} bytes"
    if len(content) != KEY_BYTES:
        try:
            content = bytes.fromhex(content.decode("ascii").strip())
        except ValueError:
            content = b""
    if len(content) != KEY_BYTES:
        raise _refuse(f"a key has {KEY_BYTES} bytes", found, remedy)
    return content


def secret(
    key_file: str | Path | None, tls: Certificates | str | Path | None, *, names: Iterable[str]
) -> Secret | None:
    """What this process shows others: a key, certificates (in a folder: by one of ``names``), or nothing.

    Raises ``SynclineError`` where that cannot be read, or both are given.
    """
    if key_file is not None and tls is not None:
        raise _refuse("strangers are kept out twice", "key_file and tls", "give one of them")
    if tls is not None:
        return Certificates.of(tls, names).read()
    return None if key_file is None else read_key(key_file)


def check(addresses: Iterable[str], key: Secret | None, *, insecure: bool) -> None:
    """That strangers are kept out beyond this machine: there is a secret, or the word of the user that none is needed.

    Raises ``SynclineError`` where neither is given.
    """
    outside = [address for address in addresses if not ipaddress.ip_address(address).is_loopback]
    if outside and key is None and not insecure:
        raise _refuse(
            "anybody who reaches this address could join the job",
            outside[0],
            "give all certificates of one CA (`tls`, --tls) or the same key (`key_file`, --key-file), "
            "or say `insecure=True` (--insecure) where only friends reach it",
        )
