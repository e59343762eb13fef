"""``syncline profile``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from syncline.codes import Code
from syncline.files import write_whole
from syncline.input import yaml
from syncline.input.problem import cannot_write, error, nearest, raise_errors, require_writable
from syncline.models import times
from syncline.quantity import counted
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import say

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """Options of ``syncline profile``, as the user gives them."""

    factory: str
    out: str
    arguments: Sequence[str]
    inputs: Sequence[str]
    batch: int | None
    device: str
    repeats: int
    warm_up: int
    quiet: bool


def profile(options: ProfileOptions) -> int:
    """Measures a module's layers and writes their times to a file."""
    from syncline.models.traced import factory
    from syncline.models.traced.measure import Repeats, measure

    out, batch = options.out, options.batch
    shapes = [_input(each) for each in options.inputs]
    named = dict(_argument(each) for each in options.arguments)
    if batch is not None and not shapes:
        _raise_bad_value("--batch needs --input", help="pass the batch to the factory instead: --argument batch=32")
    # Measuring takes long, so all checks come before it.
    require_writable(out)
    with redirect_stdout(sys.stderr):
        module, example = factory.build(options.factory, named, str(Path.cwd()), meta=False)
        if shapes:
            example = factory.sample(32 if batch is None else batch, shapes, module, values=True)
        elif example is None:
            _raise_bad_value(
                "the inputs of the module are unknown",
                help="add --input 3x224x224, or let the factory return a pair of module and inputs",
            )
        with Waiting(quiet=options.quiet) as waiting:
            found = measure(module, example, Repeats(options.device, options.repeats, options.warm_up), waiting)
    try:
        write_whole(Path(out), times.text(found, out))
    except OSError as problem:
        raise_errors(cannot_write(out, problem))
    if not options.quiet:
        _summary(found, out)
    return 0


def _summary(found: times.Times, out: str) -> None:
    """Prints to stderr what was measured and where the table is."""
    layers = found.by_layer()
    say(f"Measured {counted(len(layers), 'layer')} of {found.label}")
    say(f"Wrote {out}; use it as compute: {{ model: table, file: {out} }}")


def _input(text: str) -> tuple[list[int], str | None]:
    """Parses a value of ``--input``: ``3x224x224`` or ``128:int64``."""
    from syncline.models.traced.factory import TYPES

    shape, colon, kind = text.partition(":")
    sizes = shape.lower().split("x") if shape else []
    if not all(size.isdecimal() and 0 < int(size) < 2**31 for size in sizes):
        _raise_bad_value("not a valid input shape", found=text, help="write --input 3x224x224, or --input 128:int64")
    if colon and kind not in TYPES:
        near = nearest(kind, TYPES)
        _raise_bad_value("unknown input type", found=kind, allowed=", ".join(TYPES), nearest=near)
    return [int(size) for size in sizes], kind or None


def _argument(text: str) -> tuple[str, Any]:
    """Parses a value of ``--argument``, such as ``width=4096``; the part after ``=`` is YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        _raise_bad_value("not of the form KEY=VALUE", found=text, help="write --argument width=4096")
    return key, yaml.read(value, "--argument").to_python() if value.strip() else None


def _raise_bad_value(message: str, **more: Any) -> NoReturn:
    raise_errors(error(Code.BAD_VALUE, message, **more))
