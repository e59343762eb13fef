"""What a search assumes: the software that trains, and the largest numbers."""

from __future__ import annotations

FRAMEWORK = "megatron"
"""The software whose constants count."""
MOST_GPUS = 1_000_000
"""Most accelerators."""
MOST_SEQUENCES = 1 << 23
"""Most sequences of a step."""
