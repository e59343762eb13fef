"""``syncline profile``."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from syncline.codes import Code
from syncline.files import write_whole
from syncline.input import yaml
from syncline.input.node import Mark, Text
from syncline.input.problem import error, nearest, refuse
from syncline.models import times
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def profile(
    reference: str,
    out: str,
    *,
    arguments: Iterable[str],
    inputs: Sequence[str],
    batch: int | None,
    device: str,
    repeats: int,
    warm_up: int,
    quiet: bool,
) -> int:
    """Measures a module's layers and writes their times to ``out``."""
    from syncline.models.traced import factory
    from syncline.models.traced.measure import Plan, measure

    shapes = [_input(each) for each in inputs]
    named = dict(_argument(each) for each in arguments)
    if batch is not None and not shapes:
        _refuse("--batch needs --input", help="pass the batch to the factory instead: --argument batch=32")
    target = Path(out)
    if not target.parent.is_dir():
        _cannot_write(out, "the folder does not exist")
    if target.is_dir():
        _cannot_write(out, "it is a folder")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        _cannot_write(out, "permission denied")
    # Measuring takes long, so all checks come before it.
    with redirect_stdout(sys.stderr):
        module, example = factory.build(reference, named, str(Path.cwd()), meta=False)
        if shapes:
            example = factory.sample(32 if batch is None else batch, shapes, module, values=True)
        elif example is None:
            _refuse(
                "the inputs of the module are unknown",
                help="add --input 3x224x224, or let the factory return a pair of module and inputs",
            )
        with Waiting(quiet=quiet) as waiting:
            found = measure(module, example, Plan(device, repeats, warm_up), waiting)
    try:
        write_whole(target, times.text(found, out))
    except OSError as problem:
        _cannot_write(out, (problem.strerror or str(problem)).lower())
    if not quiet:
        _summary(found, out)
    return 0


def _summary(found: times.Times, out: str) -> None:
    """Prints to stderr what was measured and where the table is."""
    layers = found.by_layer()
    say(f"Measured {len(layers)} layer{'' if len(layers) == 1 else 's'} of {found.label}")
    say(f"Wrote {out}; use it as compute: {{ model: table, file: {out} }}")


def _input(text: str) -> tuple[list[int], str | None]:
    """Parses a value of ``--input``: ``3x224x224`` or ``128:int64``."""
    from syncline.models.traced.factory import TYPES

    shape, colon, kind = text.partition(":")
    sizes = shape.lower().split("x") if shape else []
    if not all(size.isdecimal() and 0 < int(size) < 2**31 for size in sizes):
        _refuse("not a valid input shape", found=text, help="write --input 3x224x224, or --input 128:int64")
    if colon and kind not in TYPES:
        near = nearest(kind, TYPES)
        _refuse("unknown input type", found=kind, allowed=", ".join(TYPES), nearest=near)
    return [int(size) for size in sizes], kind or None


def _argument(text: str) -> tuple[str, Any]:
    """Parses a value of ``--argument``, such as ``width=4096``; the part after ``=`` is YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        _refuse("not of the form KEY=VALUE", found=text, help="write --argument width=4096")
    return key, yaml.read(value, "--argument").plain() if value.strip() else None


def _refuse(message: str, **more: Any) -> NoReturn:
    refuse(error(Code.BAD_VALUE, message, **more))


def _cannot_write(path: str, reason: str) -> NoReturn:
    refuse(error(Code.CANNOT_WRITE, f"cannot be written: {reason}", mark=Mark(Text(path, ()), 0, 0, 0)))
