"""``syncline init``."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from syncline.codes import Code
from syncline.files import write_whole
from syncline.input.node import Mark, Text
from syncline.input.problem import cannot_write, error, exists_already, nearest, raise_errors
from syncline.terminal.streams import say


def init(name: str, template: str, *, listing: bool, force: bool) -> int:
    """Writes ``NAME.yaml`` from a template, and the schema beside it; with ``listing``, only lists the templates."""
    known = templates()
    if listing:
        for each, path in known.items():
            sys.stdout.write(f"{each:20} {_summary(path)}\n")
        return 0
    if template not in known:
        mark = Mark(Text("--template", [template]), 1, 1, 0)
        near = nearest(template, known)
        raise_errors(error(Code.BAD_VALUE, "no such template", mark=mark, allowed=", ".join(known), nearest=near))
    target = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    if target.name in (".yaml", ".yml"):
        raise_errors(
            error(Code.BAD_VALUE, "NAME is empty", found=name or "nothing", help="write a name: syncline init scenario")
        )
    if target.exists() and not force:
        raise_errors(exists_already(target))
    from syncline.config import schema

    try:
        write_whole(target.parent / schema.FILE, schema.text())
        write_whole(target, known[template].read_text("utf-8"))
    except OSError as problem:
        raise_errors(cannot_write(target, problem))
    sys.stdout.write(f"{target}\n")
    say(f"Next: syncline simulate {target}")
    return 0


def templates() -> dict[str, Path]:
    """Path of each template, by name."""
    folder = Path(str(files("syncline") / "templates"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def _summary(path: Path) -> str:
    """The template's first comment, apart from the line that names its schema."""
    lines = path.read_text("utf-8").splitlines()
    comments = (line[1:].strip() for line in lines if line.startswith("# ") and "yaml-language-server" not in line)
    return next(comments, "")
