"""Command-line options that several commands parse or refuse: values of a scenario, sizes, rates and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.input.source import Override

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def overrides(sets: Iterable[str], options: Mapping[str, tuple[str, str | None]]) -> list[Override]:
    """The overrides that the command line asks for: those of ``--set``, then those of other options.

    ``options`` maps a flag to the path of the key that it sets, and its value; None where the flag is absent.
    """
    found = [Override.parse(text) for text in sets]
    found += [Override(path, value, flag) for flag, (path, value) in options.items() if value is not None]
    return found


def refuse(options: Mapping[str, object], why: str, help: str) -> None:
    """Raises :class:`SynclineError` if an option is given. ``why`` goes on after its name: ``needs a scenario``."""
    for flag, value in options.items():
        if value:
            raise_errors(error(Code.BAD_VALUE, f"`{flag}` {why}", key=flag, help=help))


def size(flag: str, text: str) -> int:
    """The bytes that an option gives, such as ``25MB``. Raises :class:`SynclineError` if it is not a size."""
    return _quantity("bytes", flag, text)


def rate(flag: str, text: str) -> int:
    """The bits per second that an option gives, such as ``1Gb/s``.

    Raises :class:`SynclineError` if it is not a rate.
    """
    return _quantity("rate", flag, text)


def network_rate(flag: str, text: str) -> int:
    """The bits per second that an interface sends, as :func:`rate`, and more than 0."""
    if (found := rate(flag, text)) == 0:
        raise_errors(
            error(Code.BAD_VALUE, f"`{flag}` is 0", key=flag, found=text, allowed="a rate above 0, such as 400Gb/s")
        )
    return found


def seconds(flag: str, text: str) -> float:
    """The time that an option gives, such as ``60s``. Raises :class:`SynclineError` if it is not a time."""
    return _quantity("time", flag, text) / 1e12


def _quantity(kind: str, flag: str, text: str) -> int:
    """Parses a quantity in the smallest unit of its kind."""
    try:
        return _core.parse_quantity(kind, text)
    except ValueError as problem:
        message, remedy = problem.args
        raise_errors(error(Code.BAD_UNIT, message, key=flag, found=text, help=remedy))
