"""Makes the certificates of a job: its CA, and the certificates that hubs and ranks show each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.files import write_whole
from syncline.input.problem import bad_value
from syncline.runtime.security import Certificates

if TYPE_CHECKING:
    from syncline.errors import SynclineError

DAYS = 30
"""Default validity of certificates, in days."""


@dataclass(frozen=True)
class Made:
    """The files that were made, and the hosts that need them."""

    folder: str
    hub: list[str]
    """Files for hosts of hubs."""
    ranks: dict[str, list[str]]
    """Files for hosts of ranks."""
    ends: str
    """When the certificates expire."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as data for JSON."""
        return asdict(self)

    def text(self) -> str:
        """Returns the fields as text for the terminal."""
        lines = [f"certificates valid until {self.ends} are in {self.folder}; copy"]
        lines.append(f"  to hosts of hubs: {', '.join(self.hub)}")
        lines += [f"  to hosts of {who}: {', '.join(files)}" for who, files in self.ranks.items()]
        lines.append("keep the keys (.key) secret; the CA's own key was not kept")
        return "\n".join(lines)


def make(folder: str | Path, *, job: str | None = None, ranks: int = 0, days: int = DAYS, force: bool = False) -> Made:
    """Makes a CA in a folder, and certificates of that CA for hubs and ranks.

    The certificates are valid for ``days`` days. With ``job`` they are valid for that job only. With ``ranks`` each
    rank gets a certificate that no other rank can use. The CA's key is not kept, so certificates cannot be added later:
    to replace a lost one, make all of them again.

    Raises ``SynclineError`` if the folder has certificates already (unless ``force``), if a file cannot be written, or
    if an argument is invalid.
    """
    path = Path(folder)
    try:
        texts = _core.make_certificates(job, ranks, days)
    except (ValueError, OverflowError) as error:
        raise bad_value(
            "invalid arguments for certificates", str(error), help="syncline hub certs --help describes them"
        ) from None
    there = sorted(path.glob("*.pem")) + sorted(path.glob("*.key"))
    if there and not force:
        names = ", ".join(each.name for each in there[:4]) + (", ..." if len(there) > 4 else "")
        raise bad_value(
            "the folder has certificates already",
            f"{path}: {names}",
            help="choose another folder, or give --force to replace them",
        )
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in there:
            # Certificates of the old CA cannot be used with those of the new one.
            if old.name not in texts:
                old.unlink()
        for name, text in sorted(texts.items()):
            write_whole(path / name, text, mode=0o600 if name.endswith(".key") else 0o644)
    except OSError as error:
        raise _failure(error, path) from error
    pairs = {f"rank {rank}": f"rank-{rank}" for rank in range(ranks)} or {"ranks": "rank"}
    files = {who: ["ca.pem", f"{name}.pem", f"{name}.key"] for who, name in pairs.items()}
    ends = min(Certificates.of(path, ("hub",)).read().ends)
    return Made(str(path), ["ca.pem", "hub.pem", "hub.key"], files, _core.certificate_date(ends))


def _failure(error: OSError, path: Path) -> SynclineError:
    return bad_value(
        "the certificates cannot be written",
        f"{error.filename or path}: {error.strerror}",
        help="choose a folder that you can write to",
    )
