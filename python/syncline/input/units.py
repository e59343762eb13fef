"""Quantities: strings with a unit, checked by the core's grammar and kept as they were written."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from syncline import _core
from syncline.codes import Code
from syncline.input.base import validation_error
from syncline.input.problem import shown

_BARE = re.compile(r"[0-9.]+(e[+-]?[0-9]+)?")
_NUMBER = r"^\s*[0-9]*\.?[0-9]*(e[+-]?[0-9]+)?\s*"


def _quantity(kind: str, unit: str, example: str) -> tuple[BeforeValidator, WithJsonSchema]:
    def check(value: Any) -> str:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number and not isinstance(value, str):
            raise validation_error("value not allowed", allowed=f'a quantity with a unit, such as "{example}"')
        text = shown(value) if number else value.strip()
        if _BARE.fullmatch(text):
            remedy = f'add a unit, such as "{text}{example.lstrip("0123456789.")}"'
            raise validation_error("a number without a unit", code=Code.BAD_UNIT, found=text, help=remedy)
        try:
            _core.parse_quantity(kind, text)
        except ValueError as unreadable:
            problem, remedy = unreadable.args
            raise validation_error(
                problem, code=Code.BAD_UNIT, found=text if len(text) <= 60 else shown(text), help=remedy
            ) from None
        return str(text)

    schema = {"type": "string", "pattern": f"{_NUMBER}{unit}\\s*$", "examples": [example]}
    return BeforeValidator(check), WithJsonSchema(schema)


_PREFIXES = (("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3))


def decimal(amount: int, unit: str) -> str:
    """``amount`` without rounding, with the largest decimal prefix that fits, such as ``15.7TFLOP/s``."""
    prefix, power = next((each for each in _PREFIXES if amount >= 10 ** each[1]), ("", 0))
    return f"{Decimal(amount).scaleb(-power).normalize():f}{prefix}{unit}"


def bytes_per_s(rate: str) -> float:
    """A rate, such as ``100Gb/s``, in bytes per second."""
    return _core.parse_quantity("rate", rate) / 8


_SMALL = "[munp\u00b5\u03bc]?"
"""Micro may be written as u, as the micro sign, or as the Greek letter mu."""
_SI = "[kKMGTPE]?"
_BINARY = "([kKMGTPE]|[KMGT]i)?"

Time = Annotated[str, *_quantity("time", f"{_SMALL}s", "0.5us")]
"""A time, such as ``0.5us``."""
LongTime = Annotated[str, *_quantity("time", f"{_SMALL}s", "60s")]
"""A wall-clock time, such as ``60s``."""
Bytes = Annotated[str, *_quantity("bytes", f"{_BINARY}B", "64MiB")]
"""A size, such as ``64MiB``."""
Rate = Annotated[str, *_quantity("rate", f"{_BINARY}[bB]/s", "100Gb/s")]
"""A rate, such as ``100Gb/s`` (bits) or ``25GB/s`` (bytes)."""
Flops = Annotated[str, *_quantity("flops", f"{_SI}FLOP", "4.1GFLOP")]
"""A number of operations, such as ``4.1GFLOP``."""
FlopRate = Annotated[str, *_quantity("flop_rate", f"{_SI}FLOP/s", "312TFLOP/s")]
"""A compute rate, such as ``312TFLOP/s``."""
Frequency = Annotated[str, *_quantity("frequency", f"{_SI}Hz", "1GHz")]
"""A frequency, such as ``1GHz``."""
