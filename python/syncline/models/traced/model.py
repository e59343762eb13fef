"""Turns a PyTorch module into the layers of a workload."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors, shown
from syncline.models.data_types import bytes_of
from syncline.models.registry import countable
from syncline.models.traced.failure import check_module, running
from syncline.models.traced.package import torch as package
from syncline.models.traced.record import Recorder
from syncline.models.types import PRECISIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from syncline.models.layer import Layer, Sharding

SHARDINGS = ("gather", "column", "row", "divided", "replicated")
"""Ways in which tensor parallelism can divide a traced layer."""

_TYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}


@dataclass(frozen=True)
class Traced:
    """A module's layers, and their totals."""

    name: str
    """Name of the module's class."""
    layers: tuple[Layer, ...]
    """The layers, in the order in which they run."""
    precision: str
    """Precision of training, by its name in scenarios."""
    batch_per_npu: int | None
    """Samples of the example inputs: their first size. ``None`` if they are not tensors."""

    @property
    def parameters(self) -> int:
        """Trained parameters that the run used."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        """Multiplies-adds of the forward pass in matrix products."""
        return sum(layer.multiply_adds for layer in self.layers)

    @property
    def gradient_bytes(self) -> int:
        """Bytes of all gradients that are reduced."""
        return self.parameters * bytes_of(PRECISIONS[self.precision].gradients)

    @property
    def activation_bytes(self) -> int:
        """Bytes of the layers' output activations."""
        return sum(layer.outputs for layer in self.layers) * bytes_of(PRECISIONS[self.precision].activations)

    def scenario(self) -> list[dict[str, Any]]:
        """The layers in the form of a resolved scenario."""
        return [layer.scenario(PRECISIONS[self.precision]) for layer in self.layers]

    def workload(self, **more: Any) -> dict[str, Any]:
        """The workload of a scenario, for :func:`syncline.simulate`, with ``parallel`` and ``iterations`` if given."""
        layers = []
        for layer in self.scenario():
            works = {key: value["ops"] for key, value in layer.items() if isinstance(value, dict)}
            kept = {key: value for key, value in layer.items() if value != "none"}
            layers.append({**kept, **works})
        batch = {} if self.batch_per_npu is None else {"batch_per_npu": self.batch_per_npu}
        return {"layers": layers, "precision": self.precision, **batch, **more}


def from_torch(
    module: Any,
    example_inputs: Any,
    *,
    sharding: Mapping[str, str] | None = None,
    precision: str | None = None,
    costs: Mapping[str, float] | None = None,
) -> Traced:
    """Finds the layers of a PyTorch module by running it once on tensors without values.

    ``example_inputs`` is a tensor, a tuple of positional arguments, or a mapping of keyword arguments; only shapes and
    types matter, so tensors on the device ``meta`` are enough. Neither the module nor the inputs are changed, and no
    memory is needed for their values. Without ``precision``, the type of most parameters determines it. ``sharding``
    says by pattern how tensor parallelism divides layers, such as ``{"*.o_proj": "row"}``; the first pattern that
    matches applies, and layers without a match have ``gather``. ``costs`` gives FLOP per element of the result for
    operators that syncline does not know.

    Raises :class:`~syncline.SynclineError` if the module cannot be traced; the error names operator and submodule.
    """
    torch = package()
    check_module(torch, module)
    chosen = precision or data_type_of(torch, module)
    if chosen not in PRECISIONS:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "unknown precision",
                key="precision",
                found=str(chosen),
                allowed=", ".join(PRECISIONS),
                nearest=nearest(str(chosen), PRECISIONS),
            )
        )
    arguments, named = as_arguments(example_inputs)
    recorder = Recorder(torch, _bare(_checked(costs or {})))
    with _fake(torch, module) as (mode, tensors):
        arguments, named = _faked(torch, mode, arguments), _faked(torch, mode, named)
        _run(torch, recorder, module, tensors, arguments, named)
    _all_called(costs or {}, recorder.costed)
    layers = recorder.layers()
    if not layers:
        raise_errors(error(Code.BAD_WORKLOAD, f"{type(module).__name__} computes nothing on these inputs"))
    layers = _sharded(layers, sharding or {})
    _check_size(type(module).__name__, layers)
    return Traced(type(module).__name__, tuple(layers), chosen, batch_of(torch, [*arguments, *named.values()]))


def _run(
    torch: Any, recorder: Recorder, module: Any, tensors: dict[str, Any], arguments: Any, named: dict[str, Any]
) -> None:
    """Runs the module on fake tensors."""
    parameters = {key: each for key, each in tensors.items() if isinstance(each, torch.nn.Parameter)}
    with (
        running(type(module).__name__, recorder),
        torch.enable_grad(),
        _without_onednn(torch),
        _training(module),
        recorder.watching(module, parameters),
    ):
        recorder.hand_out(torch.func.functional_call(module, tensors, arguments, named))


@contextmanager
def _without_onednn(torch: Any) -> Iterator[None]:
    """Turns off oneDNN, whose operators for recurrent networks hide their products, and PyTorch's log."""
    before, log = torch.backends.mkldnn.enabled, logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    torch.backends.mkldnn.enabled = False
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before
        log.setLevel(level)


