"""Element types by the names that scenarios use, with their size in bytes.

:mod:`~.types` holds the types that a job uses for each kind of data.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_TYPES: Mapping[str, int] = MappingProxyType(
    {"fp32": 4, "fp16": 2, "bf16": 2, "tf32": 4, "fp64": 8, "int8": 1, "fp8": 1}
)
"""Name to bytes of one stored element. ``tf32`` is a mode of computing: it is stored in 4 bytes."""


def bytes_of(data_type: str) -> int:
    """Bytes of one element of ``data_type``."""
    return DATA_TYPES[data_type]
