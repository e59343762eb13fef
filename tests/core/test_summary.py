"""``syncline.summary`` says of every key what the core says. ``UPDATE=1`` writes its docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import textwrap
from pathlib import Path

from syncline import _core, summary

PREFIXES = {
    "": "Summary",
    "dims[].": "Dimension",
    "packets.": "Packets",
    "overload.": "Overload",
    "jobs[].": "JobSummary",
    "exposed_by_axis[].": "Axis",
    "critical_path[].": "PathPart",
    "bottleneck.": "Bottleneck",
}


def declared() -> dict[tuple[str, str], str]:
    """The meaning of each key of each class, as the core declares it."""
    found = {}
    for table, name, _, _, meaning, _ in _core.result_names():
        if table == "summary":
            head, dot, key = name.rpartition(".")
            found[PREFIXES[head + dot], key] = meaning
    return found


def documented() -> dict[tuple[str, str], ast.Constant]:
    """The docstring of each attribute: the expression after it."""
    found = {}
    for node in ast.parse(inspect.getsource(summary)).body:
        if isinstance(node, ast.ClassDef):
            for attribute, below in itertools.pairwise(node.body):
                if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name):
                    assert isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant), attribute.target.id
                    found[node.name, attribute.target.id] = below.value
    return found


def plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def update() -> None:
    """Writes the meanings of the core into the docstrings."""
    file = Path(summary.__file__)
    lines = file.read_text("utf-8").split("\n")
    found = sorted(documented().items(), key=lambda each: -each[1].lineno)
    for key, string in found:
        said = f'"""{declared()[key].replace("`", "``")}"""'
        new = textwrap.wrap(said, 116, break_long_words=False, break_on_hyphens=False)
        lines[string.lineno - 1 : string.end_lineno] = textwrap.indent("\n".join(new), "    ").split("\n")
    file.write_text("\n".join(lines), "utf-8")


def test_the_classes_have_the_keys_and_meanings_of_the_core() -> None:
    if os.environ.get("UPDATE"):
        update()
    found = {key: plain(str(string.value)) for key, string in documented().items()}
    assert found == declared(), "run again with UPDATE=1"
