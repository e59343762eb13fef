"""Records a run on fake tensors: the operators that a module calls, their submodules, and the weights that they use.

**Layers.** A layer begins with a matrix product, a convolution or a lookup that uses a weight, and holds all operators
until the next layer begins, as in the built-in models: a convolution with its norm and its activation. It is named
after the weight. Operators before the first weight belong to the first layer. If the same operator uses the same weight
again, it continues the layer (the steps of a recurrent network). A layer whose weight belongs to an earlier layer
*borrows* it: the earlier one reduces and updates it.

**Weights** are recognised by their memory: views of a parameter share its memory, and a tensor that is computed from
parameters alone also counts as a weight. Its operators belong to the layer that uses it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline.models.layer import Layer
from syncline.models.traced import costs
from syncline.models.traced.call import Call, Operand
from syncline.models.traced.failure import UntraceableError, why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from syncline.models.calculus import Op


@dataclass(frozen=True)
class Step:
    """One operator call, with its tensors, so that it can be repeated."""

    function: Any
    """PyTorch's operator."""
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    result: Any


@dataclass(frozen=True)
class Recorded:
    """A layer, and its operator calls."""

    layer: Layer
    steps: tuple[Step, ...]
    """All calls in order, including views; empty if the recorder keeps no calls."""
    pivot: int
    """Index of the call with which the layer begins."""
    owned: frozenset[str]
    """The parameters that the layer reduces."""


@dataclass(frozen=True)
class _Maker:
    """The layer that made a tensor, and the tensor's elements."""

    layer: int
    elements: int


@dataclass(frozen=True)
class _Handed:
    """A tensor that one layer makes and another uses."""

    elements: int
    grad: bool
    product: bool
    """Whether a matrix product with a weight reads it."""


@dataclass
class _Group:
    """A layer while it is recorded."""

    weights: frozenset[str]
    """The parameters of the product with which it begins."""
    operator: str
    """The operator of that product."""
    borrowed: bool
    reads_data: bool
    ops: list[Op] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    pivot: int = 0
    owned: set[str] = field(default_factory=set)


