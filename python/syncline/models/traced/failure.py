"""Errors for a module that fails: they name the operator, the submodule, the place of the call, and a remedy."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.models.traced.record import Recorder


class UntraceableError(Exception):
    """An operator that cannot be traced."""

    def __init__(self, operator: str, submodule: str, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.operator = operator
        """Its name, such as ``aten::nonzero``."""
        self.submodule = submodule
        """The submodule that called it; empty for the module itself."""
        self.remedy = remedy
        """What to do about it."""


def why(operator: str, problem: Exception) -> tuple[str, str] | None:
    """Why ``operator`` does not run on fake tensors, and the remedy; ``None`` if the module itself is wrong."""
    kind = type(problem).__name__
    if operator == "aten::_local_scalar_dense" and kind in _DEPENDS:
        return (
            "it takes a number out of a tensor (`.item()`, `int()`, a tensor in `if`), and fake tensors have no values",
            "exclude it from the traced code, or write it without values, such as `torch.where` in place of `if`",
        )
    if kind in _DEPENDS:
        return (
            "its result depends on values, and fake tensors have none",
            "exclude it from the traced code, or write it so that no shape depends on values",
        )
    if kind in _ALONE or "no fake impl" in str(problem):
        return (
            "PyTorch cannot tell the shape of its result without running it",
            f'describe its result with torch.library.register_fake("{operator}"), or exclude it from the traced code',
        )
    return None


_DEPENDS = frozenset(("DataDependentOutputException", "DynamicOutputShapeException"))
_ALONE = frozenset(("UnsupportedOperatorException", "UnsupportedFakeTensorException", "NotImplementedError"))


def check_module(torch: Any, module: Any) -> None:
    """Raises an error unless ``module`` is a PyTorch module that can run on fake tensors."""
    name = type(module).__name__
    if not isinstance(module, torch.nn.Module):
        raise_errors(
            error(
                Code.BAD_MODULE,
                "not a PyTorch module",
                found=name,
                allowed="an instance of torch.nn.Module",
                help="call the class" if isinstance(module, type) else None,
            )
        )
    for path, each in module.named_modules():
        where = f"{name}.{path}" if path else name
        if isinstance(each, torch.jit.ScriptModule):
            _unfit(
                f"{where} is TorchScript, whose operators cannot be recorded one by one",
                "give the module before scripting",
            )
        if isinstance(each, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            _unfit(f"{where} wraps a module for several devices", "give the wrapped module, `.module`")
        tensors = [*each.parameters(recurse=False), *each.buffers(recurse=False)]
        if any(torch.nn.parameter.is_lazy(tensor) for tensor in tensors):
            _unfit(
                f"the parameters of {where} have no shape yet ({type(each).__name__})",
                "run the module once first, or write the layer with the size of its input",
            )


def _unfit(message: str, remedy: str) -> None:
    raise_errors(error(Code.BAD_MODULE, message, help=remedy))


@contextmanager
def running(name: str, recorder: Recorder) -> Iterator[None]:
    """Turns exceptions while the module ``name`` runs into errors that say what failed or cannot be traced."""
    try:
        yield
    except SynclineError:
        raise
    except UntraceableError as problem:
        _untraceable(_where(name, problem.submodule), problem.operator, str(problem), problem.remedy, problem)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a module's code may raise anything
        if recorder.bug:
            raise recorder.bug from None
        where = _where(name, recorder.submodule)
        if found := re.search(r"HigherOrderOperator (\w+)", str(problem)):
            reason = "it calls Python code of its own, which cannot be recorded"
            remedy = "exclude it from the traced code, or write it with plain operators"
            _untraceable(where, found[1], reason, remedy, problem)
        reason = " ".join(str(problem).split())[:300]
        raise_errors(
            error(
                Code.BAD_MODULE,
                f"the forward pass of {where} fails on the example inputs: {type(problem).__name__}: {reason}",
                help="give inputs of the shapes and types that the module takes; they have no values (`.numpy()`)"
                if "numpy" in reason
                else "give inputs of the shapes and types that the module takes",
                notes=_called(problem),
            )
        )


def _untraceable(where: str, operator: str, reason: str, remedy: str, problem: BaseException) -> None:
    message = f"operator {operator} in submodule {where} cannot be traced: {reason}"
    raise_errors(error(Code.UNTRACEABLE, message, found=operator, help=remedy, notes=_called(problem)))


def _where(name: str, submodule: str) -> str:
    return f"{name}.{submodule}" if submodule else name


def _called(problem: BaseException) -> list[str]:
    """A note with the line of the module's own code that was running; empty if there is none."""
    import torch

    inner = tuple(str(Path(each).resolve().parent) for each in (torch.__file__, __file__))
    frames = [each for each in extract_tb(problem.__traceback__) if each.filename.endswith(".py")]
    own = [each for each in frames if not str(Path(each.filename).resolve()).startswith(inner)]
    if not own:
        return []
    path = Path(own[-1].filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return [f"called in {shown}, line {own[-1].lineno}"]
