"""Packs parameters into buckets; hubs and ranks exchange each bucket as one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syncline.input.problem import bad_value
from syncline.torch.device import Local
from syncline.torch.elements import ELEMENTS, memory
from syncline.torch.work import Operation, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.hub import Hub, PendingExchange
    from syncline.torch.queue import Queue

TRAINED = {
    torch.float32: torch.float32,
    torch.float64: torch.float64,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}
"""The types that parameters may have, and for each the type in which hubs keep them."""


class Bucket:
    """Some parameters of one group, type and device, concatenated in ``flat``."""

    def __init__(self, name: str, group: int, parameters: Sequence[torch.Tensor]) -> None:
        self.name = name
        self.group = group
        self.parameters = list(parameters)
        self.size = sum(param.numel() for param in parameters)
        dtype = TRAINED[parameters[0].dtype]
        self.element = ELEMENTS[dtype]
        self.flat = torch.zeros(self.size, dtype=dtype, device=parameters[0].device)
        self._views: dict[int, torch.Tensor] = {}
        at = 0
        for param in parameters:
            self._views[id(param)] = self.flat[at : at + param.numel()].view(param.shape)
            at += param.numel()
        self.taken: dict[int, tuple[torch.Tensor, int]] = {}
        # Parameters that have no gradient in this step.
        self._absent: set[int] = set()
        self.work: Work | None = None
        self._exchange: PendingExchange | None = None

    def gather_parameters(self) -> None:
        """Copies the parameters to ``flat``."""
        with torch.no_grad():
            for param in self.parameters:
                self._views[id(param)].copy_(param)

    def scatter(self) -> None:
        """Copies ``flat`` to the parameters."""
        with torch.no_grad():
            for param in self.parameters:
                param.copy_(self._views[id(param)])

    def take(self, param: torch.Tensor) -> bool:
        """Copies the gradient of a parameter to ``flat``, and returns whether all gradients are there.

        Raises ``SynclineError`` if the parameter's gradient was taken before in this step.
        """
        if id(param) in self.taken:
            raise bad_value(
                "a parameter has a second gradient before step()",
                f"one of shape {tuple(param.shape)} in `{self.name}`",
                help="call step() after each backward(), or use no_sync() for all but the last",
            )
        gradient = param.grad
        if gradient is None:
            return False
        if gradient.layout != torch.strided:
            kind = str(gradient.layout).removeprefix("torch.")
            raise bad_value("gradients must be dense", f"{kind} of shape {tuple(param.shape)}", allowed="strided")
        self._views[id(param)].copy_(gradient)
        self.taken[id(param)] = (gradient, _version(gradient))
        return self.complete

    @property
    def complete(self) -> bool:
        """Whether the gradients of all parameters are in ``flat``."""
        return len(self.taken) + len(self._absent) == len(self.parameters)

    def take_rest(self) -> None:
        """Takes the gradients that have not been taken. A parameter without a gradient gets zeros."""
        for param in self.parameters:
            if id(param) not in self.taken:
                if param.grad is None:
                    self._views[id(param)].zero_()
                    self._absent.add(id(param))
                else:
                    self.take(param)

    def refill(self) -> None:
        """Copies the taken gradients to ``flat`` again."""
        for param in self.parameters:
            if id(param) in self.taken:
                self._views[id(param)].copy_(self.taken[id(param)][0])
            else:
                self._views[id(param)].zero_()

    def give_back(self) -> None:
        """Copies ``flat`` to the gradients."""
        for param in self.parameters:
            if param.grad is None:
                param.grad = torch.empty_like(param)
            param.grad.copy_(self._views[id(param)])

    def changed(self) -> bool:
        """Returns whether a gradient has changed since it was taken."""
        for param in self.parameters:
            gradient, version = self.taken.get(id(param), (param.grad, None))
            if param.grad is not gradient or (version is not None and _version(gradient) != version):
                return True
        return False

    def push(self, hub: Hub, queue: Queue) -> None:
        """Begins the exchange with the hub: pushes gradients, and pulls parameters."""
        place = Local([self.flat], reads=True, writes=True)

        def begin() -> list[PendingExchange]:
            self._exchange = hub.push_pull(self.name, memory(place.host))
            return [self._exchange]

        self.work = Work(Operation(self.name, [place], begin, [self.flat]), queue)
        queue.put(self.work)

    def wait(self) -> None:
        """Waits until the parameters have arrived."""
        if self.work is not None:
            self.work.wait()

    @property
    def contributors(self) -> int:
        """The number of ranks that contributed to the step."""
        return self._exchange.contributors if self._exchange is not None else 0

    def reset(self) -> None:
        """Forgets the gradients and the exchange of the step that is over."""
        self.taken.clear()
        self._absent.clear()
        self.work = self._exchange = None


def _version(tensor: torch.Tensor) -> int:
    """Returns how often a tensor has been written to."""
    return int(tensor._version)  # noqa: SLF001 - there is no other name


def make_buckets(groups: Sequence[dict[str, Any]], most: float) -> tuple[list[Bucket], list[Bucket]]:
    """Returns the buckets of trained parameters, and the buckets of frozen ones.

    A bucket has at most ``most`` bytes, unless it is a single larger parameter. The last parameters come first, because
    their gradients do. Parameters without elements are in no bucket.

    Raises ``SynclineError`` for parameters that cannot be trained.
    """
    trained: list[Bucket] = []
    frozen: list[Bucket] = []
    for number, group in enumerate(groups):
        runs: dict[tuple[bool, torch.dtype, torch.device], list[torch.Tensor]] = {}
        for param in reversed(group["params"]):
            if param.requires_grad and (param.dtype not in TRAINED or param.layout != torch.strided):
                found = f"{param.dtype}, {param.layout}, of shape {tuple(param.shape)}".replace("torch.", "")
                names = ", ".join(str(each).removeprefix("torch.") for each in TRAINED)
                raise bad_value("this parameter cannot be trained", found, allowed=f"dense parameters of type {names}")
            if not param.numel() or param.dtype not in TRAINED:
                continue
            runs.setdefault((param.requires_grad, param.dtype, param.device), []).append(param)
        for (trains, dtype, _), params in runs.items():
            buckets = trained if trains else frozen
            for run in _cut(params, most / TRAINED[dtype].itemsize):
                word = "bucket" if trains else "frozen"
                buckets.append(Bucket(f"{word} {len(buckets)} ({_shapes(run)})", number, run))
    return trained, frozen


def _cut(params: Sequence[torch.Tensor], most: float) -> list[list[torch.Tensor]]:
    """Cuts parameters into runs of at most ``most`` elements; a larger parameter is a run of its own."""
    runs: list[list[torch.Tensor]] = [[]]
    size = 0
    for param in params:
        if runs[-1] and size + param.numel() > most:
            runs.append([])
            size = 0
        runs[-1].append(param)
        size += param.numel()
    return runs


LONGEST = 4
"""Maximum number of shapes in the name of a bucket."""


def _shapes(params: Sequence[torch.Tensor]) -> str:
    """Returns the shapes in a bucket for its name, so that errors of ranks that disagree show them."""
    shapes = ["x".join(str(size) for size in param.shape) or "1" for param in params]
    more = f" and {len(shapes) - LONGEST} more" if len(shapes) > LONGEST else ""
    return ", ".join(shapes[:LONGEST]) + more
