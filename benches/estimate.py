"""How fast configurations of language models are estimated.

Usage: estimate.py. Searches all configurations of three models, and prints configurations a minute on one core.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from requirement import print_out, requirement

from syncline.design.parallel import Request, read_model, search
from syncline.estimate import machine

MODELS = {
    "Llama 3 8B": (4096, 32, 32, 14336, 64),
    "Llama 3 70B": (8192, 80, 64, 28672, 512),
    "Llama 3.1 405B": (16384, 126, 128, 53248, 16384),
}
"""Hidden size, layers, heads, size of the feed-forward block, and accelerators."""
LEAST = 100_000
"""Configurations a minute."""
REPEATS = 5


def main() -> None:
    """Prints a line for each model."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (hidden, layers, heads, ffn, gpus) in MODELS.items():
            file = Path(folder) / f"{name}.json"
            config = {
                "model_type": "llama",
                "hidden_size": hidden,
                "num_hidden_layers": layers,
                "num_attention_heads": heads,
                "num_key_value_heads": 8,
                "intermediate_size": ffn,
                "vocab_size": 128_256,
            }
            file.write_text(json.dumps(config))
            request = Request(read_model(str(file)), machine("H100"), gpus, sequence=8192, global_batch=2 * gpus)
            seconds = []
            for _ in range(REPEATS):
                began = time.perf_counter()
                found = search(request)
                seconds.append(time.perf_counter() - began)
            rate = 60 * found.possible / min(seconds)
            print_out(
                f"{name} on {gpus} accelerators: {found.possible} configurations in {1e3 * min(seconds):.0f} ms, "
                f"{rate:,.0f} a minute {requirement(rate, LEAST)}"
            )


if __name__ == "__main__":
    main()
