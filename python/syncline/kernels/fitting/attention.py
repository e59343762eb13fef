"""The model of fused attention, fitted to measured kernels."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.kernels.fitting.lattices import axis, encode
from syncline.kernels.fitting.least_squares import Constant, fit
from syncline.kernels.fitting.regression import Regression
from syncline.schemas import KERNEL_MODELS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from syncline.kernels.fitting.machines import Machine

    Array = NDArray[np.float64]

TILES = ((64, 64), (64, 128), (128, 128))
"""Queries and keys of the tiles of FlashAttention-2 and -3 and of cuDNN."""
LAUNCH_S = 2e-6
"""Time to launch the kernel, where only the sum with other kernels was measured: that of matrix products."""
REACHED = 0.85
"""Fraction of the memory's rate that kernels reach. Fits of matrix products find 0.78 to 0.87."""
_FIT_ROWS = 1500
_GROUPS = (1, 4, 16)
"""Points of lattices: query heads for each head of keys and values."""
_FEWEST_ROWS = 10
"""Rows of a head size and window that a lattice needs."""
_MOST = 48
"""Most points of a lattice for batch times heads, and for the sequence."""

BY_RULE: dict[str, dict[str, Any]] = {
    "A100-SXM4-80GB": {
        "flop_ratio": 2.5,
        "rate_ratio": 0.86,
        "source": "FlashAttention-2 (Dao, 2023): five matrix products backward, two forward (section 3.1); up to 63 % "
        "of the peak backward and 73 % forward on an A100 (abstract and section 4.1)",
    },
}
"""The backward pass where none was measured, by accelerator."""
RULE = {
    "flop_ratio": 2.5,
    "rate_ratio": 0.8,
    "source": "FlashAttention-2 (Dao, 2023): five matrix products backward, two forward; 63 and 73 % of the peak. "
    "FlashAttention-3 (Shah et al., 2024, section 4.1) is 1.5 to 2 times as fast forward and 1.5 to 1.75 times "
    "backward: 63/73 * 1.625/1.75",
}
"""The same for all other accelerators."""


