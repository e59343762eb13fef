"""Options keep their names in every version of typer that the package allows."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing

from typer.models import OptionInfo

from syncline.cli import arguments


def options():
    """Every option of the command line: its module, command, parameter and definition."""
    for module in pkgutil.iter_modules(arguments.__path__, f"{arguments.__name__}."):
        functions = inspect.getmembers(importlib.import_module(module.name), inspect.isfunction)
        for command, function in functions:
            if function.__module__ != module.name:
                continue
            for parameter, hint in typing.get_type_hints(function, include_extras=True).items():
                for definition in getattr(hint, "__metadata__", ()):
                    if isinstance(definition, OptionInfo):
                        yield command, parameter, definition


def test_a_placeholder_like_the_name_needs_the_name():
    # typer 0.27 takes a placeholder for the name if the two differ in case alone: `--DEVICE` for `--device`.
    found = list(options())
    assert len(found) > 50
    nameless = [
        (command, parameter)
        for command, parameter, definition in found
        # In an annotation, typer keeps the first name as the default.
        if (definition.metavar or "").lower() == parameter
        and not (definition.param_decls or isinstance(definition.default, str))
    ]
    assert not nameless
