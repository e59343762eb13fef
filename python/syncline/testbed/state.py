"""Which testbeds there are: one file for each, which is there from before the first namespace until after the last."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from syncline.config.problem import error, nearest, refuse
from syncline.testbed import kernel
from syncline.testbed.difference import difference
from syncline.testbed.layout import Layout, from_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path("/run/syncline/testbeds")


@dataclass(frozen=True)
class Known:
    """A testbed that is there, or was not taken down."""

    layout: Layout
    file: str
    """What it was made from."""
    maker: int
    """The process that made it."""
    complete: bool
    """Whether it came up."""


@contextmanager
def locked() -> Iterator[None]:
    """Only one process changes testbeds at a time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write(known: Known) -> None:
    """Remembers a testbed."""
    text = json.dumps(
        {"file": known.file, "maker": known.maker, "complete": known.complete, "layout": known.layout.plain()}
    )
    aside = FOLDER / f".{known.layout.name}.{os.getpid()}"
    aside.write_text(text, "utf-8")
    aside.replace(_path(known.layout.name))


def forget(name: str) -> None:
    """Of a testbed that is gone."""
    _path(name).unlink(missing_ok=True)


def find(name: str) -> Known | None:
    """A testbed by its name, if it is there."""
    try:
        kept = json.loads(_path(name).read_text("utf-8"))
        return Known(from_plain(kept["layout"]), kept["file"], kept["maker"], kept["complete"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        # Written by another version, or half: its namespaces say the rest.
        return None


def names() -> list[str]:
    """Of all testbeds, also of those of which only namespaces are left."""
    kept = {path.stem for path in FOLDER.glob("*.json")} if FOLDER.is_dir() else set()
    left = {name.split(".")[1] for name in kernel.namespaces("syncline.") if name.count(".") == 2}
    return sorted(kept | left)


def known(name: str) -> Known:
    """A testbed that is up, by its name. Raises :class:`SynclineError` where it is not."""
    found = find(name)
    if found is None or not found.complete:
        _unknown(name)
    return found


def same(known: Known, asked: Layout) -> None:
    """Raises :class:`SynclineError` where a testbed that is up is not the one that is asked for."""
    if (what := difference(known.layout, asked)) is not None:
        _taken(known, "a testbed of this name is up with another fabric", [what])


def refuse_taken(known: Known, asked: Layout) -> NoReturn:
    """Says that a testbed is up where another one is to come, and in what they differ."""
    what = difference(known.layout, asked)
    other = " with another fabric" if what is not None else ""
    _taken(known, f"a testbed of this name is up{other}", [] if what is None else [what])


def _taken(known: Known, message: str, notes: list[str]) -> NoReturn:
    name = known.layout.name
    refuse(
        error(
            "SL1103",
            message,
            found=name,
            help=f"take it down: syncline testbed down {name}; or give this one another `name`",
            notes=[*notes, *([f"it was made from {known.file}"] if known.file else [])],
        )
    )


def _unknown(name: str) -> NoReturn:
    there = [each for each in names() if (other := find(each)) is not None and other.complete]
    refuse(
        error(
            "SL1103",
            "there is no such testbed",
            found=name,
            allowed=", ".join(there) or None,
            nearest=nearest(name, there),
            help="bring it up: syncline testbed up SPEC.yaml",
        )
    )


def _path(name: str) -> Path:
    return FOLDER / f"{name}.json"
