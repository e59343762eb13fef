"""The model of a search: by name, from a Hugging Face configuration, or a PyTorch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.config import model_file
from syncline.config.torch_module import folder_of, no_inputs, running
from syncline.input.problem import error, raise_errors
from syncline.models.errors import ModelErrorKind, unknown_name
from syncline.models.operators import build, chain, from_layers
from syncline.models.operators.registry import check_range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.design.joint.spec import Joint, Module
    from syncline.input.source import Source
    from syncline.models.layer import Layer
    from syncline.models.operators import OperatorModel

_BATCH = 32
"""Samples of an accelerator for a module whose inputs the spec gives without a batch."""


def read(spec: Joint, source: Source) -> OperatorModel:
    """The model that a spec names.

    Raises :class:`~syncline.models.errors.ModelError` for an unknown model or a wrong parameter, ``SynclineError`` for
    a file or module that cannot be read.
    """
    if spec.module is not None:
        return _of_module(spec.module, spec, source)
    name = spec.model or ""
    if model_file.names_file(name):
        return from_layers(*model_file.read(source.relative(name)), spec.parameters)
    return build(name, spec.parameters)


def _of_module(given: Module, spec: Joint, source: Source) -> OperatorModel:
    from syncline.models.traced import factory, from_torch
    from syncline.models.traced.model import as_arguments, batch_of
    from syncline.models.traced.package import torch as package

    batch = _batch(spec.parameters)

    def at_module() -> Any:
        return running(source, ("module",), module="factory")

    with at_module():
        module, own = factory.build(given.factory, given.arguments, folder_of(source), meta=given.build == "meta")
        if given.inputs is None and own is None:
            raise_errors(no_inputs())
    of_own: int | None = None
    if given.inputs is None:
        positional, named = as_arguments(own)
        of_own = batch_of(package(), [*positional, *named.values()])

    if given.inputs is None and of_own is None:
        with at_module():
            raise_errors(
                error(
                    Code.BAD_MODULE,
                    "the factory's inputs are not tensors with a first dimension, so their batch size is unknown",
                    key="inputs",
                    help="give `inputs`",
                )
            )

    def inputs(samples: int) -> Any:
        if given.inputs is not None:
            return factory.sample(samples, [(each.shape, each.type) for each in given.inputs], module)
        return own if of_own is None else factory.resized(own, of_own, samples)

    first: list[str] = []

    def layers(samples: int) -> Sequence[Layer]:
        with at_module():
            found = from_torch(module, inputs(samples), precision=spec.precision, costs=given.costs).layers
            names = [layer.name for layer in found]
            first.extend(() if first else names)
            if names != first:
                raise_errors(
                    error(
                        Code.BAD_MODULE,
                        f"the module has other layers on {samples} samples than on other numbers of samples",
                        found=f"{len(names)} layers instead of {len(first)}",
                    )
                )
            return found

    return chain.build(type(module).__name__, layers, batch=batch or of_own or _BATCH)


def _batch(parameters: Mapping[str, Any]) -> int | None:
    """The batch that the spec gives a module: its only parameter."""
    for key in parameters:
        if key != "batch":
            raise unknown_name(key, key, ["batch"], kind=ModelErrorKind.UNKNOWN_KEY)
    batch: int | None = parameters.get("batch")
    if batch is not None:
        check_range("batch", batch)
    return batch
