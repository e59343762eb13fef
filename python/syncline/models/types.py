"""Element types of a training job, and the precisions that set all of them.

Mixed precision (Micikevicius et al. 2018) computes in a short type and sums up in a longer one. What a job holds for
each parameter with Adam follows: 2 + 4 + 12 bytes with ``bf16`` (parameter, gradient, moments and copy of the
parameter), as the distributed optimiser of Megatron-LM; 2 + 2 + 12 with ``fp16``, as ZeRO counts (Rajbhandari et al.
2020, 3.1); 4 + 4 + 8 with ``fp32`` and ``tf32``. With ``fp8``, linear layers compute in fp8 and all else is as with
``bf16`` (Micikevicius et al. 2022, and NVIDIA's Transformer Engine); copies of parameters in fp8 are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from syncline.models.data_types import bytes_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Types:
    """The type of each kind of data, as :data:`~.data_types.DATA_TYPES` names them."""

    compute: str
    """Operands of the matrix products of linear layers."""
    parameters: str
    """Parameters, as ranks hold and gather them."""
    activations: str
    """Activations that layers hand on and keep, and what all other operations compute in."""
    gradients: str
    """Gradients of parameters, as they are summed up, kept and reduced over data-parallel ranks."""
    optimizer: str
    """States of the optimiser, and its copy of the parameters where these have a shorter type."""
    communication: str
    """Activations and their gradients on the way between model-parallel ranks and between stages."""

    @classmethod
    def uniform(cls, data_type: str) -> Types:
        """One type for everything."""
        return cls(*(data_type for _ in fields(cls)))

    @property
    def master(self) -> int:
        """Bytes of the optimiser's copy of a parameter; 0 where it updates parameters themselves."""
        state = bytes_of(self.optimizer)
        return state if bytes_of(self.parameters) < state else 0

    @property
    def others(self) -> str | None:
        """What other operations than linear layers compute in, where these compute in a narrower type."""
        narrower = bytes_of(self.compute) < bytes_of(self.activations)
        return self.activations if narrower else None

    def plain(self) -> dict[str, str]:
        """As a resolved scenario holds them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def _mixed(compute: str, short: str, gradients: str) -> Types:
    return Types(compute, short, short, gradients, "fp32", short)


PRECISIONS: Mapping[str, Types] = MappingProxyType(
    {
        "fp32": Types.uniform("fp32"),
        "tf32": replace(Types.uniform("fp32"), compute="tf32"),
        "bf16": _mixed("bf16", "bf16", "fp32"),
        "fp16": _mixed("fp16", "fp16", "fp16"),
        "fp8": _mixed("fp8", "bf16", "fp32"),
        "fp64": Types.uniform("fp64"),
    }
)
"""What a training job is said to run in, and the types that this means."""


def types(precision: str, given: Mapping[str, str] | None = None) -> Types:
    """The types of a precision; ``given`` ones take their place.

    What is sent between ranks has the type of ``activations`` unless ``communication`` is given.
    """
    said = dict(given or {})
    if "activations" in said:
        said.setdefault("communication", said["activations"])
    return replace(PRECISIONS[precision], **said)
