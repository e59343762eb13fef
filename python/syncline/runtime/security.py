"""How members of a job identify themselves: reads their certificates or keys, and checks whether they need them."""

from __future__ import annotations

import ipaddress
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncline import _core
from syncline.input.problem import bad_value
from syncline.runtime import renewal

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_BYTES = 32
"""Size of a key in bytes."""


@dataclass(frozen=True)
class Certificates:
    """PEM files of a certificate, as ``syncline hub certs`` makes them."""

    ca: str | Path
    """The certificate of the job's CA. Peers with a certificate of this CA are trusted."""
    certificate: str | Path
    """The certificate of this process."""
    key: str | Path
    """The key of the certificate, in a file that only its owner may read."""

    @classmethod
    def of(cls, given: Certificates | str | Path, names: Iterable[str]) -> Certificates:
        """Finds certificates in a folder: the first of ``names`` that exists (``rank``: ``rank.pem``, ``rank.key``)."""
        if isinstance(given, Certificates):
            return given
        folder, names = Path(given), list(names)
        if not folder.is_dir():
            remedy = f"make certificates with: syncline hub certs {folder}"
            raise bad_value("there are no certificates", f"{folder}: not a folder", help=remedy)
        name = next((name for name in names if (folder / f"{name}.pem").exists()), names[-1])
        return cls(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")

    @property
    def files(self) -> tuple[Path, Path, Path]:
        """The files, by their full names."""
        ca, certificate, key = (Path(file).absolute() for file in (self.ca, self.certificate, self.key))
        return ca, certificate, key

    def read(self) -> _core.Certificates:
        """Reads the files, and checks that they belong together.

        Raises ``SynclineError`` if a file cannot be read, a certificate has expired, or they do not belong together.
        """
        files = dict(zip(PARTS, self.files, strict=True))
        ca, certificate = (_read(files[part], "the certificate cannot be read", MAKE) for part in ("ca", "certificate"))
        key = _read_private(files["key"], MAKE)
        try:
            return _core.Certificates.read(ca, certificate, key)
        except ValueError as error:
            part, why = error.args
            raise bad_value("these certificates cannot be used", f"{files[part]}: {why}", help=MAKE) from None


PARTS = ("ca", "certificate", "key")
"""The names of the files of certificates, in their order."""

MAKE = "make all of a job's certificates with: syncline hub certs DIR"

Secret = bytes | _core.Certificates
"""A key or certificates, with which members of a job identify themselves."""


def _read(path: Path, message: str, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise bad_value(message, f"{path}: {error.strerror}", help=remedy) from error


def _read_private(path: Path, remedy: str) -> bytes:
    """Reads a file that only its owner may read."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise bad_value("the key cannot be read", f"{path}: {error.strerror}", help=remedy) from error
    content = _read(path, "the key cannot be read", remedy)
    if stat.S_IMODE(mode) & 0o077:
        raise bad_value("others may read the key", f"{path}: mode {stat.S_IMODE(mode):04o}", help=f"chmod 600 {path}")
    return content


def read_key(file: str | Path) -> bytes:
    """Reads a key from a file that only its owner may read: 32 raw bytes, or 64 hexadecimal digits.

    Raises ``SynclineError`` if others may read the file, or its content has another form.
    """
    path = Path(file)
    remedy = f"make one with: (umask 077; head -c {KEY_BYTES} /dev/urandom > {path})"
    content = _read_private(path, remedy)
    found = f"{path}: {len(content)} bytes"
    if len(content) != KEY_BYTES:
        try:
            content = bytes.fromhex(content.decode("ascii").strip())
        except ValueError:
            content = b""
    if len(content) != KEY_BYTES:
        raise bad_value(f"a key must have {KEY_BYTES} bytes", found, help=remedy)
    return content


@dataclass(frozen=True, kw_only=True)
class Security:
    """How the members of a job identify themselves: by certificates, or a key, or not at all.

    A job that other machines can reach needs one of the three. By default it has none, and stays on this machine.
    """

    tls: Certificates | str | Path | None = None
    """Certificates of the job's CA, which members show each other: a folder that ``syncline hub certs`` made, or
    :class:`Certificates`. Data is encrypted, and cannot be changed on its way."""
    key_file: str | Path | None = None
    """A file with a key of 32 bytes that members prove to share, and that only its owner may read. It keeps other
    processes out of the job. Data is neither encrypted nor protected from anyone who can inject packets."""
    insecure: bool = False
    """Runs without both; set it only if no untrusted machine can reach the job."""

    def secret(self, names: Iterable[str]) -> Secret | None:
        """Reads the key or certificates of this process, if it has either; ``names`` are names of files in a folder.

        Certificates are read again when their files change, and then used for new connections.

        Raises ``SynclineError`` if they cannot be read, or if both are given.
        """
        if self.key_file is not None and self.tls is not None:
            raise bad_value("certificates and a key are both given", "key_file and tls", help="give one of them")
        if self.tls is not None:
            certificates = Certificates.of(self.tls, names)
            return renewal.in_use(certificates.files, certificates.read)
        return None if self.key_file is None else read_key(self.key_file)

    def check(self, addresses: Iterable[str], key: Secret | None) -> None:
        """Checks that a job at ``addresses`` has a key or certificates, is ``insecure`` by choice, or is local.

        Raises ``SynclineError`` if it is none of these.
        """
        outside = [address for address in addresses if not ipaddress.ip_address(address).is_loopback]
        if outside and key is None and not self.insecure:
            raise bad_value(
                "anybody who reaches this address could join the job",
                outside[0],
                help="give all certificates of one CA (`tls`, --tls) or the same key (`key_file`, --key-file), "
                "or set `insecure=True` (--insecure) if only trusted machines can reach it",
            )
