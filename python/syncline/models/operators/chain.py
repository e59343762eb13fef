"""Any model of syncline as a chain of operators, one for each layer."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from syncline.models import registry
from syncline.models.operators.operator import Operator, OperatorModel

if TYPE_CHECKING:
    from syncline.models.info import ModelInfo
    from syncline.models.layer import Layer

_NOTE = "skip connections are not modelled: each operator reads only the output of the one before it"


def build(name: str, model: str | ModelInfo, /, *, batch: int, **parameters: Any) -> OperatorModel:
    """Build the layers of a model, each of which reads the one before it; they are split by samples alone.

    Raises :class:`~syncline.models.errors.ModelError` for parameters that the model does not take.
    """

    @cache
    def layers(samples: int) -> list[Layer]:
        built, errors = registry.request(model, {**parameters, "batch_per_npu": samples})
        for error in errors:
            raise error
        return built

    def operator(at: int) -> Operator:
        layer = layers(1)[at]
        before = (layers(1)[at - 1].name,) if at else ()
        return Operator(layer.name, "layer", before, lambda samples, _: layers(samples)[at])

    operators = tuple(operator(at) for at in range(len(layers(1))))
    return OperatorModel(name, operators, batch, notes=(_NOTE,))
