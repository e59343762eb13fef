"""Default folders for results."""

from __future__ import annotations

import re
from pathlib import PurePath

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors


def chosen(out: str | None, default: str) -> str:
    """The folder that ``--out`` names, or ``default`` if the option is absent."""
    if out == "":
        raise_errors(
            error(
                Code.BAD_VALUE,
                "--out is empty",
                mark=Mark(Text("--out", ()), 0, 0, 0),
                help="name a folder, or leave it out",
            )
        )
    return default if out is None else out


def of_name(name: str) -> str:
    """The default folder for a scenario's results: within ``runs``, its name made safe for a path."""
    slug = re.sub(r"[^\w.+-]+", "-", name).strip("-.")[:100] or "scenario"
    return f"runs/{slug}"


def of_traces(prefix: str) -> str:
    """The default folder for results of traces: FOLDER-NAME, since traces in different folders often share a name."""
    path = PurePath(prefix)
    names = [path.parent.name, path.name]
    return of_name("-".join(dict.fromkeys(name for name in names if name.strip("."))))
