"""``syncline explain``."""

from __future__ import annotations

from syncline import _core
from syncline.cli.streams import show, show_json
from syncline.config.node import Mark, Text
from syncline.config.problem import error, nearest, refuse

STATUSES = {
    0: "done",
    1: "done, and the answer is no",
    2: "usage or configuration",
    3: "unreadable or corrupt input",
    4: "the simulated job deadlocks",
    5: "a limit was reached; partial results are valid",
    6: "a peer or host failed",
    70: "a bug of syncline",
    130: "interrupted",
}


def explain(code: str, *, as_json: bool) -> int:
    """Prints the page of a code."""
    pages = {each[0]: each for each in _core.codes()}
    # Digits alone are enough: 104 is SL0104.
    wanted = f"SL{code:0>4}" if code.isdecimal() else code.upper()
    if wanted not in pages:
        mark = Mark(Text("CODE", [code]), 1, 1, 0)
        allowed = f"{next(iter(pages))} to {next(reversed(pages))}"
        near = nearest(wanted, pages)
        refuse(error("SL0102", "no such code", mark=mark, found=code, allowed=allowed, nearest=near))
    identity, title, text, status = pages[wanted]
    if as_json:
        show_json({"code": identity, "title": title, "explanation": text, "exit_status": status})
        return 0
    from rich.text import Text as Styled

    show(
        Styled.assemble((f"{identity}: {title}", "bold")),
        "",
        text,
        "",
        f"As an error, it ends the command with exit status {status}: {STATUSES.get(status, '')}."
        if status
        else "It is only ever a warning: the command goes on, and its exit status does not change.",
    )
    return 0
