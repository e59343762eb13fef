"""Repeats a layer's operators on their own, so that each of its passes can be measured.

A layer has two parts: the head ends with the product with which the layer begins, and the tail follows it. Gradients
are measured as the calculus divides them (:mod:`syncline.models.layer`): the input gradient is that of the product; the
weight gradient is that of the product's weights, plus all gradients of the tail, which must be computed first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from syncline.models.traced.record import Recorded, Recorder, Step


@dataclass(frozen=True)
class Passes:
    """Functions that run each pass of a layer; ``None`` if it has no such pass."""

    forward: Callable[[], object]
    input_grad: Callable[[], object] | None
    weight_grad: tuple[Callable[[], object], ...]
    """The parts of the weight gradient, whose times add up."""
    update: Callable[[], object] | None


def passes(torch: Any, recorder: Recorder, recorded: Recorded, parameters: dict[str, Any]) -> Passes:
    """The passes of a recorded layer."""
    head = _Part(torch, recorder, recorded.steps[: recorded.pivot + 1])
    tail = _Part(torch, recorder, recorded.steps[recorded.pivot + 1 :])

    def forward() -> None:
        made = head.run(head.leaves)
        tail.run({**tail.leaves, **{key: made[key] for key in tail.leaves if key in made}})

    weight_grad = [head.backward(weights=True), tail.backward()]
    owned = [parameters[name] for name in sorted(recorded.owned)]
    return Passes(
        forward,
        None if recorded.layer.reads_data else head.backward(weights=False),
        tuple(each for each in weight_grad if each is not None),
        _update(torch, owned) if owned else None,
    )


class _Part:
    """A sequence of operator calls that can be repeated."""

    def __init__(self, torch: Any, recorder: Recorder, steps: Sequence[Step]) -> None:
        self._torch = torch
        self._steps = steps
        made: set[int] = set()
        changed: set[int] = set()
        self.leaves: dict[int, Any] = {}
        """Tensors from outside the part, by the identity of the recorded tensor."""
        self._weights: list[int] = []
        self._activations: list[int] = []
        used: set[int] = set()
        for step in steps:
            inputs = list(_tensors(torch, [*step.arguments, *step.named.values()]))
            used |= {id(each) for each in inputs}
            for each in inputs:
                if id(each) not in made and id(each) not in self.leaves:
                    self._leaf(recorder, each)
            results = list(_tensors(torch, step.result))
            changed |= {id(each) for each in results if id(each) in self.leaves}
            made |= {id(each) for each in results}
        # In-place operators do not work on leaves, so these are cloned first.
        self._changed = changed
        self._ends = [key for key in dict.fromkeys(_results(torch, steps)) if key not in used or key in changed]

    def _leaf(self, recorder: Recorder, tensor: Any) -> None:
        weights = recorder.weights_of(tensor)
        wanted = recorder.trains(weights) if weights else tensor.requires_grad
        leaf = tensor.detach()
        if wanted and tensor.is_floating_point():
            leaf = leaf.requires_grad_()
            (self._weights if weights else self._activations).append(id(tensor))
        self.leaves[id(tensor)] = leaf

    def run(self, leaves: dict[int, Any]) -> dict[int, Any]:
        """Repeats the calls on ``leaves``; returns all tensors by the identity of the recorded ones."""
        there = {key: value.clone() if key in self._changed else value for key, value in leaves.items()}
        for step in self._steps:
            arguments = _replaced(self._torch, step.arguments, there)
            named = {key: _replaced(self._torch, value, there) for key, value in step.named.items()}
            result = step.function(*arguments, **named)
            pairs = zip(_tensors(self._torch, step.result), _tensors(self._torch, result), strict=True)
            there.update({id(before): now for before, now in pairs})
        return there

    def backward(self, *, weights: bool | None = None) -> Callable[[], object] | None:
        """A function that computes the gradients of weights, of activations, or of both; ``None`` without gradients."""
        wanted = [
            *(self._weights if weights in (True, None) else ()),
            *(self._activations if weights in (False, None) else ()),
        ]
        if not wanted or not self._steps:
            return None
        there = self.run(self.leaves)
        ends = [there[key] for key in self._ends if key in there and there[key].requires_grad]
        if not ends:
            return None
        leaves = [self.leaves[key] for key in wanted]
        above = [self._torch.randn_like(each) for each in ends]

        def gradients() -> object:
            return self._torch.autograd.grad(ends, leaves, above, retain_graph=True, allow_unused=True)

        return gradients


def _update(torch: Any, parameters: list[Any]) -> Callable[[], object]:
    """A function that updates copies of the parameters by plain stochastic gradient descent."""
    copies = [each.detach().clone() for each in parameters]
    gradients = [torch.randn_like(each) for each in copies]

    def update() -> None:
        for copy, gradient in zip(copies, gradients, strict=True):
            copy.add_(gradient, alpha=-1e-9)

    return update


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(torch, each)


def _results(torch: Any, steps: Sequence[Step]) -> Iterator[int]:
    for step in steps:
        for each in _tensors(torch, step.result):
            yield id(each)


def _replaced(torch: Any, value: Any, there: dict[int, Any]) -> Any:
    """Replaces recorded tensors in arguments by the tensors of this run."""
    if isinstance(value, torch.Tensor):
        return there.get(id(value), value)
    if isinstance(value, (list, tuple)):
        made = [_replaced(torch, each, there) for each in value]
        return made if isinstance(value, list) else tuple(made)
    return value
