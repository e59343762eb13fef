"""Words that several sections of a scenario share."""

from __future__ import annotations

from typing import Literal

DataType = Literal["int8", "fp8", "bf16", "fp16", "tf32", "fp32", "fp64"]
"""Names of element types."""
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp64"]
"""Names of precisions that training runs in."""