@dataclass(frozen=True, slots=True)
class Attentions:
    """Measured attention kernels, one a row: batch, sequence, heads, kv heads, head size and window; and the mask."""

    shapes: NDArray[np.int64]
    causal: NDArray[np.bool_]
    seconds: Array

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, rows: Any) -> Attentions:
        """Some of the rows."""
        return Attentions(self.shapes[rows], self.causal[rows], self.seconds[rows])


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted pass, as a section of a file."""

    machine: Machine
    data_type: str
    section: dict[str, Any]

    def times(self, rows: Attentions, *, corrected: bool = True) -> Array:
        """Times of attention, in seconds."""
        import numpy as np

        document = {
            "schema": KERNEL_MODELS,
            "accelerator": self.machine.name,
            "software": "",
            "source": "",
            "multiprocessors": self.machine.multiprocessors,
            "attention": {"fit": data_type_section(self.data_type, self.section, None)},
            "memory_bound": {"launch_s": 1e-6, "bytes_per_s": 1e12, "range": [1, 1]},
        }
        models = _core.KernelModels.parse(json.dumps(document), "fit")
        shapes, causal = rows.shapes.tolist(), rows.causal.tolist()
        return np.array(models.attention_times("fit", shapes, causal, backward=False, corrected=corrected))


def data_type_section(data_type: str, forward: dict[str, Any], backward: dict[str, Any] | None) -> dict[str, Any]:
    """The section of a data type: its forward pass, and its backward pass if it was fitted."""
    width = 1.0 if data_type == "fp8" else 2.0
    return {
        "element_bytes": width,
        "forward": forward,
        "backward": {"rule": RULE} if backward is None else backward,
    }


def fit_attention(
    machine: Machine, data_type: str, rows: Attentions, *, prepares: bool, correct: bool = True
) -> Fitted:
    """The model of one pass with constants, and corrections unless not ``correct``.

    :param prepares: rows include rotary embedding and a copy of keys and values into a cache.
    """
    import numpy as np

    order = np.sort(np.random.default_rng(0).permutation(len(rows))[:_FIT_ROWS])
    fitted = _constants(machine, data_type, rows.take(order), prepares=prepares)
    batch_heads = rows.shapes[:, 0] * rows.shapes[:, 2]
    whole = {
        "batch_heads": [int(batch_heads.min()), int(batch_heads.max())],
        "sequence": [int(rows.shapes[:, 1].min()), int(rows.shapes[:, 1].max())],
        "full": bool((~rows.causal).any()),
    }
    fitted = replace(fitted, section={**fitted.section, "range": whole})
    if not correct:
        return fitted
    return replace(fitted, section={**fitted.section, "corrections": _corrections(fitted, rows)})


def _constants(machine: Machine, data_type: str, rows: Attentions, *, prepares: bool) -> Fitted:
    import numpy as np

    peak, memory = machine.flop_per_s(data_type), machine.memory_bytes_per_s
    constants = [
        Constant("flop_per_s", 0.7 * peak),
        # Sixteen exponentials for each multiprocessor and cycle at 1.8 GHz are 0.2 ns^-1 for each.
        Constant("scores_per_s", 10e9 * 1000 * machine.multiprocessors / 132 * 3),
        Constant("cache_bytes", machine.cache_bytes / 2),
        # The launch of the kernel alone is that of any kernel, if other kernels were measured with it.
        Constant("prepare_s" if prepares else "launch_s", 5e-6),
        Constant("tile_s", 1e-6),
        Constant("block_s", 5e-9),
        Constant("tail", 0.5),
        Constant("throttle", 0.1),
        Constant("throttle_s", 1e-3),
        *([Constant("prepare", 1.0)] if prepares else []),
    ]
    sizes = np.unique(rows.shapes[:, 4]).tolist()

    def made(values: list[float]) -> Fitted:
        named = {"launch_s": LAUNCH_S, "memory_bytes_per_s": REACHED * memory, "prepare": 0.0, "prepare_s": 0.0}
        named |= zip((each.name for each in constants), values, strict=False)
        efficiencies = values[len(constants) :]
        tiles = [[*sides, part] for sides, part in zip(TILES, efficiencies, strict=False)]
        heads = [[size, part] for size, part in zip(sizes, efficiencies[len(TILES) :], strict=True)]
        whole = {"batch_heads": [1, 1], "sequence": [1, 1]}
        return Fitted(machine, data_type, {"tiles": tiles, "heads": heads, "constants": named, "range": whole})

    def predict(values: list[float]) -> Array:
        return made(values).times(rows, corrected=False)

    efficiency = [Constant(f"{queries}x{keys}", 1.0, 0.2) for queries, keys in TILES]
    efficiency += [Constant(f"head {size}", 1.0, 0.2) for size in sizes]
    return made(fit([*constants, *efficiency], predict, rows.seconds))


def _corrections(fitted: Fitted, rows: Attentions) -> list[dict[str, Any]]:
    """The logarithm of measured over modelled time on a lattice for each head size and window, by regression."""
    import numpy as np

    found = []
    for size, window in np.unique(rows.shapes[:, 4:], axis=0).tolist():
        chosen = rows.take((rows.shapes[:, 4] == size) & (rows.shapes[:, 5] == window))
        if len(chosen) < _FEWEST_ROWS:
            continue
        off = np.log(chosen.seconds / fitted.times(chosen, corrected=False))
        regression = Regression(_points(fitted, chosen), off)
        axes = [
            axis(chosen.shapes[:, 0] * chosen.shapes[:, 2], 1.3, _MOST),
            axis(chosen.shapes[:, 1], 1.05, _MOST),
            list(_GROUPS),
        ]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        batch_heads, sequence, group = grid.T
        ones = np.ones(len(grid), dtype=np.int64)
        kv_heads = np.maximum(1, batch_heads // group)
        shapes = np.stack([ones, sequence, batch_heads, kv_heads, size * ones, window * ones], axis=1)
        nodes = Attentions(shapes, ones == 1, ones.astype(float))
        values = regression(_points(fitted, nodes)).reshape([len(axis) for axis in axes])
        found.append({"head_dim": size, "window": window, "lattice": encode(axes, values)})
    return found


def _points(fitted: Fitted, rows: Attentions) -> Array:
    """What distinguishes attention kernels of one head size: heads, sequences, groups and mask."""
    import numpy as np

    batch, sequence, heads, kv_heads = rows.shapes[:, :4].T.astype(float)
    tiles = np.ceil(sequence / TILES[-1][0]) * batch * heads / fitted.machine.multiprocessors
    idle = np.log(np.ceil(tiles) / tiles).clip(0, 2)
    return np.stack(
        [
            np.log(batch * heads) / 4,
            np.log(sequence) / 4,
            np.log(heads / kv_heads) / 16,
            idle / 4,
            rows.causal.astype(float),
        ],
        axis=1,
    )
