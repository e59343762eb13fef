"""``syncline explain``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.errors import ExitStatus
from syncline.input.node import Mark, Text
from syncline.input.problem import error, nearest, raise_errors
from syncline.terminal.streams import console, show, show_json

if TYPE_CHECKING:
    from syncline.explanation.meanings import Meaning


def explain(what: str, *, as_json: bool) -> int:
    """Explains an error code, a name in the results, or a run.

    Where a folder has the name of a table or column, the latter wins: ``ranks`` is the column, ``./ranks`` the folder.
    """
    codes = {each[0]: each for each in _core.codes()}
    # The digits of a code are enough: 104 means SL0104.
    code = f"SL{what:0>4}" if what.isdecimal() else what.upper()
    if code in codes:
        identity, _, title, text, status = codes[code]
        return _code(identity, title, text, status, as_json=as_json)
    if not _is_path(what):
        from syncline.explanation import meanings

        if found := meanings.find(what):
            return _names(what, found, as_json=as_json)
        if not Path(what).exists():
            _unknown(what, code, list(codes), meanings.names())
    return _run(what, as_json=as_json)


def _is_path(what: str) -> bool:
    separators = [each for each in (os.sep, os.altsep) if each]
    # The name of a file in the current folder means that file, even if it is also a name in the results.
    return any(each in what for each in separators) or what in (".", "..") or Path(what).is_file()


def _unknown(what: str, code: str, codes: list[str], names: list[str]) -> None:
    mark = Mark(Text("RUN|COLUMN|CODE", [what]), 1, 1, 0)
    if code.startswith("SL") and code[2:].isdecimal():
        allowed = f"{codes[0]} to {codes[-1]}"
        raise_errors(
            error(Code.BAD_VALUE, "no such code", mark=mark, found=what, allowed=allowed, nearest=nearest(code, codes))
        )
    run = Path("runs") / what
    raise_errors(
        error(
            Code.BAD_VALUE,
            "neither a run, nor a name in the results, nor an error code",
            mark=mark,
            found=what,
            allowed="the folder of a run; a table, a column or a key of the summary; a code such as SL0104",
            nearest=run.as_posix() if (run / "manifest.json").is_file() else nearest(what, names),
            help="docs/reference/results.md lists all names, docs/reference/errors.md all codes",
        )
    )


def _code(identity: str, title: str, text: str, status: int, *, as_json: bool) -> int:
    if as_json:
        show_json({"code": identity, "title": title, "explanation": text, "exit_status": status})
        return 0
    from rich.text import Text as Styled

    show(
        Styled.assemble((f"{identity}: {title}", "bold")),
        "",
        text,
        "",
        f"This error ends the command with exit status {status}: {ExitStatus(status).meaning}."
        if status
        else "This is always a warning: the command continues, and its exit status does not change.",
    )
    return 0


def _names(what: str, found: list[Meaning], *, as_json: bool) -> int:
    if as_json:
        show_json({"name": what, "found": [each.json() for each in found]})
        return 0
    from syncline.explanation.screen import meanings

    show(*meanings(what, found, console().width))
    return 0


def _run(what: str, *, as_json: bool) -> int:
    from syncline.explanation.explanation import explain as explain_run
    from syncline.result import Result

    result = Result.load(what, verify=True)
    sections = explain_run(result)
    if as_json:
        from dataclasses import asdict

        answer: dict[str, Any] = {
            "folder": str(result.folder),
            "version": result.version,
            "sections": [asdict(section) for section in sections],
            "summary": result.summary.as_dict(),
            "diagnostics": result.warnings,
        }
        show_json(answer)
        return 0
    from syncline.explanation.screen import story

    show(*story(result, sections, console().width))
    return 0
