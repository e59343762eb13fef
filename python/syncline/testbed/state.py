"""Keeps track of testbeds: each has a file, from before its first namespace is made until after its last is removed."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors
from syncline.testbed import kernel
from syncline.testbed.difference import difference
from syncline.testbed.layout import Layout, from_dict
from syncline.testbed.links import Link, link_rates, with_rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = Path("/run/syncline/testbeds")


@dataclass(frozen=True)
class TestbedState:
    """A testbed that exists, as a whole or in part."""

    layout: Layout
    """Its parts, with the rates in its file."""
    file: str
    """The file that it was made from."""
    maker: int
    """The process that made it."""
    complete: bool
    """Whether it has come up as a whole."""
    changed: Mapping[Link, int] = field(default_factory=dict)
    """The rates of links that have other rates than in the file, in bits per second."""

    @property
    def now(self) -> Layout:
        """Its parts, with the rates that links have now."""
        return with_rates(self.layout, self.changed)

    def changes(self) -> list[dict[str, Any]]:
        """Returns the links that have other rates than in the file, as data for JSON."""
        in_file = link_rates(self.layout)
        return [
            {"from": link[0], "to": link[1], "rate_bits": bits, "file_bits": in_file[link]}
            for link, bits in self.changed.items()
        ]


@contextmanager
def locked() -> Iterator[None]:
    """Holds a lock, so that only one process changes testbeds at a time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write(known: TestbedState) -> None:
    """Writes the file of a testbed."""
    text = json.dumps(
        {
            "file": known.file,
            "maker": known.maker,
            "complete": known.complete,
            "changed": [[*link, bits] for link, bits in known.changed.items()],
            "layout": known.layout.as_dict(),
        }
    )
    aside = FOLDER / f".{known.layout.name}.{os.getpid()}"
    aside.write_text(text, "utf-8")
    aside.replace(_path(known.layout.name))


def forget(name: str) -> None:
    """Removes the files of a testbed that is gone."""
    _path(name).unlink(missing_ok=True)
    traffic_socket(name).unlink(missing_ok=True)


def find(name: str) -> TestbedState | None:
    """Returns the testbed of a name, or ``None`` if there is no valid file for it."""
    try:
        kept = json.loads(_path(name).read_text("utf-8"))
        changed = {(a, b): bits for a, b, bits in kept["changed"]}
        return TestbedState(from_dict(kept["layout"]), kept["file"], kept["maker"], kept["complete"], changed)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        # Another version wrote the file, or it is incomplete. The testbed's namespaces can still be found.
        return None


def names() -> list[str]:
    """Returns the names of all testbeds, including those that have left only namespaces."""
    kept = {path.stem for path in FOLDER.glob("*.json")} if FOLDER.is_dir() else set()
    left = {name.split(".")[1] for name in kernel.namespaces("syncline.") if name.count(".") == 2}
    return sorted(kept | left)


def require(name: str) -> TestbedState:
    """Returns the testbed of a name. Raises :class:`SynclineError` if it is not up."""
    found = find(name)
    if found is None or not found.complete:
        _unknown(name)
    return found


def require_same(known: TestbedState, asked: Layout) -> None:
    """Raises :class:`SynclineError` if a testbed that is up differs from the one that is asked for."""
    if (what := difference(known.layout, asked)) is not None:
        _taken(known, "a testbed of this name is up with another fabric", [what])


def raise_taken(known: TestbedState, asked: Layout) -> NoReturn:
    """Raises the error for a new testbed whose name is taken, with the difference between the two."""
    what = difference(known.layout, asked)
    other = " with another fabric" if what is not None else ""
    _taken(known, f"a testbed of this name is up{other}", [] if what is None else [what])


def _taken(known: TestbedState, message: str, notes: list[str]) -> NoReturn:
    name = known.layout.name
    raise_errors(
        error(
            Code.WHICH_TESTBED,
            message,
            found=name,
            help=f"take it down: syncline testbed down {name}; or give this one another `name`",
            notes=[*notes, *([f"it was made from {known.file}"] if known.file else [])],
        )
    )


def _unknown(name: str) -> NoReturn:
    there = [each for each in names() if (other := find(each)) is not None and other.complete]
    raise_errors(
        error(
            Code.WHICH_TESTBED,
            "there is no such testbed",
            found=name,
            allowed=", ".join(there) or None,
            nearest=nearest(name, there),
            help="bring it up: syncline testbed up SPEC.yaml",
        )
    )


def traffic_socket(name: str) -> Path:
    """Returns the Unix socket of the process that sends the traffic of a testbed's tenants."""
    return FOLDER / f"{name}.traffic"


def _path(name: str) -> Path:
    return FOLDER / f"{name}.json"