@contextmanager
def _fake(torch: Any, module: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Gives a mode in which tensors have no values, and the module's parameters and buffers as such tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    # Tensors that a module keeps outside of its parameters and buffers stay real.
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    made: dict[int, Any] = {}
    tensors: dict[str, Any] = {}
    with mode:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if id(parameter) not in made:
                shell = _shell(torch, mode, parameter)
                made[id(parameter)] = torch.nn.Parameter(shell, parameter.requires_grad)
            tensors[name] = made[id(parameter)]
        for name, buffer in module.named_buffers(remove_duplicate=False):
            if id(buffer) not in made:
                made[id(buffer)] = _shell(torch, mode, buffer)
            tensors[name] = made[id(buffer)]
        yield mode, tensors


def _shell(torch: Any, mode: Any, tensor: Any) -> Any:
    """A tensor like ``tensor``, but without values, whatever its device."""
    with mode:
        return torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="cpu")


@contextmanager
def _training(module: Any) -> Iterator[None]:
    """Within it, a module and its submodules are in training mode."""
    modes = {each: each.training for each in module.modules()}
    module.train()
    try:
        yield
    finally:
        for each, training in modes.items():
            each.training = training


def _faked(torch: Any, mode: Any, value: Any) -> Any:
    """Replaces tensors in arguments by tensors without values."""
    if isinstance(value, torch.Tensor):
        return _shell(torch, mode, value)
    if isinstance(value, (list, tuple)):
        made = [_faked(torch, mode, each) for each in value]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, dict):
        return {key: _faked(torch, mode, each) for key, each in value.items()}
    return value


def as_arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the forward pass."""
    if isinstance(example, dict):
        return (), dict(example)
    return (tuple(example), {}) if isinstance(example, (tuple, list)) else ((example,), {})


def data_type_of(torch: Any, module: Any) -> str:
    """The element type of most parameters."""
    counted: Counter[str] = Counter()
    for parameter in module.parameters():
        counted[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    if not counted:
        return _TYPES.get(str(torch.get_default_dtype()).removeprefix("torch."), "fp32")
    (found, _), *_ = counted.most_common(1)
    if found not in _TYPES:
        raise_errors(
            error(
                Code.BAD_MODULE,
                "the parameters have a type that scenarios do not support",
                found=found,
                allowed=", ".join(_TYPES),
                help="give `precision`",
            )
        )
    return _TYPES[found]


def batch_of(torch: Any, values: list[Any]) -> int | None:
    """The first size of the first tensor."""
    for value in values:
        if isinstance(value, torch.Tensor):
            return int(value.shape[0]) if value.dim() else None
    return None


MAX_FLOP = 10**9
"""Largest cost of an operator, in FLOP per element of its result."""


def _checked(costs: Mapping[str, float]) -> Mapping[str, float]:
    """Raises an error if a cost is out of range; returns the costs."""
    for name, flop in costs.items():
        if isinstance(flop, bool) or not isinstance(flop, (int, float)) or not 0 <= flop <= MAX_FLOP:
            allowed = f"a number from 0 to {MAX_FLOP}: FLOP per element of the result"
            raise_errors(
                error(Code.BAD_VALUE, "value not allowed", key=f"costs.{name}", found=shown(flop), allowed=allowed)
            )
    return costs


def _bare(costs: Mapping[str, float]) -> dict[str, float]:
    """Costs by names of calls: ``aten::_fft_r2c``, ``_fft_r2c`` or ``relu_``, without namespace and overload."""
    named = {name.rpartition("::")[2].partition(".")[0]: flop for name, flop in costs.items()}
    # An in-place operator also has the name without the underscore.
    return {**{name.removesuffix("_"): flop for name, flop in named.items()}, **named}


def _all_called(costs: Mapping[str, float], called: set[str]) -> None:
    """Raises an error for costs of operators that the module does not call, which may be misspelt."""
    for name in costs:
        bare = _bare({name: 0})
        if not bare.keys() & called:
            some = sorted(called)
            raise_errors(
                error(
                    Code.BAD_WORKLOAD,
                    f"the module calls no operator `{name}`",
                    key=f"costs.{name}",
                    found=name,
                    allowed=f"{', '.join(some[:20])}{', ...' if len(some) > 20 else ''}",
                    nearest=nearest(next(iter(bare)), some),
                )
            )


def _sharded(layers: list[Layer], sharding: Mapping[str, str]) -> list[Layer]:
    """Sets how tensor parallelism divides each layer."""
    names = [layer.name for layer in layers]
    for pattern, word in sharding.items():
        if word not in SHARDINGS:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "value not allowed",
                    key=f"sharding.{pattern}",
                    found=str(word),
                    allowed=", ".join(SHARDINGS),
                    nearest=nearest(str(word), SHARDINGS),
                )
            )
        if not any(fnmatchcase(name, pattern) for name in names):
            raise_errors(
                error(
                    Code.BAD_WORKLOAD,
                    f"no layer matches `{pattern}`",
                    key=f"sharding.{pattern}",
                    found=pattern,
                    allowed=f"patterns of {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}",
                    nearest=nearest(pattern, names),
                )
            )

    def chosen(name: str) -> Sharding:
        found = next((each for pattern, each in sharding.items() if fnmatchcase(name, pattern)), "gather")
        return cast("Sharding", found)

    return [replace(layer, sharding=chosen(layer.name)) for layer in layers]


def _check_size(name: str, layers: list[Layer]) -> None:
    if not countable(layers):
        raise_errors(error(Code.BAD_WORKLOAD, f"the work of {name} reaches 2^63 FLOP or bytes in one iteration"))
