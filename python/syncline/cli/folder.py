"""Where results go unless a command is told."""

from __future__ import annotations

import re
from pathlib import PurePath

from syncline.config.node import Mark, Text
from syncline.config.problem import error, refuse


def chosen(out: str | None, default: str) -> str:
    """The folder that ``--out`` names, or the default without it."""
    if out == "":
        refuse(
            error(
                "SL0102", "no folder is named", mark=Mark(Text("--out", ()), 0, 0, 0), help="leave it out, or name one"
            )
        )
    return default if out is None else out


def of_name(name: str) -> str:
    """The folder of a scenario's results: within ``runs``, whatever its name holds."""
    slug = re.sub(r"[^\w.+-]+", "-", name).strip("-.")[:100] or "scenario"
    return f"runs/{slug}"


def of_traces(prefix: str) -> str:
    """The folder of results of traces: jobs in folders of their own are often called the same, such as ``w``."""
    path = PurePath(prefix)
    names = [path.parent.name, path.name]
    return of_name("-".join(dict.fromkeys(name for name in names if name.strip("."))))
