"""Finds and calls a factory, given as ``pkg:factory``, to get a PyTorch module and its example inputs.

A factory is a function or class that returns a module, or a pair of a module and its example inputs. Importing and
calling it runs its code, like any Python program.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors
from syncline.models.traced.package import torch as package

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "bool")
"""Types of inputs."""


def build(reference: str, arguments: Mapping[str, Any], folder: str, *, meta: bool) -> tuple[Any, Any]:
    """Calls the factory that ``reference`` names; returns the module, and its inputs or ``None``.

    Python modules are also searched in ``folder``. With ``meta``, the factory makes its tensors on the device ``meta``,
    on which they have no values and need no memory.
    """
    torch = package()
    with _found_from(folder):
        factory = _find(reference)
        _check_arguments(reference, factory, arguments)
        try:
            with torch.device("meta") if meta else nullcontext():
                made = factory(**arguments)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - it may raise anything
            raise_errors(
                error(
                    Code.BAD_MODULE,
                    f"{reference} fails: {_said(problem)}",
                    help=_WITHOUT_VALUES if meta else None,
                )
            )
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        raise_errors(
            error(
                Code.BAD_MODULE,
                f"{reference} does not return a PyTorch module",
                found=type(made).__name__,
                allowed="an instance of torch.nn.Module, or a pair of one and its example inputs",
            )
        )
    return module, inputs


def sample(
    batch: int, shapes: Sequence[tuple[Sequence[int], str | None]], module: Any, *, values: bool = False
) -> tuple[Any, ...]:
    """Makes inputs for ``batch`` samples of the given shapes and types; no type means that of the parameters.

    The inputs have no values; with ``values``, they have random ones that are the same every time, and integers are 0
    or 1.
    """
    torch = package()
    own = next((each.dtype for each in module.parameters() if each.is_floating_point()), torch.get_default_dtype())
    made = []
    for shape, kind in shapes:
        data_type, size = getattr(torch, kind) if kind else own, (batch, *shape)
        if not values:
            made.append(torch.empty(size, dtype=data_type, device="meta"))
            continue
        drawn = torch.rand(size, generator=torch.Generator().manual_seed(0))
        made.append((drawn if data_type.is_floating_point else drawn.round()).to(data_type))
    return tuple(made)


def resized(inputs: Any, batch: int, samples: int) -> Any:
    """Inputs for ``samples`` samples, without values; ``inputs`` are for ``batch``, the first size of their tensors."""
    torch = package()
    if isinstance(inputs, torch.Tensor):
        if not inputs.dim() or inputs.shape[0] != batch:
            return inputs
        return torch.empty((samples, *inputs.shape[1:]), dtype=inputs.dtype, device="meta")
    if isinstance(inputs, (list, tuple)):
        made = [resized(each, batch, samples) for each in inputs]
        return made if isinstance(inputs, list) else tuple(made)
    if isinstance(inputs, dict):
        return {key: resized(each, batch, samples) for key, each in inputs.items()}
    return inputs


_WITHOUT_VALUES = (
    "its tensors are on the device `meta` and have no values: remove explicit devices from the factory; if it "
    "needs values, set `build: real`"
)


def _find(reference: str) -> Any:
    """Imports the factory."""
    name, colon, path = reference.partition(":")
    if not colon or not all(part.isidentifier() for part in [*name.split("."), *path.split(".")]):
        raise_errors(
            error(
                Code.BAD_MODULE,
                "not a valid name of a factory",
                found=reference,
                allowed="a Python module and a function or class in it, such as `models.vision:resnet50`",
            )
        )
    try:
        found: Any = import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is None or not (name == problem.name or name.startswith(f"{problem.name}.")):
            raise_errors(error(Code.BAD_MODULE, f"importing {name} fails: {_said(problem)}"))
        raise_errors(
            error(
                Code.BAD_MODULE,
                f"there is no Python module `{problem.name}`",
                found=reference,
                help="syncline searches the scenario's folder, and the folders that Python searches (PYTHONPATH)",
            )
        )
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - it may raise anything
        raise_errors(error(Code.BAD_MODULE, f"importing {name} fails: {_said(problem)}"))
    for part in path.split("."):
        if not hasattr(found, part):
            names = _offered(found)
            more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
            raise_errors(
                error(
                    Code.BAD_MODULE,
                    f"{name} has no `{path}`",
                    found=reference,
                    allowed=", ".join([*names[:_LISTED], *more]) or None,
                    nearest=nearest(part, names),
                )
            )
        found = getattr(found, part)
    if not callable(found):
        raise_errors(
            error(
                Code.BAD_MODULE,
                f"{reference} cannot be called",
                found=type(found).__name__,
                allowed="a function or class",
            )
        )
    return found


_LISTED = 12
"""Maximum number of names that are listed in an error about an unknown name."""


def _offered(holder: Any) -> list[str]:
    """Callable names in a module or class: first those that it defines itself, then those that it imports."""
    names = [each for each in dir(holder) if not each.startswith("_") and callable(getattr(holder, each, None))]
    home = getattr(holder, "__name__", None)
    return sorted(names, key=lambda each: getattr(getattr(holder, each), "__module__", None) != home)


def _check_arguments(reference: str, factory: Any, arguments: Mapping[str, Any]) -> None:
    """Raises an error if the factory does not accept the arguments, or needs more."""
    try:
        known = signature(factory)
    except (TypeError, ValueError):  # written in C, without a signature
        return
    try:
        known.bind(**arguments)
    except TypeError as problem:
        takes = [name for name, each in known.parameters.items() if each.kind not in _COLLECTED]
        wrong = next((name for name in arguments if name not in takes), None)
        raise_errors(
            error(
                Code.BAD_MODULE,
                f"{reference} does not take these arguments: {problem}",
                key="arguments" if arguments else "module",
                found=wrong or ", ".join(arguments) or "no argument",
                allowed=", ".join(takes) or "none",
                nearest=nearest(wrong, takes) if wrong else None,
                help="arguments are given by name: `arguments: { NAME: VALUE }`, or --argument NAME=VALUE",
            )
        )


_COLLECTED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@contextmanager
def _found_from(folder: str) -> Iterator[None]:
    """Within it, Python finds modules in ``folder``."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _said(problem: BaseException) -> str:
    """An exception as one line of text."""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"
