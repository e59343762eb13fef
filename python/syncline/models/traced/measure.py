"""Measures the times of a PyTorch module's layers, as a table for the compute model ``table``.

The module runs forward once, as in training, and its calls are kept. Then each pass of each layer is repeated on its
own: first some warm-up runs, then ``repeats`` timed runs. On a GPU, a time is that between two events of its stream,
and the device is idle between runs. The table holds medians and quartiles.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.input.words import PASSES
from syncline.models.times import MeasuredTime, Times
from syncline.models.traced.failure import check_module, running
from syncline.models.traced.model import as_arguments, batch_of, data_type_of
from syncline.models.traced.package import torch as package
from syncline.models.traced.record import Recorder
from syncline.models.traced.replay import passes

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.models.traced.record import Recorded
    from syncline.models.traced.replay import Passes


@dataclass(frozen=True)
class Repeats:
    """The device to measure on, and the numbers of runs."""

    device: str = "cpu"
    """``cpu``, or ``cuda`` with or without a number."""
    repeats: int = 10
    """Timed runs of each pass."""
    warm_up: int = 2
    """Untimed runs before the timed ones."""


def measure(
    module: Any, example_inputs: Any, repeats: Repeats, done: Callable[[float, str], object] | None = None
) -> Times:
    """Measures every layer of ``module``. Calls ``done`` with the fraction done and the layer that is next.

    Moves the module to the device, where it stays; does not change its parameters.
    """
    torch = package()
    device = _device(torch, repeats.device)
    check_module(torch, module)
    recorder = Recorder(torch, {}, keep=True)
    name = type(module).__name__
    positional, named = as_arguments(example_inputs)
    with running(name, recorder):
        module.to(device)
        positional, named = _moved(torch, positional, device), _moved(torch, named, device)
        module.train()
        parameters = dict(module.named_parameters())
        # Do not keep tensors for automatic differentiation here, since each layer is differentiated separately.
        with (
            torch.enable_grad(),
            torch.autograd.graph.saved_tensors_hooks(lambda _: None, lambda kept: kept),
            recorder.watching(module, parameters),
        ):
            module(*positional, **named)
    layers = recorder.recorded()
    clock = _clock(torch, device)
    rows: list[MeasuredTime] = []
    for index, recorded in enumerate(layers):
        if done:
            done(index / len(layers), recorded.layer.name)
        with running(name, recorder):
            rows += _layer(torch, recorder, recorded, parameters, repeats, clock)
    return Times(
        model=name,
        device=_device_name(torch, device),
        software=f"PyTorch {torch.__version__}",
        batch_per_npu=batch_of(torch, [*positional, *named.values()]),
        data_type=data_type_of(torch, module),  # type: ignore[arg-type]
        times=rows,
    )


def _layer(
    torch: Any, recorder: Recorder, recorded: Recorded, parameters: dict[str, Any], repeats: Repeats, clock: Clock
) -> list[MeasuredTime]:
    """The times of one layer."""
    if opaque := next((step for step in recorded.steps if step.function._schema.name in _OPAQUE), None):  # noqa: SLF001
        raise_errors(
            error(
                Code.UNTRACEABLE,
                "a recurrent network runs as one operator, which cannot be measured layer by layer",
                found=str(opaque.function._schema.name),  # noqa: SLF001
                help="write its steps out, or give times that you measured by other means",
            )
        )
    runs: Passes = passes(torch, recorder, recorded, parameters)
    measured = {
        "forward": (runs.forward,),
        "input_grad": (runs.input_grad,) if runs.input_grad else (),
        "weight_grad": runs.weight_grad,
        "update": (runs.update,) if runs.update else (),
    }
    rows = []
    for key in PASSES:
        if not measured[key]:
            continue
        parts = [_times(run, repeats, clock) for run in measured[key]]
        picoseconds = sorted(sum(each) for each in zip(*parts, strict=True))
        low, high = _quartiles(picoseconds)
        rows.append(
            MeasuredTime.model_validate(
                {
                    "layer": recorded.layer.name,
                    "pass": key,
                    "time": _exact(median(picoseconds)),
                    "q1": _exact(low),
                    "q3": _exact(high),
                    "repeats": repeats.repeats,
                }
            )
        )
    return rows


_OPAQUE = frozenset(("aten::mkldnn_rnn_layer", "aten::_cudnn_rnn", "aten::miopen_rnn"))
"""Operators that hide the products of several layers."""


def _times(run: Callable[[], object], repeats: Repeats, clock: Clock) -> list[int]:
    """Picoseconds of each timed run."""
    for _ in range(repeats.warm_up):
        run()
    return [clock(run) for _ in range(repeats.repeats)]


def _quartiles(ordered: list[int]) -> tuple[float, float]:
    """First and third quartile."""
    if len(ordered) == 1:
        return ordered[0], ordered[0]
    low, _, high = quantiles(ordered, n=4, method="inclusive")
    return low, high


def _exact(picoseconds: float) -> str:
    """A time to the nanosecond, with the largest unit that fits."""
    nanoseconds = round(picoseconds / 1000)
    unit, size = next(((unit, size) for unit, size in _UNITS if nanoseconds >= size), ("ns", 1))
    whole, rest = divmod(nanoseconds, size)
    digits = f"{rest:0{len(str(size)) - 1}d}".rstrip("0") if size > 1 else ""
    return f"{whole}{'.' if digits else ''}{digits}{unit}"


_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3))


if TYPE_CHECKING:
    Clock = Callable[[Callable[[], object]], int]


def _clock(torch: Any, device: Any) -> Clock:
    """A function that times a run, in picoseconds."""
    if device.type != "cuda":

        def wall(run: Callable[[], object]) -> int:
            start = perf_counter_ns()
            run()
            return 1000 * (perf_counter_ns() - start)

        return wall

    def events(run: Callable[[], object]) -> int:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize(device)
        milliseconds: float = start.elapsed_time(end)
        return round(1e9 * milliseconds)

    return events


def _device(torch: Any, name: str) -> Any:
    kind, _, number = name.partition(":")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    there = ["cpu", *(["cuda"] if count else []), *(f"cuda:{index}" for index in range(count))]
    if name not in there:
        message = "no such device" if kind != "cuda" or number else "PyTorch sees no CUDA device"
        raise_errors(error(Code.BAD_VALUE, message, key="--device", found=name, allowed=", ".join(there)))
    return torch.device(name)


def _device_name(torch: Any, device: Any) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{_processor()}, {torch.get_num_threads()} threads"


def _processor() -> str:
    """Name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            named = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        named = []
    return named[0] if named else platform.processor() or platform.machine() or "CPU"


def _moved(torch: Any, value: Any, device: Any) -> Any:
    """Moves inputs to the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        made = [_moved(torch, each, device) for each in value]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, dict):
        return {key: _moved(torch, each, device) for key, each in value.items()}
    return value
