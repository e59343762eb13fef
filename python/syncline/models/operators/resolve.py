"""The graph of operators in the core's form, with every way to split each operator.

A server has some accelerators, which share the samples of a part evenly. Work is that of one accelerator. The update
of parameters is counted with the backward pass. A table of embeddings is on one accelerator of its server, which looks
up the samples of all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Any

from syncline.models.calculus import NOTHING
from syncline.models.data_types import bytes_of
from syncline.models.optimizer import OPTIMIZERS

if TYPE_CHECKING:
    from syncline.models.layer import Layer
    from syncline.models.operators.measured import MeasuredTable
    from syncline.models.operators.operator import Operator, OperatorModel
    from syncline.models.types import Types


@dataclass(frozen=True)
class Cluster:
    """The servers that a model is split among."""

    servers: int
    """Number of servers."""
    accelerators: int
    """Accelerators of a server."""
    rate: str | None
    """Rate of an accelerator to the others of its server, such as ``"200GB/s"``."""
    memory: str | None
    """Memory of an accelerator; None if it limits nothing."""


def resolve(
    model: OperatorModel,
    cluster: Cluster,
    types: Types,
    *,
    optimizer: str = "sgd",
    split_parameters: bool = False,
    measured: MeasuredTable | None = None,
) -> dict[str, Any]:
    """Returns the graph in the core's form (``syncline_workload::operators::OperatorGraph``).

    Operators are split by samples into numbers of parts that divide the number of servers; with ``split_parameters``,
    also by parameters. With ``measured``, times come from that table.
    """
    samples = model.batch * cluster.accelerators * cluster.servers
    numbers = {operator.name: number for number, operator in enumerate(model.operators)}
    return {
        "model": model.name,
        "samples": samples,
        "operators": [
            {
                "name": operator.name,
                "kind": operator.kind,
                "inputs": [numbers[name] for name in operator.inputs],
                "output": f"{whole.outputs * bytes_of(types.communication)}B",
                "parameters": f"{whole.parameters * bytes_of(types.gradients)}B",
                "copied": not operator.whole_batch,
                "reads": "own" if operator.element_wise else "all",
                "choices": [
                    _choice(operator, split, samples, cluster, types, optimizer, measured)
                    for split in _splits(operator, cluster.servers, split_parameters=split_parameters)
                ],
            }
            for operator, whole in ((each, each.part(1, 1)) for each in model.operators)
        ],
        "server": {"accelerators": cluster.accelerators, "rate": cluster.rate, "memory": cluster.memory},
    }


def divisors(number: int) -> list[int]:
    """Every divisor of a number, ascending."""
    small = [each for each in range(1, isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})


def _splits(operator: Operator, servers: int, *, split_parameters: bool) -> list[tuple[int, int]]:
    """The ways to split an operator: degrees of samples and of parameters, whose product divides the servers."""
    sample_degrees = [1] if operator.whole_batch else divisors(servers)
    parameter_degrees = divisors(servers) if split_parameters else [1]
    pairs = ((s, p) for p in parameter_degrees for s in sample_degrees)
    return [(s, p) for s, p in pairs if servers % (s * p) == 0 and operator.features % p == 0]


def _choice(
    operator: Operator,
    split: tuple[int, int],
    samples: int,
    cluster: Cluster,
    types: Types,
    optimizer: str,
    measured: MeasuredTable | None,
) -> dict[str, Any]:
    sample_degree, parameter_degree = split
    on_server = samples // sample_degree
    each = on_server if operator.whole_batch else on_server // cluster.accelerators
    used = OPTIMIZERS[optimizer]
    layer = replace(operator.part(each, parameter_degree), optimizer=used)
    state = used.moments * bytes_of(types.optimizer) + (types.master if used.moments else 0)
    weights = bytes_of(types.parameters) + state
    gradients = bytes_of(types.gradients)
    # The gradient of a table has only the vectors that were looked up.
    updated = layer.parameters if layer.updated is None else layer.updated
    memory = layer.parameters * weights + updated * gradients + layer.outputs * bytes_of(types.activations)
    if measured is not None:
        forward, backward = ({"time": f"{time}ps"} for time in measured.times(operator, on_server, parameter_degree))
    else:
        forward, backward = _work(layer, types, "forward"), _work(layer, types, "backward")
    return {
        "samples": sample_degree,
        "parameters": parameter_degree,
        "forward": forward,
        "backward": backward,
        "memory": f"{memory}B",
    }


def _work(layer: Layer, types: Types, of: str) -> Any:
    amount = layer.forward if of == "forward" else layer.input_grad + layer.weight_grad
    flop, moved = (0, 0) if of == "forward" else layer.update(types)
    if amount == NOTHING and not moved:
        return "none"
    work = {"flop": f"{amount.flop + flop}FLOP", "memory": f"{amount.memory(types.activations) + moved}B"}
    other = layer.computes_in(types)
    return {"ops": {**work, "data_type": other} if other is not None else work}
