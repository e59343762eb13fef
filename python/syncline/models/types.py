"""Element types of a training job, and the precisions that set all of them.

Mixed precision (Micikevicius et al. 2018) computes in a short type and accumulates in a longer one. With Adam, each
parameter then takes 2 + 4 + 12 bytes with ``bf16`` (parameter; gradient; moments and copy of the parameter), as in the
distributed optimizer of Megatron-LM; 2 + 2 + 12 with ``fp16``, as ZeRO counts (Rajbhandari et al. 2020, 3.1); 4 + 4 + 8
with ``fp32`` and ``tf32``. With ``fp8``, linear layers compute in fp8, and everything else is as with ``bf16``
(Micikevicius et al. 2022, and NVIDIA's Transformer Engine); copies of parameters in fp8 are not counted.
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
    """The type of each kind of data, with names of :data:`~.data_types.DATA_TYPES`."""

    compute: str
    """Type of the operands of linear layers' matrix products."""
    parameters: str
    """Type in which ranks hold and gather parameters."""
    activations: str
    """Type of the activations that layers pass on and keep, and in which all other operations compute."""
    gradients: str
    """Type in which gradients of parameters are summed, kept and reduced over data-parallel ranks."""
    optimizer: str
    """Type of the optimizer's states, and of its copy of the parameters if these have a shorter type."""
    communication: str
    """Type in which activations and their gradients are sent between tensor-parallel ranks and between stages."""

    @classmethod
    def uniform(cls, data_type: str) -> Types:
        """One type for everything."""
        return cls(*(data_type for _ in fields(cls)))

    @property
    def master(self) -> int:
        """Bytes of the optimizer's copy of a parameter; 0 if it keeps no copy."""
        state = bytes_of(self.optimizer)
        return state if bytes_of(self.parameters) < state else 0

    @property
    def others(self) -> str | None:
        """The type of operations other than linear layers, if linear layers compute in a narrower one; else None."""
        narrower = bytes_of(self.compute) < bytes_of(self.activations)
        return self.activations if narrower else None

    def as_dict(self) -> dict[str, str]:
        """The types in the form of a resolved scenario."""
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
"""Precisions, and the types of each."""


def types(precision: str, given: Mapping[str, str] | None = None) -> Types:
    """The types of a precision, with those in ``given`` replaced.

    Without ``communication``, data is sent between ranks in the type of ``activations``.
    """
    said = dict(given or {})
    if "activations" in said:
        said.setdefault("communication", said["activations"])
    return replace(PRECISIONS[precision], **said)