class Recorder:
    """Records the operators that a module calls. ``keep`` keeps the calls, and accepts operators without a rule."""

    def __init__(self, torch: Any, known: Mapping[str, float], *, keep: bool = False) -> None:
        self._torch = torch
        self._known = known
        self._keep = keep
        self._first_steps: list[Step] = []
        self._preparing_steps: list[Step] = []
        self._path: list[str] = []
        self._sizes: dict[str, int] = {}
        self._trained: set[str] = set()
        self._seen: set[str] = set()
        self._origins: dict[int, frozenset[str]] = {}
        # Keep storages alive, since the number of a freed one may be reused.
        self._kept: list[Any] = []
        self._groups: list[_Group] = []
        self._first: list[Op] = []
        self._preparing: list[Op] = []
        self._makers: dict[int, _Maker] = {}
        self._handed: dict[int, list[_Handed]] = {}
        self.costed: set[str] = set()
        """Names of the operators that were costed."""
        self.bug: Exception | None = None
        """An exception of the recorder itself, and not of the module."""

    @property
    def submodule(self) -> str:
        """The submodule that is running; empty for the module itself."""
        return self._path[-1] if self._path else ""

    @contextmanager
    def watching(self, module: Any, parameters: Mapping[str, Any]) -> Iterator[None]:
        """Within it, records the operators that ``module`` calls on these fake parameters."""
        for name, parameter in parameters.items():
            key = self._memory(parameter)
            if key is None or key in self._origins:
                continue  # another name of a known parameter
            self._origins[key] = frozenset((name,))
            self._sizes[name] = parameter.numel()
            if parameter.requires_grad:
                self._trained.add(name)
        with ExitStack() as stack:
            for name, each in module.named_modules():
                stack.callback(each.register_forward_pre_hook(self._entering(name)).remove)
                stack.callback(each.register_forward_hook(self._leaving).remove)
            stack.enter_context(_mode(self._see))
            yield

    def _entering(self, name: str) -> Callable[[Any, Any], None]:
        def enter(_module: Any, _arguments: Any) -> None:
            self._path.append(name)

        return enter

    def _leaving(self, _module: Any, _arguments: Any, _result: Any) -> None:
        # PyTorch does not call this after an error, so the path then ends where the error happened.
        self._path.pop()

    def _see(self, function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operator on fake tensors, and records it."""
        operator = function._schema.name  # noqa: SLF001 - PyTorch has no public name for it
        self._check_types(operator, [*arguments, *named.values()])
        try:
            result = function(*arguments, **named)
        except Exception as problem:
            if told := why(operator, problem):
                raise UntraceableError(operator, self.submodule, *told) from problem
            raise
        namespace, _, name = operator.partition("::")
        if namespace != "prim":
            try:
                before = len(self._groups)
                self._record(operator, name, function, arguments, named, result)
                if self._keep:
                    self._remember(Step(function, arguments, named, result), begins=len(self._groups) > before)
            except UntraceableError:
                raise
            except Exception as problem:
                self.bug = problem
                raise
        return result

    def _record(
        self, operator: str, name: str, function: Any, arguments: tuple[Any, ...], named: dict[str, Any], result: Any
    ) -> None:
        tensors = list(self._tensors(result))
        before = {self._memory(each) for each in self._tensors([*arguments, *named.values()])}
        changes = function._schema.is_mutable  # noqa: SLF001
        name = name if not changes else name.removesuffix("_")
        views = not changes and tensors and all(self._memory(each) in before for each in tensors)
        if views:
            return
        if costs.free(name):
            self._makers.update(self._made_by(arguments, tensors))
            return
        args = self._with_operands(arguments)
        kwargs = {key: self._with_operands(value) for key, value in named.items()}
        call = Call(name, args, kwargs, tuple(self._operand(each) for each in tensors))
        if max((each.elements for each in (*call.operands, *call.outputs)), default=0) <= 1:
            return
        used = frozenset().union(*(each.weights for each in call.weights))
        if call.weights and not call.activations:
            self._derive(tensors, used)
        new = used - self._seen if call.activations else frozenset()
        self._seen |= new
        parameters = sum(self._sizes[each] for each in new & self._trained)
        call = Call(name, args, kwargs, call.outputs, parameters)
        pointwise = self._torch.Tag.pointwise in function.tags
        self.costed.add(name)
        op = costs.cost(call, pointwise=pointwise or self._keep, known=self._known)
        if op is None:
            reason = "syncline does not know the cost of this operator"
            remedy = f"give it under `costs`, in FLOP per element of the result, such as `{call.name}: 2`"
            raise UntraceableError(operator, self.submodule, reason, remedy)
        if call.weights and not call.activations:
            self._preparing.append(op)
            return
        self._place(call, op, used, new)
        self._hand_on([*arguments, *named.values()], product=costs.is_product(call))
        self._made(tensors)

    def _place(self, call: Call, op: Op, used: frozenset[str], new: frozenset[str]) -> None:
        """Adds an operation to its layer."""
        last = self._groups[-1] if self._groups else None
        goes_on = last and call.name == last.operator and used & last.weights
        begins = costs.is_product(call) and not goes_on
        # A borrowed layer reduces nothing, so a new trained parameter begins a new layer.
        if begins or (new and last and last.borrowed):
            reads = not call.needs_input_grad and not self._groups
            borrowed = bool(used) and not new
            self._groups.append(_Group(used, call.name, borrowed, reads, [*self._first, *self._preparing]))
            self._first, self._preparing = [], []
        ops = self._groups[-1].ops if self._groups else self._first
        ops += self._preparing
        self._preparing = []
        ops.append(op)
        if self._groups:
            self._groups[-1].owned |= new & self._trained

    @property
    def _now(self) -> int:
        """Index of the current layer. Operators before the first layer belong to it."""
        return max(0, len(self._groups) - 1)

    def _made(self, tensors: list[Any]) -> None:
        """Records the current layer as the maker of these tensors, also if it changed a tensor in place."""
        for each in tensors:
            if each.is_floating_point() and (key := self._memory(each)) is not None:
                before = self._makers.get(key)
                self._makers[key] = _Maker(self._now, max(each.numel(), before.elements if before else 0))

    def _made_by(self, arguments: Any, results: list[Any]) -> Iterator[tuple[int, _Maker]]:
        """For an operator that costs nothing: the maker of its inputs, as maker of its results."""
        keys = [self._memory(each) for each in self._tensors(arguments)]
        maker = next((self._makers[key] for key in keys if key in self._makers), None)
        for each in results:
            key = self._memory(each)
            if maker and key is not None and key not in self._makers:
                yield key, maker

    def _hand_on(self, values: Any, *, product: bool = False, out: bool = False) -> None:
        """Records tensors that the current layer, or with ``out`` the module's caller, takes from other layers."""
        for each in self._tensors(values):
            key = self._memory(each)
            maker = self._makers.get(key) if key is not None else None
            if maker and (out or maker.layer != self._now):
                handed = _Handed(maker.elements, grad=bool(each.requires_grad), product=product)
                self._handed.setdefault(maker.layer, []).append(handed)

    def hand_out(self, result: Any) -> None:
        """Records the result that the module returns."""
        self._hand_on([result], out=True)

    def _outputs(self, layer: int) -> int | None:
        """Elements of a layer's output: those of the largest tensor that others take from it.

        Tensors with a gradient are preferred over others, such as masks. Among these, tensors that a later layer
        multiplies are preferred over others, such as the weights of attention, which are averaged only for display.
        """
        handed = self._handed.get(layer, [])
        handed = [each for each in handed if each.grad] or handed
        handed = [each for each in handed if each.product] or handed
        return max((each.elements for each in handed), default=None)

    def _remember(self, step: Step, *, begins: bool) -> None:
        """Keeps a call for its layer. A call that prepares a weight belongs to the call that uses the weight."""
        tensors = list(self._tensors([*step.arguments, *step.named.values()]))
        if tensors and all(self.weights_of(each) for each in tensors):
            self._preparing_steps.append(step)
            return
        steps = self._groups[-1].steps if self._groups else self._first_steps
        if begins:
            steps += self._first_steps
            self._first_steps = []
        steps += self._preparing_steps
        self._preparing_steps = []
        if begins:
            self._groups[-1].pivot = len(steps)
        steps.append(step)

    def layers(self) -> list[Layer]:
        """The layers, in the order of the run."""
        return [each.layer for each in self.recorded()]

    def recorded(self) -> list[Recorded]:
        """The layers and their calls, in the order of the run."""
        groups = self._groups or ([_Group(frozenset(), "", borrowed=False, reads_data=True)] if self._first else [])
        if not self._groups and groups:
            groups[0].ops, groups[0].steps = self._first, self._first_steps
        names: dict[str, int] = {}
        made = []
        for index, group in enumerate(groups):
            name = _name(group.weights)
            names[name] = names.get(name, 0) + 1
            unique = name if names[name] == 1 else f"{name}#{names[name]}"
            layer = Layer(
                unique,
                tuple(group.ops),
                reads_data=group.reads_data,
                borrowed=group.borrowed,
                hands_on=self._outputs(index),
            )
            made.append(Recorded(layer, tuple(group.steps), group.pivot, frozenset(group.owned)))
        return made

    def weights_of(self, tensor: Any) -> frozenset[str]:
        """The parameters from which a tensor is computed; empty unless it is computed from parameters alone."""
        key = self._memory(tensor)
        return self._origins.get(key, frozenset()) if key is not None else frozenset()

    def trains(self, weights: frozenset[str]) -> bool:
        """Whether any of these parameters is trained."""
        return bool(weights & self._trained)

    def _derive(self, tensors: list[Any], weights: frozenset[str]) -> None:
        """Records that tensors are computed from these parameters alone."""
        for each in tensors:
            key = self._memory(each)
            if key is not None:
                self._origins[key] = self._origins.get(key, frozenset()) | weights

    def _memory(self, tensor: Any) -> int | None:
        """A number that identifies the memory of a tensor; its views have the same number."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse tensors and such have none
            return None
        self._kept.append(storage)
        return int(storage._cdata)  # noqa: SLF001

    def _tensors(self, value: Any) -> Iterator[Any]:
        if isinstance(value, self._torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for each in value:
                yield from self._tensors(each)
        elif isinstance(value, dict):
            yield from self._tensors(list(value.values()))

    def _check_types(self, operator: str, values: Any) -> None:
        """Raises an error for operands of different types if PyTorch would, since fake tensors accept them."""
        if operator.partition("::")[2] not in _ONE_TYPE:
            return
        types = sorted({str(each.dtype).removeprefix("torch.") for each in self._tensors(values)})
        if len(types) > 1:
            raise TypeError(f"the operands of {operator} are of different types: {', '.join(types)}")

    def _with_operands(self, value: Any) -> Any:
        """Replaces tensors in arguments by operands."""
        if isinstance(value, self._torch.Tensor):
            return self._operand(value)
        if isinstance(value, (list, tuple)):
            return tuple(self._with_operands(each) for each in value)
        return value

    def _operand(self, tensor: Any) -> Operand:
        origins = self.weights_of(tensor)
        trained = self.trains(origins) if origins else tensor.requires_grad
        return Operand(tuple(int(size) for size in tensor.shape), tensor.is_floating_point(), trained, origins)


def _name(weights: frozenset[str]) -> str:
    """A layer's name: that of the module whose ``weight`` it uses, or else that of the parameter."""
    if not weights:
        return "module"
    shortest = min(weights, key=lambda name: ("weight" not in name.rpartition(".")[2], name))
    return shortest.removesuffix(".weight") or shortest


def _mode(see: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> Any:
    """A mode of PyTorch that passes every operator call to ``see``."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def dispatch(_self: Any, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return see(function, args, kwargs or {})

    return type("_Seeing", (TorchDispatchMode,), {"__torch_dispatch__": dispatch})()


_ONE_TYPE = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "linear", "mv", "addmv", "dot", "vdot", "convolution", "_convolution"}
)
"""Operators whose operands must all have the same type in PyTorch."""
