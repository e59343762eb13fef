"""Certificates for a job: a CA, and what hubs and ranks show each other."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.runtime.memory import refusal
from syncline.runtime.trust import Certificates

if TYPE_CHECKING:
    from syncline.errors import SynclineError

DAYS = 30
"""How long certificates are good for, unless told otherwise."""


@dataclass(frozen=True)
class Made:
    """What was made, and where it belongs."""

    folder: str
    hub: list[str]
    """Files of hosts that serve."""
    ranks: dict[str, list[str]]
    """Files of hosts with ranks."""
    ends: str

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    def text(self) -> str:
        """As a person reads it."""
        lines = [f"certificates until {self.ends} are in {self.folder}; copy"]
        lines.append(f"  to hosts of hubs: {', '.join(self.hub)}")
        lines += [f"  to hosts of {who}: {', '.join(files)}" for who, files in self.ranks.items()]
        lines.append("keys (.key) are for their owner's eyes alone; the CA's own key was not kept")
        return "\n".join(lines)


def make(folder: str | Path, *, job: str | None = None, ranks: int = 0, days: int = DAYS, force: bool = False) -> Made:
    """Makes a CA, and certificates of it for hubs and ranks, in a folder.

    They are good for ``days``; with ``job`` for that job alone; with ``ranks`` each rank has one of its own, that no
    other can use. Whoever has lost one makes all anew: the CA's key is not kept, so nobody can add to them.

    Raises ``SynclineError`` where files are there already (and not ``force``) or cannot be written, or what is given
    is invalid.
    """
    path = Path(folder)
    try:
        texts = _core.make_certificates(job, ranks, days)
    except (ValueError, OverflowError) as error:
        raise refusal("such certificates cannot be made", str(error), "see syncline hub certs --help") from None
    there = sorted(path.glob("*.pem")) + sorted(path.glob("*.key"))
    if there and not force:
        names = ", ".join(each.name for each in there[:4]) + (", ..." if len(there) > 4 else "")
        raise refusal(
            "there are certificates already", f"{path}: {names}", "another folder, or --force to replace them"
        )
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in there:
            # What is of another CA would be of no use beside these.
            if old.name not in texts:
                old.unlink()
        for name, text in sorted(texts.items()):
            _write(path / name, text, 0o600 if name.endswith(".key") else 0o644)
    except OSError as error:
        raise _failure(error, path) from error
    pairs = {f"rank {rank}": f"rank-{rank}" for rank in range(ranks)} or {"ranks": "rank"}
    files = {who: ["ca.pem", f"{name}.pem", f"{name}.key"] for who, name in pairs.items()}
    ends = min(Certificates.of(path, ("hub",)).read().ends)
    return Made(str(path), ["ca.pem", "hub.pem", "hub.key"], files, _core.certificate_date(ends))


def _write(path: Path, text: str, mode: int) -> None:
    """Puts a file in its place once it is all there; nobody else can ever read it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _failure(error: OSError, path: Path) -> SynclineError:
    return refusal(
        "the certificates cannot be written", f"{error.filename or path}: {error.strerror}", "a folder of your own"
    )
