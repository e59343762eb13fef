"""Words that several sections of a scenario have in common."""

from __future__ import annotations

from typing import Literal

DataType = Literal["int8", "fp8", "bf16", "fp16", "tf32", "fp32", "fp64"]
"""Types of elements, by the names that scenarios use."""
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp64"]
"""What training runs in."""
