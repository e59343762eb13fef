"""Makes diagnostics in Python, in the same form as those of the core."""

from __future__ import annotations

import os
from functools import cache
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from syncline import _core
from syncline.codes import Code
from syncline.errors import Diagnostic, ExitStatus, SynclineError
from syncline.input.node import Mark, Text

if TYPE_CHECKING:
    from collections.abc import Iterable


def error(
    code: str,
    message: str,
    *,
    mark: Mark | None = None,
    key: str | None = None,
    found: str | None = None,
    allowed: str | None = None,
    nearest: str | None = None,
    help: str | None = None,
    notes: Iterable[str] = (),
) -> Diagnostic:
    """An error with the code ``code``. ``message`` is one sentence that names the broken rule, without a full stop."""
    made = Diagnostic(code=code, severity="error", message=message)
    if mark is not None:
        made["place"] = mark.place()
    if key is not None:
        made["key"] = key
    if found is not None:
        made["found"] = found
    if allowed is not None:
        made["allowed"] = allowed
    if nearest is not None:
        made["nearest"] = nearest
    if help is not None:
        made["help"] = help
    if notes := list(notes):
        made["notes"] = notes
    return made


def warning(
    code: str, message: str, *, mark: Mark | None = None, key: str | None = None, found: str | None = None, help: str
) -> Diagnostic:
    """A warning with the code ``code``; arguments are those of :func:`error`."""
    return {**error(code, message, mark=mark, key=key, found=found, help=help), "severity": "warning"}


def cannot_write(path: str | os.PathLike[str], reason: OSError | str) -> Diagnostic:
    """The error for a file or folder that cannot be written, and the reason."""
    if isinstance(reason, OSError):
        reason = (reason.strerror or str(reason)).lower()
    return error(Code.CANNOT_WRITE, f"cannot be written: {reason}", mark=Mark(Text(str(path), ()), 0, 0, 0))


def exists_already(path: str | os.PathLike[str]) -> Diagnostic:
    """The error for a file that only ``--force`` replaces."""
    place = Mark(Text(Path(path).as_posix(), ()), 0, 0, 0)
    return error(Code.BAD_VALUE, "the file exists already", mark=place, help="choose another name, or add --force")


def require_writable(path: str | os.PathLike[str], *, force: bool = True) -> None:
    """Checks that a file can be written, before long work; neither creates nor changes it.

    :raises SynclineError: it cannot be, or the file exists already and ``force`` is false.
    """
    target = Path(path)
    if target.is_dir():
        raise_errors(cannot_write(path, "it is a folder"))
    if target.exists() and not force:
        raise_errors(exists_already(path))
    try:
        if target.exists():
            target.open("ab").close()
        elif not target.parent.is_dir():
            raise_errors(cannot_write(path, "the folder does not exist"))
        elif not os.access(target.parent, os.W_OK):
            raise_errors(cannot_write(path, "permission denied"))
    except OSError as problem:
        raise_errors(cannot_write(path, problem))


def bad_value(
    message: str, found: str, *, allowed: str | None = None, nearest: str | None = None, help: str | None = None
) -> SynclineError:
    """The exception for an argument of a call that cannot be used. ``allowed`` lists values, and ``help`` a remedy."""
    return exception(error(Code.BAD_VALUE, message, found=found, allowed=allowed, nearest=nearest, help=help))


def exception(*problems: Diagnostic) -> SynclineError:
    """The exception for all of ``problems`` together."""
    return SynclineError(list(problems), exit_status(problems))


def raise_errors(*problems: Diagnostic) -> NoReturn:
    """Raises all of ``problems`` together."""
    raise exception(*problems)


def exit_status(problems: Iterable[Diagnostic]) -> int:
    """Exit status of the process: that of the first error, or 0 without errors."""
    for problem in problems:
        if problem["severity"] == "error":
            return _statuses().get(problem["code"], ExitStatus.BUG)
    return ExitStatus.DONE


def divisors(whole: int) -> list[int]:
    """The numbers that divide ``whole``, the smallest first."""
    small = [each for each in range(1, isqrt(whole) + 1) if whole % each == 0]
    return small + [whole // each for each in reversed(small) if each * each != whole]


def nearest_divisor(found: int, whole: int) -> int:
    """The divisor of ``whole`` that is nearest to ``found``; of two that are as near, the smaller one."""
    return min(divisors(whole), key=lambda each: (abs(each - found), each))


def nearest(found: str, names: Iterable[str], *, likeness: float = 0.0) -> str | None:
    """The one of ``names`` that ``found`` was most likely meant to be; None if none is near.

    ``likeness``, from 0 to 1, is how similar the two must be by ``difflib``. It also finds names that share a long part
    with ``found`` but differ in many letters, such as ``batch_per_npu`` for ``batch``.
    """
    known = list(names)
    near = _core.nearest(found, known)
    if not likeness or not known:
        return near
    from difflib import SequenceMatcher

    def similar(name: str) -> float:
        return SequenceMatcher(None, found[:100].lower(), name.lower()).ratio()

    best = near if near is not None and similar(near) >= likeness else max(known, key=similar)
    return best if similar(best) >= likeness else None


def shown(value: object) -> str:
    """``value`` as a user wrote it, cut to at most 60 characters."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif value is None:
        text = "nothing"
    elif isinstance(value, dict):
        text = "a mapping"
    elif isinstance(value, list):
        text = "a list"
    elif isinstance(value, str):
        text = f'"{value}"' if value.strip() == "" or (value[:1].isdigit() and value.isdigit()) else value
    else:
        try:
            text = str(value)
        except ValueError:  # an integer with more digits than Python prints
            text = "a very large number"
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def _statuses() -> dict[str, int]:
    return {code: status for code, *_, status in _core.codes()}
