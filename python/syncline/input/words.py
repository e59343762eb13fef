"""Words of fixed lists that several packages share."""

from __future__ import annotations

from typing import Literal, get_args

Collective = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"]
"""Names of collectives."""
Reduction = Literal["sum", "product", "min", "max", "bit_and", "bit_or", "bit_xor"]
"""Names of reductions, by which collectives and hubs combine elements."""
DataType = Literal["int8", "fp8", "bf16", "fp16", "tf32", "fp32", "fp64"]
"""Names of element types."""
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp64"]
"""Names of precisions that training runs in."""
Pass = Literal["forward", "input_grad", "weight_grad", "update"]
"""Names of the passes of a layer."""
PASSES: tuple[Pass, ...] = get_args(Pass)
"""The passes of a layer, in the order in which they happen."""
